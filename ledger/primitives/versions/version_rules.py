"""Versions of records: events, the outcomes of handling one, the item, the condition.

A version item lies in the partition `~version~` and the event's subject, under its kind: kinds
of one subject are numbered apart, and the subjects of a table share no load. The subject's lock
lies beside them, as `~lock`. What was deleted leaves a tombstone: the version without the record.

Pure: no clock, no randomness, no I/O.
"""

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta
from typing import Literal, get_args

from ledger.core import amounts, keys
from ledger.core.amounts import DIGITS_MAX, check_bool
from ledger.core.entry import AttributeValue, Item, Key, damaged, number_of
from ledger.core.errors import InvalidInput
from ledger.store.conditions import Absent, AnyOf, Compares, Condition
from ledger.store.writes import Put

VERSION_MAX = 10**DIGITS_MAX - 1
KIND_BYTES_MAX = 1024
BODY_BYTES_MAX = 350 * 1024
"""Room for a dead letter's content besides its errors, below DynamoDB's 400 KB an item."""
TOMBSTONE_SECONDS_MAX = 100 * 365 * 86400.0
LOCK_SORT_KEY = "~lock"
DELETED = "~deleted"
"""The attribute of a tombstone."""

Repeats = Literal["skip", "handle"]
"""How an event of exactly the handled version is judged: `<` or `<=`."""


@dataclass(frozen=True, slots=True)
class Event:
    """A new version of a subject's record of some kind.

    `deletes` says that the record ends with this version: it is kept as a tombstone. No guard looks
    at the `body`, at most 350 KB; a dead letter keeps it.

    Raises:
        InvalidCounter: the subject breaks a rule of counter ids.
        InvalidInput: the version is not an int from 0 to 10^38 - 1, the kind not a text of
            1 to 1,024 bytes that begins with anything but `~`, `deletes` no bool, or the
            body no bytes or too long.
    """

    subject: str
    version: int
    kind: str = "record"
    _: KW_ONLY
    deletes: bool = False
    body: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        keys.checked_new_counter(self.subject, "subject")
        checked_version(self.version)
        _check_kind(self.kind)
        check_bool("deletes", self.deletes)
        if not isinstance(self.body, bytes) or len(self.body) > BODY_BYTES_MAX:
            got = f"{len(self.body):,}" if isinstance(self.body, bytes) else repr(self.body)[:40]
            raise InvalidInput(f"body must have at most {BODY_BYTES_MAX:,} bytes, got {got}")

    @property
    def key(self) -> Key:
        """The key of the newest version handled of this subject and kind."""
        return f"{keys.VERSION_PREFIX}{self.subject}", self.kind

    @property
    def lock_key(self) -> Key:
        """The key of the lock of this subject, one for all its kinds."""
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
class Adopted:
    """The item had no version, and has this one now."""

    version: int


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


@dataclass(frozen=True, slots=True)
class VersionRules:
    """How a guard judges: what a repeat is, and how long a tombstone is kept (None: for good).

    Raises:
        InvalidInput: `repeats` is another word, or `tombstone_seconds` not over 0, up to a century.
    """

    repeats: Repeats = "skip"
    tombstone_seconds: float | None = None

    def __post_init__(self) -> None:
        if self.repeats not in get_args(Repeats):
            raise InvalidInput(
                f"repeats must be one of {', '.join(get_args(Repeats))}, got {self.repeats!r}"
            )
        seconds = self.tombstone_seconds
        if seconds is not None and not is_within(seconds, TOMBSTONE_SECONDS_MAX):
            raise InvalidInput(
                f"tombstone_seconds must be over 0 and at most {TOMBSTONE_SECONDS_MAX:,.0f},"
                f" got {seconds!r}"
            )

    def newer(self, version: int) -> Condition:
        """Return the condition that nothing is there, or something that this version replaces."""
        relation: Literal["<", "<="] = "<" if self.repeats == "skip" else "<="
        return AnyOf((Absent(), Compares("version", relation, {"N": str(version)})))

    def is_old(self, version: int, newest: int | None) -> bool:
        """Return whether a version must not be handled after the handled one."""
        if newest is None:
            return False
        return version <= newest if self.repeats == "skip" else version < newest

    def version_put(self, event: Event, *, now: datetime) -> Put:
        """Return the write that stores an event's version, if no version as new is stored."""
        item = stamped(event.key, event.version)
        if event.deletes:
            item |= self.tombstone(now=now)
        return Put(item, self.newer(event.version))

    def tombstone(self, *, now: datetime) -> dict[str, AttributeValue]:
        """Return the attributes that make a versioned item a tombstone."""
        marks: dict[str, AttributeValue] = {DELETED: {"BOOL": True}}
        if self.tombstone_seconds is not None:
            marks[keys.EXPIRES] = expires(now, self.tombstone_seconds)
        return marks


def expires(now: datetime, seconds: float) -> AttributeValue:
    """Return the value of `~expires` for an item that is kept for this long."""
    return {"N": str(math.ceil((now + timedelta(seconds=seconds)).timestamp()))}


def is_within(seconds: object, most: float) -> bool:
    """Return whether this is a number of seconds over 0, and at most the maximum."""
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    return is_number and 0 < float(seconds) <= most  # type: ignore[arg-type]


def checked_event(event: object) -> Event:
    """Return `event` if it is one.

    Raises:
        InvalidInput: it is something else.
    """
    if not isinstance(event, Event):
        raise InvalidInput(f"event must be an Event, got {type(event).__name__} {event!r}")
    return event


def checked_handler(handler: object) -> None:
    """Return if `handler` can be called.

    Raises:
        InvalidInput: it cannot.
    """
    if not callable(handler):
        raise InvalidInput(f"handler must be callable, got {handler!r:.80}")


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


def _check_kind(kind: object) -> None:
    if not isinstance(kind, str):
        raise InvalidInput(f"kind must be a text, got {type(kind).__name__} {kind!r}")
    if not 1 <= len(kind.encode(errors="surrogatepass")) <= KIND_BYTES_MAX:
        raise InvalidInput(f"kind must have 1 to {KIND_BYTES_MAX:,} bytes, got {kind[:40]!r}")
    if any("\ud800" <= sign <= "\udfff" for sign in kind):
        raise InvalidInput(f"kind must be encodable in UTF-8, got {kind[:40]!r}")
    if kind.startswith(keys.RESERVED):
        raise InvalidInput(f"kind must not begin with '~', which is reserved, got {kind[:40]!r}")


def stamped(key: Key, version: int) -> dict[str, AttributeValue]:
    """Return an item with only a key and a version."""
    return {"pk": {"S": key[0]}, "sk": {"S": key[1]}, "version": {"N": str(version)}}


def is_tombstone(item: Item) -> bool:
    """Return whether an item stands for a record that was deleted."""
    return DELETED in item


def version_of(item: Item | None) -> int | None:
    """Return the version of a guarded item, None for no item.

    Raises:
        DamagedItem: it has no whole number from 0 as its `version`.
    """
    if item is None:
        return None
    version = number_of(item, "version")
    if not amounts.is_whole(version) or version < 0:
        raise damaged(item, f"version {version} is not a whole number from 0")
    return int(version)
