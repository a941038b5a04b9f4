"""The compactor as an AWS Lambda function: one pass per invocation.

The settings are those of LEDGER_CONFIG and `LEDGER_*`; the container image sets both. A pass is
asked to stop between two steps while time is left, and a pass cut off anywhere leaves nothing to
repair: the next one continues. A failed pass raises, so Lambda counts it as an error.
"""

import asyncio
import dataclasses
import sys
from collections.abc import Mapping
from datetime import datetime

import anyio

from compactor.job import Compactor
from compactor.report import CompactorReport
from ledger.administration.templates.alarms import (
    ACCOUNTS_METRIC,
    ARCHIVE_METRIC,
    FULL_BOOKS_METRIC,
    GRANTS_METRIC,
    LATE_METRIC,
    LEADING_METRIC,
    METRIC_NAMESPACE,
)
from ledger.runtime import cloudwatch
from ledger.runtime.clock import SystemClock
from ledger.runtime.cloudwatch import LambdaContext
from ledger.runtime.loops import run_tuned
from ledger.settings import Settings

STOP_MARGIN_SECONDS = 60.0
"""How long before Lambda's limit a pass is asked to stop: longer than one request and a hold."""


def handler(_event: object, context: LambdaContext) -> dict[str, object]:
    """Run one pass and return its report; the event is ignored.

    Raises:
        LedgerError: the settings are wrong, or the pass could not be made.
    """
    settings = Settings.load()
    seconds = context.get_remaining_time_in_millis() / 1000 - STOP_MARGIN_SECONDS
    report = run_tuned(run_bounded(Compactor(settings), max(0.0, seconds)))
    now = SystemClock().now()
    sys.stdout.write(metric_line(report, function_name=context.function_name, now=now) + "\n")
    return dataclasses.asdict(report)


async def run_bounded(compactor: Compactor, seconds: float) -> CompactorReport:
    """Run one pass that is asked to stop after `seconds`."""
    stop = anyio.Event()
    timer = asyncio.get_running_loop().call_later(seconds, stop.set)
    try:
        return await compactor.run_once(stop=stop)
    finally:
        timer.cancel()


def metric_line(report: CompactorReport, *, function_name: str, now: datetime) -> str:
    """Return the log line from which CloudWatch derives the metrics that the alarms watch."""
    some: Mapping[str, float] = {
        "Crossings": report.crossings,
        ARCHIVE_METRIC: report.archive_waits,
        ACCOUNTS_METRIC: report.accounts_bytes,
        FULL_BOOKS_METRIC: len(report.books_full),
        GRANTS_METRIC: report.grants_waiting,
    }
    values: Mapping[str, float] = {
        LEADING_METRIC: int(report.led and report.is_success),
        "Folds": report.folds,
        "EntriesMerged": report.merged,
        "EntriesDeleted": report.deleted,
        "Backlog": report.backlog,
        LATE_METRIC: report.late,
        "DamagedCollections": report.damaged,
        # Only if there are any: a metric that is never written costs nothing.
        **{name: value for name, value in some.items() if value},
    }
    return cloudwatch.metric_line(
        values, namespace=METRIC_NAMESPACE, function_name=function_name, now=now
    )
