"""Sources of records: lanes that can be read again from any position.

A lane is one ordered, replayable part of a source: a Kinesis shard, a file. On these rests that
every record counts once:

- a position always stands for the same record, however often and by whomever it is read;
- positions are texts of one width whose order is the lane's;
- nothing is left out between a position and what is read after it.
"""

from collections.abc import AsyncGenerator, Sequence
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
