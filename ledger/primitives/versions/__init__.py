"""Handle an event only if its version is newer. See docs/reference/coordination.md."""

from ledger.primitives.versions.condition import ConditionGuard
from ledger.primitives.versions.dead_letters import DeadLetters
from ledger.primitives.versions.failure_items import DeadLetter
from ledger.primitives.versions.lock import GuardOptions, Handler, LockGuard
from ledger.primitives.versions.version_rules import (
    VERSION_MAX,
    Adopted,
    Busy,
    Event,
    Handled,
    LockLost,
    Refused,
    Repeats,
    Skipped,
    is_tombstone,
    version_of,
)

__all__ = [
    "VERSION_MAX",
    "Adopted",
    "Busy",
    "ConditionGuard",
    "DeadLetter",
    "DeadLetters",
    "Event",
    "GuardOptions",
    "Handled",
    "Handler",
    "LockGuard",
    "LockLost",
    "Refused",
    "Repeats",
    "Skipped",
    "is_tombstone",
    "version_of",
]
