"""CloudWatch alarms of the scheduled compactor, and of the table as the home region sees it.

An alarm watches metrics of its own region only; `replication_alarms` are for every region.

Pure: no clock, no randomness, no I/O.
"""

from typing import Any

from ledger.administration.templates.alarm_parts import (
    SILENCE_PERIOD_SECONDS,
    alarm,
    function_alarm,
    queue_alarm,
)
from ledger.administration.templates.rendering import ref
from ledger.settings import Settings

METRIC_NAMESPACE = "Ledger/Compactor"
LEADING_METRIC = "LeadingPasses"
"""Written by `compactor.aws_lambda` for each pass that led and ended well."""

SILENCE_PERIODS = 3
"""No leading pass for three times five minutes is an alarm."""
TABLE_ERRORS_MAX = 5
"""In five minutes; single ones are retried without harm."""
OPERATIONS = ("PutItem", "BatchWriteItem", "TransactWriteItems", "GetItem", "Query", "Scan")
"""DynamoDB counts SystemErrors per operation; an alarm may add up ten metrics at most."""


def alarms(settings: Settings) -> dict[str, Any]:
    """Return the alarms: resources for a template with `Function`, `DeadLetters` and a topic."""
    return {
        "FailingAlarm": function_alarm("Errors", "The compactor fails"),
        "ThrottledAlarm": function_alarm(
            "Throttles", "The account's Lambda concurrency is used up: passes are dropped"
        ),
        "SilentAlarm": _silent(),
        "DeadLettersAlarm": queue_alarm(
            "DeadLetters", "Invocations were dropped or failed: the messages in the queue say why"
        ),
        "SystemErrorsAlarm": _system_errors(settings),
        "TableThrottledAlarm": _table_throttled(settings),
    }


def _silent() -> dict[str, Any]:
    return alarm(
        "No pass has led and ended well for 15 minutes: totals stay right, the backlog grows",
        Namespace=METRIC_NAMESPACE,
        MetricName=LEADING_METRIC,
        Dimensions=[{"Name": "FunctionName", "Value": ref("Function")}],
        Statistic="Sum",
        Period=SILENCE_PERIOD_SECONDS,
        EvaluationPeriods=SILENCE_PERIODS,
        Threshold=1,
        ComparisonOperator="LessThanThreshold",
        TreatMissingData="breaching",
    )


def _system_errors(settings: Settings) -> dict[str, Any]:
    table = {"Name": "TableName", "Value": settings.table}
    return _sum_alarm(
        "DynamoDB answers with errors of its own in the home region",
        "SystemErrors",
        [[table, {"Name": "Operation", "Value": operation}] for operation in OPERATIONS],
    )


def _table_throttled(settings: Settings) -> dict[str, Any]:
    table = {"Name": "TableName", "Value": settings.table}
    return _sum_alarm(
        "The table is throttled in the home region: a hot counter may need shards",
        "ThrottledRequests",
        [[table, {"Name": "Operation", "Value": operation}] for operation in OPERATIONS],
    )


def _sum_alarm(description: str, metric: str, dimensions: list[list[Any]]) -> dict[str, Any]:
    parts = [
        {
            "Id": f"m{number}",
            "ReturnData": False,
            "MetricStat": {
                "Metric": {
                    "Namespace": "AWS/DynamoDB",
                    "MetricName": metric,
                    "Dimensions": each,
                },
                "Period": SILENCE_PERIOD_SECONDS,
                "Stat": "Sum",
            },
        }
        for number, each in enumerate(dimensions)
    ]
    total = {"Id": "total", "Expression": "SUM(METRICS())", "ReturnData": True}
    return alarm(
        description,
        Metrics=[total, *parts],
        EvaluationPeriods=1,
        Threshold=TABLE_ERRORS_MAX,
        ComparisonOperator="GreaterThanOrEqualToThreshold",
        TreatMissingData="notBreaching",
    )
