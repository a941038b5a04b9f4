"""Failed handlings of an event, counted in one item; past a bound it is a dead letter.

::

    delivery 1   handle ── fails ── count 1 ── raises: deliver it again
    delivery 2   handle ── fails ── count 2 ── raises
    delivery 3   handle ── fails ── count 3 = failures_max ── DeadLetter: acknowledge it
    delivery 4   DeadLetter, not handled                  ... release: counted from 0 again

The items are in 16 separate partitions, chosen by the subject. Each write replaces the one that
it names as the latest, so that processes at once lose no count; it names its failure by a random
number, so that a lost answer is recognized.

Pure: no clock, no randomness, no I/O.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zlib import crc32

from ledger.core.entry import Item, Key, damaged, number_of
from ledger.core.errors import InvalidInput
from ledger.core.keys import EXPIRES, VERSION_PREFIX
from ledger.primitives.versions.version_rules import Event, checked_event, expires
from ledger.store.conditions import Absent, Condition, Equals

PARTITIONS = 16
FAILURES_MAX = 5
CAUSES_MAX = 10
CAUSE_CHARS_MAX = 500
COUNT_SECONDS = 14 * 86400.0
"""How long a count is kept after the last failure: SQS's maximum retention of a message.

Source: Amazon SQS Developer Guide, "Amazon SQS message quotas" (message retention).
"""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """The event failed so often that it is not handled until it is released.

    `causes` are those of its last 10 failures, a line each, oldest first; `since` is when the first
    failed, `at` when the last did.
    """

    event: Event
    failures: int
    causes: tuple[str, ...]
    since: datetime
    at: datetime


@dataclass(frozen=True, slots=True)
class Failures:
    """The stored failures of an event; `ids` name the failures of `letter.causes`."""

    letter: DeadLetter
    ids: tuple[str, ...]
    dead: bool

    @property
    def unchanged(self) -> Condition:
        """The condition that this is what is stored."""
        return Equals("latest", {"S": self.ids[-1]})


def failed_again(
    seen: Failures | None,
    event: Event,
    failure: tuple[str, str],
    *,
    at: datetime,
    failures_max: int,
) -> Failures:
    """Return the state after one more failure, of this id and cause."""
    name, cause = failure
    before = DeadLetter(event, 0, (), at, at) if seen is None else seen.letter
    failures = before.failures + 1
    causes = (*before.causes, cause)[-CAUSES_MAX:]
    ids = (*(seen.ids if seen else ()), name)[-CAUSES_MAX:]
    letter = DeadLetter(event, failures, causes, before.since, at)
    return Failures(letter, ids, dead=failures >= failures_max)


def unchanged(seen: Failures | None) -> Condition:
    """Return the condition that what was seen is what is stored."""
    return Absent() if seen is None else seen.unchanged


def partitions() -> list[str]:
    """Return all partitions in which failures are counted."""
    return [f"{VERSION_PREFIX}~failures~{number:02d}" for number in range(PARTITIONS)]


def failures_key(event: Event) -> Key:
    """Return where the failures of an event are counted, whatever its body."""
    event = checked_event(event)
    partition = partitions()[crc32(event.subject.encode()) % PARTITIONS]
    parts = (event.subject, event.kind, str(event.version))
    name = b"".join(len(part.encode()).to_bytes(2, "big") + part.encode() for part in parts)
    return partition, hashlib.sha256(name).hexdigest()


def failures_item(failures: Failures) -> Item:
    """Return the item of an event's failures: it expires unless it is a dead letter."""
    letter = failures.letter
    event = letter.event
    partition, sort_key = failures_key(event)
    item: dict[str, Mapping[str, Any]] = {
        "pk": {"S": partition},
        "sk": {"S": sort_key},
        "subject": {"S": event.subject},
        "kind": {"S": event.kind},
        "version": {"N": str(event.version)},
        "deletes": {"BOOL": event.deletes},
        "failures": {"N": str(letter.failures)},
        "causes": {"L": [{"S": cause} for cause in letter.causes]},
        "ids": {"L": [{"S": name} for name in failures.ids]},
        "latest": {"S": failures.ids[-1]},
        "since": {"S": letter.since.isoformat()},
        "at": {"S": letter.at.isoformat()},
        "dead": {"BOOL": failures.dead},
    }
    if event.body:
        item["body"] = {"B": event.body}
    if not failures.dead:
        item[EXPIRES] = expires(letter.at, COUNT_SECONDS)
    return item


def failures_of(item: Item) -> Failures:
    """Read the failures of an event from their item.

    Raises:
        DamagedItem: an attribute is missing or of another kind.
    """
    try:
        event = Event(
            item["subject"]["S"],
            int(number_of(item, "version")),
            item["kind"]["S"],
            deletes=item["deletes"]["BOOL"],
            body=item.get("body", {"B": b""})["B"],
        )
        letter = DeadLetter(
            event,
            int(number_of(item, "failures")),
            tuple(cause["S"] for cause in item["causes"]["L"]),
            datetime.fromisoformat(item["since"]["S"]),
            datetime.fromisoformat(item["at"]["S"]),
        )
        ids = tuple(name["S"] for name in item["ids"]["L"])
        dead = item["dead"]["BOOL"]
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(item, f"the failures of an event: {error!r}") from None
    if not ids or item.get("latest") != {"S": ids[-1]}:
        raise damaged(item, "the failures of an event: ids must end with latest")
    return Failures(letter, ids, dead)


def cause_of(error: object) -> str:
    """Return one line that describes a failure."""
    name = f"{type(error).__name__}: " if isinstance(error, BaseException) else ""
    text = f"{name}{error}".encode(errors="backslashreplace").decode()
    return " ".join(text.split())[:CAUSE_CHARS_MAX]


def checked_failures_max(failures_max: object) -> int:
    """Return a bound of failures.

    Raises:
        InvalidInput: it is not a whole number from 1.
    """
    if not isinstance(failures_max, int) or isinstance(failures_max, bool) or failures_max < 1:
        raise InvalidInput(f"failures_max must be a whole number from 1, got {failures_max!r}")
    return failures_max
