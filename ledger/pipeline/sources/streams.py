"""Streams of several lanes: shards of Kinesis, partitions of Kafka."""

from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from ledger.pipeline.sources.source import LagUnit, Source


@dataclass(frozen=True, slots=True)
class Part:
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


class Stream(Protocol):
    """A stream that can be read again from any position of a lane."""

    @property
    def name(self) -> str:
        """Its name, for people."""

    async def parts(self) -> Sequence[Part]:
        """Return the lanes that there are now.

        Raises:
            LedgerError: the stream does not exist, or cannot be read.
        """

    @property
    def lag_unit(self) -> LagUnit:
        """The unit of `lag`."""

    async def lag(self, part: Part, position: str) -> float:
        """Return how much of a lane follows a position, now.

        Raises:
            LedgerError: it cannot be read.
        """

    def source(self, part: Part, memory: Memory) -> PartSource:
        """Return a lane's records."""


def ready(parts: Sequence[Part], finished: Collection[str]) -> Iterator[Part]:
    """Yield the lanes that may be read: those whose parents, if they are there still, are in.

    A shard that was split has all of its records before those of the two that follow it, and of a
    record's versions the newest counts, in whatever order they come; but time in a stream, and
    whatever is reported of it, is right only in order.
    """
    left = {part.lane for part in parts} - set(finished)
    for part in parts:
        if part.lane in left and left.isdisjoint(part.parents):
            yield part
