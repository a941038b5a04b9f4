"""Ways to count on DynamoDB, each with what it promises; see README.md beside this file."""

from ledger.counters.atomic import AtomicCounter, AtomicOnceCounter
from ledger.counters.client_token import ClientTokenCounter
from ledger.counters.collection import CollectionCounter
from ledger.counters.counter import (
    AddOutcome,
    Applied,
    Counter,
    Guarantees,
    Reason,
    Rejected,
    Unknown,
)
from ledger.counters.history import HistoryCounter
from ledger.counters.marker import MarkerCounter
from ledger.counters.optimistic import OptimisticCounter
from ledger.counters.registry import METHODS, Make, Method
from ledger.counters.sharding import ShardedCounter
from ledger.counters.slots import SlotsCounter
from ledger.counters.tokens import new_token

__all__ = [
    "METHODS",
    "AddOutcome",
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
    "OptimisticCounter",
    "Reason",
    "Rejected",
    "ShardedCounter",
    "SlotsCounter",
    "Unknown",
    "new_token",
]
