"""Versions of records: events, the outcomes of handling one, the item, the condition.

A version item lies in the partition `~version~` and the event's subject, under its kind: kinds
of one subject are numbered apart, and the subjects of a table share no load. The subject's lock
lies beside them, as `~lock`.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ledger.core import keys
from ledger.core.amounts import DIGITS_MAX
from ledger.core.entry import Item, Key, damaged, number_of
from ledger.core.errors import InvalidInput
from ledger.store.conditions import Absent, AnyOf, Compares, Condition
from ledger.store.writes import Put

VERSION_MAX = 10**DIGITS_MAX - 1
KIND_BYTES_MAX = 1024
LOCK_SORT_KEY = "~lock"


@dataclass(frozen=True, slots=True)
class Event:
    """A new version of a subject's record of some kind.

    Raises:
        InvalidCounter: the subject breaks a rule of counter ids.
        InvalidInput: the version is not an int from 0 to 10^38 - 1, or the kind not a text of
            1 to 1,024 bytes that begins with anything but `~`.
    """

    subject: str
    version: int
    kind: str = "record"

    def __post_init__(self) -> None:
        keys.checked_counter(self.subject)
        checked_version(self.version)
        if not 1 <= len(self.kind.encode()) <= KIND_BYTES_MAX:
            raise InvalidInput(
                f"kind must have 1 to {KIND_BYTES_MAX:,} bytes, got {self.kind[:40]!r}"
            )
        if self.kind.startswith(keys.RESERVED):
            raise InvalidInput(
                f"kind must not begin with '~', which is reserved, got {self.kind[:40]!r}"
            )

    @property
    def key(self) -> Key:
        """Where the newest version handled of this subject and kind is kept."""
        return f"{keys.VERSION_PREFIX}{self.subject}", self.kind

    @property
    def lock_key(self) -> Key:
        """Where the lock of this subject lies, one for all its kinds."""
        return f"{keys.VERSION_PREFIX}{self.subject}", LOCK_SORT_KEY


@dataclass(frozen=True, slots=True)
class Handled:
    """The event was handled, and its version is written."""

    version: int


@dataclass(frozen=True, slots=True)
class Skipped:
    """The event is old, or a duplicate: `newest` was handled before it. Nothing was written."""

    version: int
    newest: int


@dataclass(frozen=True, slots=True)
class Busy:
    """The lock was not acquired in time; nothing was done. `owner` held it when last read."""

    owner: str


@dataclass(frozen=True, slots=True)
class LockLost:
    """The handler ran, but the lock was lost before the end: nothing was written by the guard.

    What the handler wrote by itself is there. Hand the event in again.
    """

    cause: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A condition of the caller's own actions was false: nothing was written.

    `found` maps the position of each such action to the item that was there, None for no item.
    """

    found: Mapping[int, Item | None]


def checked_version(version: object) -> int:
    """Return `version` if it is one.

    Raises:
        InvalidInput: not an int from 0 to 10^38 - 1; texts, floats and bools have other orders.
    """
    if not isinstance(version, int) or isinstance(version, bool):
        raise InvalidInput(f"version must be an int, got {type(version).__name__} {version!r}")
    if not 0 <= version <= VERSION_MAX:
        raise InvalidInput(f"version must be from 0 to 10^{DIGITS_MAX} - 1, got {version}")
    return version


def newer(version: int) -> Condition:
    """Return the condition that nothing is there, or something of an older version."""
    return AnyOf((Absent(), Compares("version", "<", {"N": str(version)})))


def version_of(item: Item | None) -> int | None:
    """Return the version of a guarded item, None for no item.

    Raises:
        DamagedItem: it has no whole number from 0 as its `version`.
    """
    if item is None:
        return None
    version = number_of(item, "version")
    if version != version.to_integral_value() or version < 0:
        raise damaged(item, f"version {version} is not a whole number from 0")
    return int(version)


def is_old(event: Event, newest: int | None) -> bool:
    """Return whether an event is not newer than what was handled."""
    return newest is not None and event.version <= newest


def version_put(event: Event) -> Put:
    """Return the write that stores an event's version, if no version as new is stored."""
    partition, kind = event.key
    item = {"pk": {"S": partition}, "sk": {"S": kind}, "version": {"N": str(event.version)}}
    return Put(item, newer(event.version))
