"""A Lambda function's context, and its metrics as log lines from which CloudWatch makes metrics.

Pure: no clock, no randomness, no I/O.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

PIPELINE_NAMESPACE = "Ledger/Pipeline"
"""The namespace of the metrics that `ledger.pipeline.aws.aws_lambda` logs."""


class LambdaContext(Protocol):
    """The part of Lambda's context that is used."""

    function_name: str

    def get_remaining_time_in_millis(self) -> int:
        """Return the milliseconds left before Lambda ends the invocation."""


def metric_line(
    values: Mapping[str, float], *, namespace: str, function_name: str, now: datetime
) -> str:
    """Return the line of some metrics; a name that ends in Seconds is a time, others are counts.

    It is in CloudWatch's embedded metric format, so the function needs no permission for it.
    """
    described = [{"Name": name, "Unit": _unit(name)} for name in values]
    description = {
        "Timestamp": int(now.timestamp() * 1000),
        "CloudWatchMetrics": [
            {"Namespace": namespace, "Dimensions": [["FunctionName"]], "Metrics": described}
        ],
    }
    return json.dumps({"_aws": description, "FunctionName": function_name, **values})


def _unit(name: str) -> str:
    return "Seconds" if name.endswith("Seconds") else "Count"
