"""What a trial on AWS costs by the shipped templates: units times prices, line by line.

A trial deploys table, pipeline and compactor, sends so many messages at a rate through a stream in
one region, and is torn down; hours are counted whole. Units of the table are those of the model
(`model.py`), of all regions. Storage of a few hours, logs, transfer between regions and AWS's free
tier are not in it.

Not measured on AWS: how long an invocation takes.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

from lab.pipeline_demo.model import HOUR_SECONDS, Load, Prices

SHARDS = 4
"""Of a new stream on demand, which takes 4 MB/s (docs.aws.amazon.com/streams, "Choose the data
stream capacity mode")."""
EVENT_RECORDS, EVENT_SECONDS = 500, 1.0
"""`BatchRecords` and `BatchSeconds` of the pipeline's template."""
INVOCATION_SECONDS = 0.5
FUNCTION_GIGABYTES = 1.0
MARK_WRITES, MARK_READS = 1.0, 2.0
"""Units of each event (deploy/README.md, "Costs")."""
PASSES_HOUR, PASS_SECONDS, PASS_GIGABYTES = 60, 5.0, 0.5
ALARMS = 12
"""Of the pipeline's stack and the compactor's."""
MONTH_HOURS = 730
TABLE_PRICES = Prices()
RECORD_BYTES_MIN = 1_024
"""To which each record is rounded up where data is billed (aws.amazon.com/kinesis/data-streams/
pricing)."""


@dataclass(frozen=True, slots=True)
class TrialPrices:
    """Dollars in us-east-1, beside those of the table.

    Sources: Lambda docs.aws.amazon.com/whitepapers/latest/how-aws-pricing-works/lambda.html, read
    in November 2026; alarms c3x.dev/resources/aws/aws_cloudwatch_metric_alarm, likewise; what of a
    stream on demand is billed aws.amazon.com/kinesis/data-streams/pricing, its figures from memory
    of that page in 2025, not looked up again.
    """

    stream_hour: float = 0.04
    gigabyte_in: float = 0.08
    gigabyte_out: float = 0.04
    requests_million: float = 0.20
    gigabyte_second: float = 0.00001667
    alarm_month: float = 0.10


class Line(NamedTuple):
    """One thing that is billed: how many units, at which price each, and their dollars."""

    name: str
    units: float
    price: float

    @property
    def dollars(self) -> float:
        """What it costs."""
        return self.units * self.price


def hours_of(messages: int, rate: float) -> int:
    """Return the hours that are billed for so many messages at a rate."""
    return max(1, ceil(messages / rate / HOUR_SECONDS))


def trial_of(
    messages: int,
    rate: float,
    load: Load,
    *,
    regions: int = 1,
    prices: Prices = TABLE_PRICES,
    more: TrialPrices = TrialPrices(),
) -> Sequence[Line]:
    """Return what a trial of so many messages costs, the table first."""
    seconds, hours = messages / rate, hours_of(messages, rate)
    by_time = ceil(seconds / EVENT_SECONDS) * SHARDS
    events = min(messages, max(by_time, ceil(messages / EVENT_RECORDS)))
    changes = load.changes(rate, SHARDS) * seconds
    writes = (load.units(messages, changes) + events * MARK_WRITES) * regions
    reads = messages * load.read_units + events * MARK_READS
    gigabytes = messages * max(load.message_bytes, RECORD_BYTES_MIN) / 1e9
    passes = PASSES_HOUR * hours
    memory = events * INVOCATION_SECONDS * FUNCTION_GIGABYTES
    return (
        Line("table: write units", writes, prices.write_million / 1e6),
        Line("table: read units", reads, prices.read_million / 1e6),
        Line("stream: hours", hours, more.stream_hour),
        Line("stream: gigabytes in", gigabytes, more.gigabyte_in),
        Line("stream: gigabytes out", gigabytes, more.gigabyte_out),
        Line("functions: invocations", events + passes, more.requests_million / 1e6),
        Line(
            "functions: gigabyte-seconds",
            memory + passes * PASS_SECONDS * PASS_GIGABYTES,
            more.gigabyte_second,
        ),
        Line("alarms: months", ALARMS * hours / MONTH_HOURS, more.alarm_month),
    )
