"""What alarms share: sent to one topic, on metrics of a function, a queue or a table's operations.

DynamoDB counts requests, errors and throttling of each operation separately. Source: Amazon
DynamoDB Developer Guide, "DynamoDB metrics and dimensions": `Operation` is an operation by name,
including `BatchExecuteStatement`, for which `OperationType` is emitted, too. It does not say
whether its metrics then exist only under both dimensions, so both are counted; an alarm may add up
ten metrics.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Iterable
from typing import Any

from ledger.administration.templates.template_text import attribute, function, ref

RUNBOOKS = "deploy/runbooks"
MINUTE_SECONDS = 60
SILENCE_PERIOD_SECONDS = 300
STATEMENTS = "BatchExecuteStatement"
WRITES = (
    "PutItem",
    "UpdateItem",
    "DeleteItem",
    "BatchWriteItem",
    STATEMENTS,
    "TransactWriteItems",
)
"""Every operation by which the ledger writes, except ExecuteTransaction: an alarm adds up ten
metrics, and only strict writers send it, whose other writes are among these."""
READS = ("GetItem", "Query", "Scan")
"""Every operation by which it reads items, except BatchGetItem, which fails where GetItem does."""


def alarm(description: str, *, runbook: str, **properties: object) -> dict[str, Any]:
    """Return an alarm of a template that has the parameter `AlarmTopicArn`."""
    notifying = notified(description, runbook=runbook, **properties)
    return {"Type": "AWS::CloudWatch::Alarm", "Properties": notifying}


def notified(description: str, *, runbook: str, **properties: object) -> dict[str, Any]:
    """Return the properties of an alarm that notifies `AlarmTopicArn`, if that is given.

    `runbook` is the name of the page that says what to do.
    """
    topic = function("!If", "HasAlarmTopic", ref("AlarmTopicArn"), ref("AWS::NoValue"))
    return {
        "AlarmDescription": f"{description}. Runbook: {RUNBOOKS}/{runbook}.md",
        "AlarmActions": [topic],
        "OKActions": [topic],
        **properties,
    }


def function_alarm(metric: str, description: str, *, runbook: str) -> dict[str, Any]:
    """Return an alarm on a metric of `Function` that counts what goes wrong."""
    return alarm(
        f"{description}; in 3 of 5 minutes",
        runbook=runbook,
        Namespace="AWS/Lambda",
        MetricName=metric,
        Dimensions=[{"Name": "FunctionName", "Value": ref("Function")}],
        Statistic="Sum",
        Period=MINUTE_SECONDS,
        EvaluationPeriods=5,
        DatapointsToAlarm=3,
        Threshold=1,
        ComparisonOperator="GreaterThanOrEqualToThreshold",
        TreatMissingData="notBreaching",
    )


def queue_alarm(queue: str, description: str, *, runbook: str) -> dict[str, Any]:
    """Return an alarm on a queue that should be empty."""
    return alarm(
        description,
        runbook=runbook,
        Namespace="AWS/SQS",
        MetricName="ApproximateNumberOfMessagesVisible",
        Dimensions=[{"Name": "QueueName", "Value": attribute(f"{queue}.QueueName")}],
        Statistic="Maximum",
        Period=SILENCE_PERIOD_SECONDS,
        EvaluationPeriods=1,
        Threshold=1,
        ComparisonOperator="GreaterThanOrEqualToThreshold",
        TreatMissingData="notBreaching",
    )


def operation_metrics(
    table: str, metric: str, statistic: str, operations: Iterable[str]
) -> list[dict[str, Any]]:
    """Return a metric of a table's operations and, first, their sum, which the alarm uses."""
    named = {"Name": "TableName", "Value": table}
    of_each: list[list[dict[str, Any]]] = []
    for operation in operations:
        of_each.append([named, {"Name": "Operation", "Value": operation}])
        if operation == STATEMENTS:
            of_each.append([*of_each[-1], {"Name": "OperationType", "Value": "Write"}])
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
                "Stat": statistic,
            },
        }
        for number, each in enumerate(of_each)
    ]
    total = {"Id": "total", "Expression": "SUM(METRICS())", "ReturnData": True}
    return [total, *parts]
