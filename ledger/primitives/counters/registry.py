"""Every way of counting under its name, to be made alike."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Protocol

from ledger.primitives.counters.atomic import AtomicCounter, AtomicOnceCounter
from ledger.primitives.counters.client_token import ClientTokenCounter
from ledger.primitives.counters.collection import CollectionCounter, make_collection
from ledger.primitives.counters.counter import Counter, Guarantees
from ledger.primitives.counters.history import HistoryCounter
from ledger.primitives.counters.items import ItemCounter
from ledger.primitives.counters.marker import MarkerCounter
from ledger.primitives.counters.optimistic import OptimisticCounter
from ledger.primitives.counters.sharding import ShardedCounter, sharded_guarantees
from ledger.primitives.counters.slots import SlotsCounter
from ledger.runtime.clock import Clock
from ledger.store.port import Store

SHARDS = 8
"""Of the sharded methods here; `ShardedCounter` takes any number."""


class Make(Protocol):
    """Makes the counter of this name over one region's table."""

    def __call__(
        self,
        store: Store,
        name: str,
        *,
        clock: Clock,
        randomness: Random,
        minimum: int | Decimal | None = None,
        maximum: int | Decimal | None = None,
    ) -> Counter:
        """Make it; nothing is written before the first change.

        Raises:
            InvalidInput: name or thresholds break a rule, or the method has no thresholds.
        """


@dataclass(frozen=True, slots=True)
class Method:
    """One way of counting: what it promises, and how to make a counter of it."""

    guarantees: Guarantees
    make: Make
    has_thresholds: bool = True


def _method(kind: type[ItemCounter]) -> Method:
    return Method(kind.guarantees, kind)


def _sharded(kind: type[ItemCounter], shards: int = SHARDS) -> Method:
    def make(
        store: Store,
        name: str,
        *,
        clock: Clock,
        randomness: Random,
        minimum: int | Decimal | None = None,
        maximum: int | Decimal | None = None,
    ) -> ShardedCounter:
        items = kind(
            store, name, clock=clock, randomness=randomness, minimum=minimum, maximum=maximum
        )
        return ShardedCounter(items, shards=shards)

    return Method(sharded_guarantees(kind, shards), make)


METHODS: Mapping[str, Method] = {
    "atomic": _method(AtomicCounter),
    "atomic-once": _method(AtomicOnceCounter),
    "optimistic": _method(OptimisticCounter),
    "history": _method(HistoryCounter),
    "client-token": _method(ClientTokenCounter),
    "marker": _method(MarkerCounter),
    "collection": Method(CollectionCounter.guarantees, make_collection, has_thresholds=False),
    "slots": _method(SlotsCounter),
    "atomic-sharded": _sharded(AtomicCounter),
    "marker-sharded": _sharded(MarkerCounter),
}
