"""Sources of records: lanes that can be read again from any position.

A lane is one ordered, replayable part of a source: a Kinesis shard, a file. On these rests that
every record counts once:

- a position always stands for the same record, however often and by whomever it is read;
- positions are texts of one width whose order is the lane's;
- nothing is left out between a position and what is read after it.

Streams of several lanes: shards of Kinesis, partitions of Kafka.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from ledger.pipeline.core.records import Delivery


class Source(Protocol):
    """One lane's records."""

    def batches(self, after: str, *, most: int) -> AsyncGenerator[Sequence[Delivery], None]:
        """Yield records after a position (empty: from the first), up to `most` at a time.

        It waits while there are none, and ends where the lane ends. What it yields at once becomes
        a batch: under load it hands over what has come meanwhile, at rest a record alone.
        """


LagUnit = Literal["bytes", "records", "seconds"]


@runtime_checkable
class Measured(Protocol):
    """A source that knows how much of its lane follows a position, for metrics and displays.

    `lag_unit` is what it counts: bytes of a file; records of a partition, with the gaps that its
    offsets have; seconds by which reading is behind the end of a shard, since Kinesis says no more.
    None if it is not known, as of a compressed file.
    """

    @property
    def lag_unit(self) -> LagUnit | None:
        """The unit of the count."""

    def lag_after(self, position: str) -> float:
        """Return how much follows a position; may be called by any thread."""


@runtime_checkable
class Live(Protocol):
    """A source whose lane may be endless: what it returns at once then depends on when."""

    @property
    def is_live(self) -> bool:
        """Whether it waits for more at the end of what is there."""


class ListSource:
    """Records that are there already, in the order of their positions."""

    def __init__(self, deliveries: Sequence[Delivery]) -> None:
        self._deliveries = deliveries

    async def batches(self, after: str, *, most: int) -> AsyncGenerator[Sequence[Delivery], None]:
        """Yield the records after a position."""
        left = [delivery for delivery in self._deliveries if delivery.position > after]
        for start in range(0, len(left), most):
            yield left[start : start + most]


@dataclass(frozen=True, slots=True)
class StreamPart:
    """One lane of a stream; its records come after those of its parents."""

    lane: str
    parents: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Memory:
    """What a lane keeps in the table beside its position: until when it is known to lack nothing.

    `caught_up` returns the position and the time, in seconds since 1970, that were noted last.
    """

    caught_up: Callable[[], Awaitable[tuple[str, float] | None]]
    note: Callable[[str], Awaitable[None]]


async def _nothing() -> None:
    return None


async def _forget(_position: str) -> None:
    return None


NOTHING = Memory(_nothing, _forget)
"""Of a lane that is only observed."""


class PartSource(Source, Protocol):
    """One part's records. `is_finished` once it has handed on the last that it will ever have."""

    @property
    def is_finished(self) -> bool:
        """Whether no more can come."""


class RecordStream(Protocol):
    """A stream that can be read again from any position of a lane."""

    @property
    def name(self) -> str:
        """Its name, for people."""

    async def parts(self) -> Sequence[StreamPart]:
        """Return the lanes that there are now.

        Raises:
            LedgerError: the stream does not exist, or cannot be read.
        """

    @property
    def lag_unit(self) -> LagUnit:
        """The unit of `lag`."""

    async def lag(self, part: StreamPart, position: str) -> float:
        """Return how much of a lane follows a position, now.

        Raises:
            LedgerError: it cannot be read.
        """

    def source(self, part: StreamPart, memory: Memory) -> PartSource:
        """Return a lane's records."""


def ready(parts: Sequence[StreamPart], finished: Collection[str]) -> Iterator[StreamPart]:
    """Yield the lanes that may be read: those whose parents, if they are there still, are in.

    A shard that was split has all of its records before those of the two that follow it, and of a
    record's versions the newest counts, in whatever order they come; but time in a stream, and
    whatever is reported of it, is right only in order.
    """
    left = {part.lane for part in parts} - set(finished)
    for part in parts:
        if part.lane in left and left.isdisjoint(part.parents):
            yield part
