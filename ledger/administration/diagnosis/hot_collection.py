"""How often a collection is written to, by the times in the sort keys of its newest entries.

A partition key serves 1,000 write units a second in each region, and each region takes the writes
of all, so one region's entries are enough. An entry costs a unit when it is put, and one when it is
deleted after the merge.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from ledger.administration.diagnosis.merge_backlog import NOTHING_SAMPLED, Unmerged
from ledger.core.ids import parse

UNITS_PER_ENTRY = 2.0
SPAN_SECONDS_MIN = 10.0
"""No rate is computed over a shorter time: a single batch is not a load."""


@dataclass(frozen=True, slots=True)
class HotCollection:
    """Entries a second of one collection, and how many shards its counter has."""

    counter: str
    partition: str
    rate: float
    shards: int = 1

    @property
    def units(self) -> float:
        """Write units a second of its partition key, with the deletes that follow."""
        return self.rate * UNITS_PER_ENTRY


@dataclass(frozen=True, slots=True)
class HotSample:
    """The collections that were looked at, busiest first, and in how many pages of the table.

    `unseen` is why the table itself was not sampled, `unmerged` what waits there to be merged.
    """

    collections: Sequence[HotCollection]
    pages: int
    unseen: str = ""
    unmerged: Unmerged = NOTHING_SAMPLED


def rate_of(
    sort_keys: Iterable[str],
    *,
    now: datetime,
    recent_seconds: float,
    span_seconds_min: float = SPAN_SECONDS_MIN,
) -> float:
    """Return the entries a second among the newest of a collection; 0 for an idle one.

    `sort_keys` are its newest without a gap, in any order; foreign ones do not count. It is idle if
    none of them is from the last `recent_seconds`. A shorter time between them counts as
    `span_seconds_min`.
    """
    times = [found.at for key in sort_keys if (found := parse(key)) is not None]
    if not times or (now - max(times)).total_seconds() > recent_seconds:
        return 0.0
    span = (max(times) - min(times)).total_seconds()
    return (len(times) - 1) / max(span, span_seconds_min)
