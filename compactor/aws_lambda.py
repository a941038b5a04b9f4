"""The compactor as an AWS Lambda function: one pass per invocation.

The settings are those of LEDGER_CONFIG and `LEDGER_*`; the container image sets both. A pass is
asked to stop between two steps while time is left, and a pass cut off anywhere leaves nothing to
mend: the next one goes on. A failed pass raises, so Lambda counts it as an error.
"""

import asyncio
import json
import sys
import time
from collections.abc import Mapping
from typing import Protocol

import anyio

from compactor.job import Compactor, Report
from ledger.deploying.alarms import LEADING_METRIC, METRIC_NAMESPACE
from ledger.settings import Settings

STOP_MARGIN_SECONDS = 60.0
"""How long before Lambda's limit a pass is asked to stop: above one patient request and a hold."""


class Context(Protocol):
    """What is used of the context that Lambda hands in."""

    function_name: str

    def get_remaining_time_in_millis(self) -> int:
        """Give the milliseconds left before Lambda ends the invocation."""


def handler(_event: object, context: Context) -> dict[str, object]:
    """Run one pass and give its report; the event is not looked at.

    Raises:
        LedgerError: the settings are wrong, or the pass could not be made.
    """
    settings = Settings.load()
    seconds = context.get_remaining_time_in_millis() / 1000 - STOP_MARGIN_SECONDS
    report = anyio.run(run_bounded, Compactor(settings), max(0.0, seconds))
    line = metric_line(report, function_name=context.function_name, milliseconds=_now())
    sys.stdout.write(line + "\n")
    return as_mapping(report)


async def run_bounded(compactor: Compactor, seconds: float) -> Report:
    """Run one pass that is asked to stop after `seconds`."""
    stop = anyio.Event()
    timer = asyncio.get_running_loop().call_later(seconds, stop.set)
    try:
        return await compactor.run_once(stop=stop)
    finally:
        timer.cancel()


def _now() -> int:
    # CloudWatch stamps metrics by the wall clock; nothing else here reads it.
    return time.time_ns() // 1_000_000


def as_mapping(report: Report) -> dict[str, object]:
    """Give the report as Lambda returns it."""
    return {
        "led": report.led,
        "collections": report.collections,
        "folds": report.folds,
        "merged": report.merged,
        "deleted": report.deleted,
        "seconds": report.seconds,
    }


def metric_line(report: Report, *, function_name: str, milliseconds: int) -> str:
    """Give the log line from which CloudWatch makes the metrics that the alarms watch.

    It is in CloudWatch's embedded metric format, so the function needs no permission for it.
    """
    values: Mapping[str, float] = {
        LEADING_METRIC: int(report.led),
        "Folds": report.folds,
        "EntriesMerged": report.merged,
        "EntriesDeleted": report.deleted,
    }
    description = {
        "Timestamp": milliseconds,
        "CloudWatchMetrics": [
            {
                "Namespace": METRIC_NAMESPACE,
                "Dimensions": [["FunctionName"]],
                "Metrics": [{"Name": name, "Unit": "Count"} for name in values],
            }
        ],
    }
    return json.dumps({"_aws": description, "FunctionName": function_name, **values})
