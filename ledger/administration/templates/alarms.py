"""CloudWatch alarms of the scheduled compactor, and of the table as the home region sees it.

An alarm watches metrics of its own region only; `replication_alarms` are for every region.

Pure: no clock, no randomness, no I/O.
"""

from typing import Any

from ledger.administration.templates.alarm_parts import (
    READS,
    SILENCE_PERIOD_SECONDS,
    WRITES,
    alarm,
    function_alarm,
    operation_metrics,
    queue_alarm,
)
from ledger.administration.templates.template_text import ref
from ledger.core.books import ACCOUNTS_BYTES_OPEN
from ledger.settings import Settings

MERGING = "backlog-growing"
"""The runbook for everything that keeps passes from merging."""
METRIC_NAMESPACE = "Ledger/Compactor"
LEADING_METRIC = "LeadingPasses"
"""Written by `compactor.aws_lambda` for each successful pass that led."""

LATE_METRIC = "LateSeconds"
"""Also written by it: how late a pass has left merging."""
LATE_SECONDS = 1_800.0
LATE_PERIODS = 6
"""Half an hour late, for half an hour."""

ARCHIVE_METRIC = "ArchiveWaits"
"""Written by it if there are any: folds not sent because a place refused their entries."""
ARCHIVE_PERIODS = 3
"""In each of three times five minutes: a place that fails once is asked again a minute later."""

ACCOUNTS_METRIC = "AccountsBytes"
FULL_BOOKS_METRIC = "FullBooks"
GRANTS_METRIC = "GrantsWaiting"
"""Also written by it if there are any: the size of the largest book's accounts, books that are
full, and grants of budgets that are over and cannot be closed."""
SEARCH_PERIOD_SECONDS = 3_600
"""A search sees every book and budget, by default each hour; a pass in between those with hints."""
GRANTS_PERIODS = 2

SILENCE_PERIODS = 3
"""No leading pass for three times five minutes is an alarm."""
TABLE_ERRORS_MAX = 5
"""In five minutes; single ones are retried without harm."""


def alarms(settings: Settings) -> dict[str, Any]:
    """Return the alarms: resources for a template with `Function`, `DeadLetters` and a topic."""
    return {
        "FailingAlarm": function_alarm("Errors", "The compactor fails", runbook=MERGING),
        "ThrottledAlarm": function_alarm(
            "Throttles",
            "The account's Lambda concurrency is used up: passes are dropped",
            runbook=MERGING,
        ),
        "SilentAlarm": _silent(),
        "LateAlarm": _late(),
        **({"ArchiveAlarm": _archive_waits()} if settings.terms.archive else {}),
        **(_books() if settings.terms.books else {}),
        **({"GrantsAlarm": _grants_wait()} if settings.terms.budgets else {}),
        "DeadLettersAlarm": queue_alarm(
            "DeadLetters",
            "Invocations were dropped or failed: the messages in the queue say why",
            runbook=MERGING,
        ),
        "SystemErrorsAlarm": _system_errors(settings),
        "TableThrottledAlarm": _table_throttled(settings),
    }


def _silent() -> dict[str, Any]:
    return _passes_alarm(
        LEADING_METRIC,
        "No pass has led and ended well for 15 minutes: totals stay right, the backlog grows",
        Statistic="Sum",
        EvaluationPeriods=SILENCE_PERIODS,
        ComparisonOperator="LessThanThreshold",
        TreatMissingData="breaching",
    )


def _late() -> dict[str, Any]:
    return _passes_alarm(
        LATE_METRIC,
        "Merging is half an hour late, and does not catch up: totals stay right. Run the compactor"
        " as a service, in several processes, or give a hot counter shards",
        Statistic="Minimum",
        EvaluationPeriods=LATE_PERIODS,
        Threshold=LATE_SECONDS,
        ComparisonOperator="GreaterThanThreshold",
    )


def _archive_waits() -> dict[str, Any]:
    return _passes_alarm(
        ARCHIVE_METRIC,
        "A place of the archive does not take what is put there, for 15 minutes: nothing is merged,"
        " totals stay right. The log says which place, and why",
        runbook="archive-waits",
        Statistic="Sum",
        EvaluationPeriods=ARCHIVE_PERIODS,
    )


def _books() -> dict[str, Any]:
    """Return the alarms on books without room, which a search sees."""
    return {
        "BooksNearlyFullAlarm": _search_alarm(
            ACCOUNTS_METRIC,
            "The accounts of a book are near their bound: no account is opened there",
            Threshold=ACCOUNTS_BYTES_OPEN,
            ComparisonOperator="GreaterThanThreshold",
        ),
        "FullBooksAlarm": _search_alarm(
            FULL_BOOKS_METRIC,
            "A book has no room for its transfers: they stay unmerged, balances stay right. The log"
            " names the book",
        ),
    }


def _grants_wait() -> dict[str, Any]:
    return _search_alarm(
        GRANTS_METRIC,
        "Grants of budgets are past their time and are not closed, for two hours: what is left of"
        " them, and what was credited under them, cannot be spent: a region is not read, or lost",
        runbook="budget-exceeded",
        EvaluationPeriods=GRANTS_PERIODS,
    )


def _search_alarm(metric: str, description: str, **properties: Any) -> dict[str, Any]:
    """Return an alarm on what a search sees: by default, that the last one saw anything."""
    of_search = {"Statistic": "Maximum", "Period": SEARCH_PERIOD_SECONDS, "EvaluationPeriods": 1}
    return _passes_alarm(metric, description, **{**of_search, **properties})


def _passes_alarm(
    metric: str, description: str, *, runbook: str = MERGING, **properties: object
) -> dict[str, Any]:
    """Return an alarm on a metric that passes write: by default, that there is anything."""
    return alarm(
        description,
        runbook=runbook,
        Namespace=METRIC_NAMESPACE,
        MetricName=metric,
        Dimensions=[{"Name": "FunctionName", "Value": ref("Function")}],
        **{
            "Period": SILENCE_PERIOD_SECONDS,
            "Threshold": 1,
            "ComparisonOperator": "GreaterThanOrEqualToThreshold",
            "TreatMissingData": "notBreaching",
            **properties,
        },
    )


def _system_errors(settings: Settings) -> dict[str, Any]:
    return _sum_alarm(
        settings,
        "DynamoDB answers with errors of its own in the home region",
        "SystemErrors",
        runbook="calls-fail",
    )


def _table_throttled(settings: Settings) -> dict[str, Any]:
    return _sum_alarm(
        settings,
        "The table is throttled in the home region: a hot counter may need shards",
        "ThrottledRequests",
        runbook="shards-grown",
    )


def _sum_alarm(
    settings: Settings, description: str, metric: str, *, runbook: str
) -> dict[str, Any]:
    return alarm(
        description,
        runbook=runbook,
        Metrics=operation_metrics(settings.table, metric, "Sum", (*WRITES, *READS)),
        EvaluationPeriods=1,
        Threshold=TABLE_ERRORS_MAX,
        ComparisonOperator="GreaterThanOrEqualToThreshold",
        TreatMissingData="notBreaching",
    )
