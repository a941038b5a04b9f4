"""What alarms of our functions share: sent to one topic, on a function's or a queue's metrics.

Pure: no clock, no randomness, no I/O.
"""

from typing import Any

from ledger.administration.templates.rendering import attribute, function, ref

MINUTE_SECONDS = 60
SILENCE_PERIOD_SECONDS = 300


def alarm(description: str, **properties: object) -> dict[str, Any]:
    """Return an alarm of a template that has the parameter `AlarmTopicArn`."""
    return {"Type": "AWS::CloudWatch::Alarm", "Properties": notified(description, **properties)}


def notified(description: str, **properties: object) -> dict[str, Any]:
    """Return the properties of an alarm that notifies `AlarmTopicArn`, if that is given."""
    topic = function("!If", "HasAlarmTopic", ref("AlarmTopicArn"), ref("AWS::NoValue"))
    return {
        "AlarmDescription": description,
        "AlarmActions": [topic],
        "OKActions": [topic],
        **properties,
    }


def function_alarm(metric: str, description: str) -> dict[str, Any]:
    """Return an alarm on a metric of `Function` that counts what goes wrong."""
    return alarm(
        f"{description}; in 3 of 5 minutes",
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


def queue_alarm(queue: str, description: str) -> dict[str, Any]:
    """Return an alarm on a queue that should be empty."""
    return alarm(
        description,
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
