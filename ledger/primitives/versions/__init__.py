"""Handle an event only if its version is newer: by a lock, or by a condition. See README.md."""

from ledger.primitives.versions.condition import ConditionGuard
from ledger.primitives.versions.lock import Handler, LockGuard
from ledger.primitives.versions.state import (
    VERSION_MAX,
    Busy,
    Event,
    Handled,
    LockLost,
    Refused,
    Skipped,
    version_of,
)

__all__ = [
    "VERSION_MAX",
    "Busy",
    "ConditionGuard",
    "Event",
    "Handled",
    "Handler",
    "LockGuard",
    "LockLost",
    "Refused",
    "Skipped",
    "version_of",
]
