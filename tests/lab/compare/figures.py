"""What is measured of each method, and the figures derived from it.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Mapping
from dataclasses import dataclass

LEDGER_SHARDED = "collection-sharded"
LEDGER_COMBINED = "collection, combined"
"""The ledger with a counter in shards, or combined: an option of the table, no method of its own.
"""
ARRIVING_SECONDS = 10.0
"""How long changes arrive at a rate of their own."""
MANY = 20
AT_ONCE, AFTER_ONE, AFTER_MANY = "at once", "1 other", f"{MANY} others"
MINUTES_LATER, DAYS_LATER, ELSEWHERE = "11 min", "8 days", "away"
MOMENTS = (AT_ONCE, AFTER_ONE, AFTER_MANY, MINUTES_LATER, DAYS_LATER, ELSEWHERE)
"""What lies between a change and the repeat of its token; away: in another region, replicated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Changes of +1 by concurrent writers of one region, with some answers lost.

    `applied`, `unknown`, `rejected` and `refused` (an error, nothing written) are the answers that
    callers got, `value` is what was kept. `requests` counts the writes sent, the store's retries
    included; the share `lost` of them got no answer. Units are of one region, for all changes
    together.
    """

    changes: int
    lost: float
    applied: int
    unknown: int
    rejected: int
    refused: int
    value: int
    requests: int
    write_units: float
    read_units: float
    p50_milliseconds: float
    p99_milliseconds: float

    @property
    def true_value(self) -> int:
        """The value if every change that was not reported as rejected or refused counted once."""
        return self.changes - self.not_written

    @property
    def not_written(self) -> int:
        """The changes that were reported as rejected or refused."""
        return self.rejected + self.refused

    @property
    def error(self) -> int:
        """The value kept, less the true one."""
        return self.value - self.true_value

    @property
    def silent_error(self) -> int:
        """How far the value is from every value that the callers' answers allow."""
        return max(self.applied - self.value, self.value - self.applied - self.unknown, 0)

    @property
    def repeated(self) -> float:
        """The share of the writes sent that repeat an earlier write of the same change."""
        return max(0.0, 1 - self.changes / self.requests) if self.requests else 0.0


@dataclass(frozen=True, slots=True)
class Alone:
    """Units of one change by a lone writer without faults."""

    write_units: float
    read_units: float

    def __str__(self) -> str:
        return f"{self.write_units:g} / {self.read_units:g}"


@dataclass(frozen=True, slots=True)
class Repeat:
    """How often a change counts whose token came twice; `refused`: the repeat was an error."""

    times: int
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Partitioned:
    """Changes of +1 made in all regions during a partition, and the values after it."""

    applied: int
    values: Mapping[str, int]

    @property
    def least(self) -> int:
        """The lowest value that a region shows."""
        return min(self.values.values())

    @property
    def most(self) -> int:
        """The highest value that a region shows."""
        return max(self.values.values())

    @property
    def lost(self) -> int:
        """How many of the changes reported as applied the worst region lacks."""
        return self.applied - self.least

    @property
    def agree(self) -> bool:
        """Whether all regions show the same value."""
        return self.least == self.most


@dataclass(frozen=True, slots=True)
class Sold:
    """Sales of single pieces from a stock that must not fall below 0.

    `sold` pieces were reported as sold, `unknown` buyers got no answer, the others were turned
    away.
    """

    stock: int
    buyers: int
    sold: int
    unknown: int

    @property
    def oversold(self) -> int:
        """Pieces sold that were not in stock."""
        return max(0, self.sold - self.stock)

    @property
    def unsold(self) -> int:
        """Pieces left in stock although buyers were turned away."""
        return max(0, min(self.stock, self.buyers) - self.sold - self.unknown)


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodFigures:
    """All that is measured of one method; `repeats` by the moment of the repeat."""

    method: str
    alone: Alone
    counted: Counted
    repeats: Mapping[str, Repeat]
    partitioned: Partitioned
    sold: Sold
    sold_partitioned: Sold

    @property
    def price(self) -> float:
        """Write units per change of the workload that was not reported as not written."""
        return self.counted.write_units / max(1, self.counted.true_value)

    @property
    def read_price(self) -> float:
        """Read units per such change."""
        return self.counted.read_units / max(1, self.counted.true_value)


@dataclass(frozen=True, slots=True)
class Point:
    """What concurrent writers of one counter achieve on the model.

    `repeated` is the share of the writes sent that repeat an earlier one, `failed` the share of
    the changes that were not made in the end.
    """

    writers: int
    useful_per_second: float
    repeated: float
    failed: float = 0.0


@dataclass(frozen=True, slots=True)
class Backlog:
    """What becomes of changes that arrive at a rate of their own (an open loop, on the model).

    `waiting` have arrived and are not answered when the arrivals end, `waiting_half_way` were not
    at half of that time: if the first is much more than the second, it grows without end.
    """

    arriving_per_second: int
    waiting_half_way: int
    waiting: int
    useful_per_second: float

    @property
    def is_swamped(self) -> bool:
        """Whether more wait in the end than got through: a higher rate would show no more."""
        return self.waiting > self.useful_per_second * ARRIVING_SECONDS


@dataclass(frozen=True, slots=True)
class SdkRetried:
    """One change of +1 whose first answer is lost: repeated by the SDK itself, or by the method.

    `answered` is what the SDK returned to the method; `reported` and `kept` are what `add` returned
    and what was counted, first with the SDK's retries, then as the library runs, without them.
    """

    method: str
    answered: str
    reported: str
    kept: int
    reported_without: str
    kept_without: int
