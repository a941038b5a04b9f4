"""Ways to count on DynamoDB, each with its guarantees; see docs/reference/methods.md."""

from ledger.core.tokens import Details, Marker
from ledger.primitives.counters.atomic import AtomicCounter, AtomicOnceCounter
from ledger.primitives.counters.catalog import (
    METHODS,
    OWN_OPTIONS,
    CounterOptions,
    ItemMethodName,
    Make,
    Method,
    MethodName,
    item_method_named,
    method_named,
)
from ledger.primitives.counters.client_token import ClientTokenCounter
from ledger.primitives.counters.collection import CollectionCounter
from ledger.primitives.counters.counter import Counter, Guarantees
from ledger.primitives.counters.item_counter import ItemCounter
from ledger.primitives.counters.layout_changes import Layouts
from ledger.primitives.counters.marker import MarkerCounter
from ledger.primitives.counters.new_tokens import new_token
from ledger.primitives.counters.optimistic import HistoryCounter, OptimisticCounter
from ledger.primitives.counters.slots import SlotsCounter
from ledger.store.writes import Applied, Outcome, Reason, Rejected, Unknown

__all__ = [
    "METHODS",
    "OWN_OPTIONS",
    "Applied",
    "AtomicCounter",
    "AtomicOnceCounter",
    "ClientTokenCounter",
    "CollectionCounter",
    "Counter",
    "CounterOptions",
    "Details",
    "Guarantees",
    "HistoryCounter",
    "ItemCounter",
    "ItemMethodName",
    "Layouts",
    "Make",
    "Marker",
    "MarkerCounter",
    "Method",
    "MethodName",
    "OptimisticCounter",
    "Outcome",
    "Reason",
    "Rejected",
    "SlotsCounter",
    "Unknown",
    "item_method_named",
    "method_named",
    "new_token",
]
