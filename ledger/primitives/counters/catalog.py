"""Every way of counting under its name, to be made alike."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Literal, Protocol, TypedDict

from ledger.core.errors import InvalidInput
from ledger.primitives.counters.atomic import AtomicCounter, AtomicOnceCounter
from ledger.primitives.counters.client_token import ClientTokenCounter
from ledger.primitives.counters.collection import CollectionCounter, make_collection
from ledger.primitives.counters.counter import Counter, Guarantees
from ledger.primitives.counters.item_counter import ItemCounter
from ledger.primitives.counters.layout import checked_shards
from ledger.primitives.counters.marker import MarkerCounter
from ledger.primitives.counters.optimistic import HistoryCounter, OptimisticCounter
from ledger.primitives.counters.shards import sharded_guarantees
from ledger.primitives.counters.slots import SlotsCounter
from ledger.runtime.services import Services
from ledger.store.port import Store

SHARDS = 8
"""How many shards the methods `...-sharded` have."""


class Make(Protocol):
    """Makes the counter of this name over one region's table."""

    def __call__(
        self,
        store: Store,
        name: str,
        *,
        services: Services,
        minimum: int | Decimal | None = None,
        maximum: int | Decimal | None = None,
    ) -> Counter:
        """Make it; nothing is written before the first change.

        Raises:
            InvalidInput: name or thresholds break a rule, or the method has no thresholds.
        """


@dataclass(frozen=True, slots=True)
class Method:
    """One way of counting: its guarantees, and how to create a counter of it."""

    guarantees: Guarantees
    make: Make
    has_thresholds: bool = True


ItemMethodName = Literal[
    "atomic",
    "atomic-once",
    "optimistic",
    "history",
    "client-token",
    "marker",
    "slots",
    "atomic-sharded",
    "marker-sharded",
]
MethodName = ItemMethodName | Literal["collection"]


class CounterOptions(TypedDict, total=False):
    """The options of a counter besides its method; see `Table.counter`."""

    minimum: int | Decimal | None
    maximum: int | Decimal | None
    shards: int | None
    kept_seconds: float | None
    tags_max: int | None


ITEM_METHODS: Mapping[str, type[ItemCounter]] = {
    "atomic": AtomicCounter,
    "atomic-once": AtomicOnceCounter,
    "optimistic": OptimisticCounter,
    "history": HistoryCounter,
    "client-token": ClientTokenCounter,
    "marker": MarkerCounter,
    "slots": SlotsCounter,
}
"""The methods that keep a counter in one item, or in one per shard."""


OWN_OPTIONS: Mapping[str, str] = {
    "history": "tags_max",
    "marker": "kept_seconds",
    "marker-sharded": "kept_seconds",
}
"""The option that only this method has."""


def _sharded(kind: type[ItemCounter], shards: int = SHARDS) -> Method:
    return Method(sharded_guarantees(kind, shards), partial(kind, shards=shards))


METHODS: Mapping[str, Method] = {
    **{name: Method(kind.guarantees, kind) for name, kind in ITEM_METHODS.items()},
    "collection": Method(CollectionCounter.guarantees, make_collection, has_thresholds=False),
    "atomic-sharded": _sharded(AtomicCounter),
    "marker-sharded": _sharded(MarkerCounter),
}


def item_method_named(name: str) -> type[ItemCounter]:
    """Return the counters of a method that keeps them in separate items.

    Raises:
        InvalidInput: there is no such method.
    """
    kind = ITEM_METHODS.get(name.removesuffix("-sharded")) if isinstance(name, str) else None
    if kind is None:
        known = ", ".join(ITEM_METHODS)
        raise InvalidInput(f"method to convert to must be one of {known}, got {name!r}")
    return kind


def method_named(name: str, *, shards: int | None = None) -> Method:
    """Return a method, with its counters kept in `shards` shards if that is given.

    Raises:
        InvalidInput: there is no such method, it has no shards, or that number is not possible.
    """
    if not isinstance(name, str) or name not in METHODS:
        raise InvalidInput(f"method must be one of {', '.join(METHODS)}, got {name!r}")
    if shards is None:
        return METHODS[name]
    kind = ITEM_METHODS.get(name.removesuffix("-sharded"))
    if kind is None:
        raise InvalidInput(f"method {name!r} takes no shards: `ledger table set shards` does")
    return _sharded(kind, checked_shards(shards))
