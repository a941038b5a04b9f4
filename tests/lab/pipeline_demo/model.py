"""What a rate of messages takes on AWS: processes, shards, units and dollars, from measured runs.

A message costs processor time and write units by itself, for its state, and by its part of the
changes of totals, of which each reduce makes one for every category in it. The more messages a lane
gathers for a reduce, the smaller that part. Lanes share nothing but the table, so that neither cost
depends on how many there are: that is what the tests hold against measured lanes.

A table's own limits (units a second of an account, of a partition) are not in it, nor are storage,
transfer between regions, logs and alarms.

Pure: no clock, no randomness, no I/O.
"""

from dataclasses import dataclass
from math import ceil

from ledger.administration import estimate

HOUR_SECONDS = 3_600
BUSY_SHARE = 0.7
"""Of a core that a process may use at a steady rate: the rest is for peaks and restarts."""
SHARD_RECORDS, SHARD_BYTES = 1_000, 1_000_000
"""A second, of a shard (docs.aws.amazon.com/streams/latest/dev/service-sizes-and-limits.html)."""
PUT_BYTES = 25_000
"""Of one payload unit (aws.amazon.com/kinesis/data-streams/pricing)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices(estimate.Prices):
    """Those of the table, and of what stands around it.

    Sources: shards and puts aws.amazon.com/kinesis/data-streams/pricing (the put's price not looked
    up again); Fargate as in `estimate`.
    """

    shard_hour: float = 0.015
    put_million: float = 0.014
    gigabyte_hour: float = 0.004445


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a message and a change of a total take: seconds of a core, units in one region.

    A process takes `process_seconds` once. A reduce changes up to `categories` totals, and a full
    lane makes `reduces_second`; each message belongs to `levels` categories.
    """

    message_seconds: float
    change_seconds: float
    message_units: float
    process_seconds: float = 0.0
    change_units: float = 2.0
    read_units: float = 0.01
    categories: int = 52
    levels: int = 3
    reduces_second: float = 2.5
    message_bytes: int = 200
    process_gigabytes: float = 0.5

    def core_seconds(self, messages: float, changes: float, *, processes: int = 0) -> float:
        """Return the seconds of a core of the workers of any number of lanes, and of starts."""
        work = messages * self.message_seconds + changes * self.change_seconds
        return work + processes * self.process_seconds

    def changes(self, rate: float, lanes: int) -> float:
        """Return the changes of totals a second that lanes make of a rate."""
        return min(lanes * self.reduces_second * self.categories, rate * self.levels)

    def units(self, messages: float, changes: float) -> float:
        """Return the write units in one region."""
        return messages * self.message_units + changes * self.change_units


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """A run of the demo: its lanes and processes, and what they did and took."""

    lanes: int
    processes: int
    messages: int
    changes: int
    seconds: float
    units: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a rate takes: counts, units a second in all regions, and dollars an hour by what for."""

    rate: float
    processes: int
    shards: int
    write_units: float
    read_units: float
    table_dollars: float
    stream_dollars: float
    process_dollars: float

    @property
    def dollars_hour(self) -> float:
        """All dollars of an hour."""
        return self.table_dollars + self.stream_dollars + self.process_dollars

    @property
    def dollars_million(self) -> float:
        """All dollars of a million messages."""
        return self.dollars_hour / (self.rate * HOUR_SECONDS) * 1e6

    @property
    def lanes_in_process(self) -> int:
        """Lanes that a process has at most: each shard is one."""
        return ceil(self.shards / self.processes)


def needs_of(rate: float, load: Load, *, regions: int = 1, prices: Prices = Prices()) -> Needs:
    """Return what a steady rate of messages a second takes.

    There are at least as many shards as processes, since a lane has one process.
    """
    shards = ceil(max(rate / SHARD_RECORDS, rate * load.message_bytes / SHARD_BYTES))
    while (processes := _processes(rate, shards, load)) > shards:
        shards = processes  # whose reduces may take more processes again
    changes = load.changes(rate, shards)
    writes, reads = load.units(rate, changes) * regions, rate * load.read_units
    millions = HOUR_SECONDS / 1e6
    puts = rate * ceil(load.message_bytes / PUT_BYTES)
    machine = prices.core_hour + load.process_gigabytes * prices.gigabyte_hour
    return Needs(
        rate=rate,
        processes=processes,
        shards=shards,
        write_units=writes,
        read_units=reads,
        table_dollars=millions * (writes * prices.write_million + reads * prices.read_million),
        stream_dollars=shards * prices.shard_hour + millions * puts * prices.put_million,
        process_dollars=processes * machine,
    )


def _processes(rate: float, lanes: int, load: Load) -> int:
    return ceil(load.core_seconds(rate, load.changes(rate, lanes)) / BUSY_SHARE)


MEASURED = Load(
    message_seconds=0.00011, change_seconds=0.00014, process_seconds=0.65, message_units=0.95
)
"""Of the runs below: dynoxide, 23 November 2026, on two cores that other work used as well."""
MEASURED_RUNS = (
    MeasuredRun(lanes=1, processes=1, messages=16_000, changes=1_196, seconds=2.20, units=18_098),
    MeasuredRun(lanes=2, processes=2, messages=16_000, changes=2_000, seconds=3.52, units=19_033),
    MeasuredRun(lanes=3, processes=3, messages=16_000, changes=2_634, seconds=4.15, units=19_675),
    MeasuredRun(lanes=4, processes=4, messages=16_000, changes=3_629, seconds=5.50, units=21_166),
    MeasuredRun(lanes=4, processes=1, messages=16_000, changes=3_893, seconds=2.54, units=21_729),
    MeasuredRun(
        lanes=1, processes=1, messages=100_000, changes=11_479, seconds=15.12, units=124_726
    ),
)
