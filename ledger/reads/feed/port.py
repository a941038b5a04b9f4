"""What the feed asks of a table's stream in one region.

A stream is made of shards. Each holds the records of some items, in the order in which the region
applied them; it is closed after some hours, and children go on where it ended. Records pass out of
the stream after a day.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from ledger.core.values import Entry

OLDEST, FIRST = -1, -2
"""Where to read a shard from, in place of a number: its oldest record that is left; its first one,
which must be left."""


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard, and the one whose records come before its own, if the stream still lists it."""

    id: str
    parent: str | None = None


@dataclass(frozen=True, slots=True)
class ShardListing:
    """The shards that a stream has now, closed ones too; `stream` names it for as long as it is."""

    stream: str
    shards: Sequence[Shard]


@dataclass(frozen=True, slots=True)
class Arrival:
    """An entry that reached the region, at which number of its shard, and when."""

    number: int
    at: datetime
    entry: Entry


@dataclass(frozen=True, slots=True)
class ShardRead:
    """Some records of a shard: the entries among them, and the number of the last record.

    `upto` is None where there was no record; more may follow all the same unless `is_closed`.
    """

    arrivals: Sequence[Arrival] = ()
    upto: int | None = None
    is_closed: bool = False


class Stream(Protocol):
    """The stream of a table in one region."""

    async def listing(self, *, is_fresh: bool = False) -> ShardListing:
        """Return the shards; a `fresh` listing is not older than the call.

        Raises:
            StoreError: the stream cannot be read, or the table has none.
        """

    async def read(self, shard: str, after: int) -> ShardRead:
        """Return records of a listed shard after a number, or from `OLDEST` or `FIRST` on.

        Raises:
            FeedBehind: records after that number have passed out of the stream, or the first has.
            InvalidInput: the stream has not come to that number.
            StoreError: the stream cannot be read.
        """
