"""Ways to count on DynamoDB, each with what it promises; see README.md beside this file."""

from ledger.counters.counter import (
    AddOutcome,
    Applied,
    Counter,
    Guarantees,
    Reason,
    Rejected,
    Unknown,
)
from ledger.counters.registry import METHODS, Method
from ledger.counters.tokens import new_token

__all__ = [
    "METHODS",
    "AddOutcome",
    "Applied",
    "Counter",
    "Guarantees",
    "Method",
    "Reason",
    "Rejected",
    "Unknown",
    "new_token",
]
