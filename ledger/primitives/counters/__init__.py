"""Ways to count on DynamoDB, each with what it promises; see README.md beside this file."""

from ledger.primitives.counters.atomic import AtomicCounter, AtomicOnceCounter
from ledger.primitives.counters.client_token import ClientTokenCounter
from ledger.primitives.counters.collection import CollectionCounter
from ledger.primitives.counters.counter import Counter, Guarantees
from ledger.primitives.counters.history import HistoryCounter
from ledger.primitives.counters.marker import MarkerCounter
from ledger.primitives.counters.optimistic import OptimisticCounter
from ledger.primitives.counters.registry import METHODS, Make, Method, MethodName, method_named
from ledger.primitives.counters.sharding import ShardedCounter
from ledger.primitives.counters.slots import SlotsCounter
from ledger.primitives.counters.tokens import new_token
from ledger.store.writes import Applied, Outcome, Reason, Rejected, Unknown

__all__ = [
    "METHODS",
    "Applied",
    "AtomicCounter",
    "AtomicOnceCounter",
    "ClientTokenCounter",
    "CollectionCounter",
    "Counter",
    "Guarantees",
    "HistoryCounter",
    "Make",
    "MarkerCounter",
    "Method",
    "MethodName",
    "OptimisticCounter",
    "Outcome",
    "Reason",
    "Rejected",
    "ShardedCounter",
    "SlotsCounter",
    "Unknown",
    "method_named",
    "new_token",
]
