"""What calls become as requests: paths, queries, bodies, and changes under keys of their own.

Every change is sent under a key. One that its caller gives none gets one here, in the form of the
ledger's own ids: a time to the microsecond and 64 random bits. The id of its entry follows from
counter and key, so it is known before anything is sent: a repeat under it counts once, and an error
without any answer can name it.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import orjson

from ledger.core import amounts, ids, keys
from ledger.core.books import checked_legs
from ledger.core.entry import checked_metadata, entry_id
from ledger.core.errors import InvalidEntry, InvalidInput
from ledger.core.times import is_time
from ledger.core.tokens import one_spelling
from ledger.core.values import Entry, Leg
from ledger.http.wire.models import AnswerModel
from ledger.http.wire.schemas import EntriesModel, LegModel
from ledger.writes.entry_plan import (
    Change,
    at_without_key,
    checked_date,
    checked_key,
    checked_note,
    time_of,
)

ENTRIES_MAX = 1_000
"""Entries of one request, as the service allows."""
BODY_BYTES_MAX = 512 * 1024
"""From which size on the entries of a call are sent in several requests."""
VALUE_BYTES = 27
"""What each value of a body is taken for at least: a request may have 20,000 of them."""
COUNTERS_MAX = 100
"""Counters of one request for totals, as the service allows."""
QUERY_BYTES_MAX = 6_000
"""Names of counters in one query: servers and proxies take lines of 8 KB."""
PAGE_MAX = 1_000
_BOUND = "bound must be a time with a zone or the id of an entry"

Answer = TypeVar("Answer", bound=AnswerModel)
Part = TypeVar("Part")


@dataclass(frozen=True, slots=True)
class Request(Generic[Answer]):
    """One request, before it is sent; `answer` is what its true answer contains."""

    method: str
    path: str
    answer: type[Answer]
    params: Sequence[tuple[str, str]] = ()
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NamedChange:
    """A change under a key, and the entry that it is whenever and wherever it is written.

    `is_own` is whether the key was made here, so that the same call would make another one.
    """

    entry: Entry
    key: str
    at: datetime | None
    is_own: bool

    @property
    def fields(self) -> dict[str, Any]:
        """What the service reads."""
        entry = self.entry
        fields: dict[str, Any] = {
            "counter": entry.counter,
            "change": amounts.to_text(entry.change),
            "key": self.key,
        }
        if self.at is not None:
            fields["at"] = time_text(self.at)
        if entry.note is not None:
            fields["note"] = entry.note
        if entry.effective is not None:
            fields["effective"] = entry.effective.isoformat()
        if entry.legs:
            fields["legs"] = _leg_fields(entry.legs)
        if entry.metadata is not None:
            fields["metadata"] = entry.metadata
        return fields


def _leg_fields(legs: Iterable[Leg]) -> list[dict[str, Any]]:
    return [LegModel.fields_of(leg) for leg in legs]


def named(change: Change, *, now: datetime, bits: int) -> NamedChange:
    """Return a change under its key, or under one made of the time and these 64 random bits.

    Raises:
        InvalidInput: a value breaks a rule; the message names both.
    """
    counter = keys.checked_counter(change.counter)
    is_own = change.key is None
    if is_own and change.at is not None:
        raise at_without_key(counter)
    key = ids.sort_key(now, bits) if change.key is None else checked_key(change.key)
    made = one_spelling(key)
    id_ = entry_id(time_of(counter, made, change.at), ids.suffix_of(counter, made))
    entry = Entry(
        counter,
        str(id_),
        amounts.addend(change.change),
        note=None if change.note is None else checked_note(change.note),
        effective=None if change.effective is None else checked_date(change.effective),
        key=key,
        legs=() if change.legs is None else checked_legs(change.legs),
        metadata=checked_metadata(change.metadata) if change.metadata else None,
    )
    return NamedChange(entry, key, change.at, is_own)


def recording(changes: Sequence[NamedChange], *, together: bool = False) -> Request[EntriesModel]:
    """Return the request that records changes."""
    body = {"entries": [change.fields for change in changes], "together": together}
    return Request("POST", "/v1/entries", EntriesModel, body=body)


def recording_list(
    changes: Sequence[Entry], key: str | None, at: datetime | None
) -> Request[EntriesModel]:
    """Return the request that records changes with one key."""
    entries = [
        {"counter": change.counter, "change": amounts.to_text(change.change)}
        | ({"legs": _leg_fields(change.legs)} if change.legs else {})
        for change in changes
    ]
    body: dict[str, Any] = {"entries": entries, "key": key}
    if at is not None:
        body["at"] = time_text(at)
    return Request("POST", "/v1/entries", EntriesModel, body=body)


def checked_entry(entry: object) -> Entry:
    """Return what is an entry.

    Raises:
        InvalidInput: it is not.
    """
    if not isinstance(entry, Entry):
        raise InvalidInput(f"entries must be entries of the ledger, got {entry!r:.100}")
    return entry


def portions(parts: Sequence[Part], bytes_of: Mapping[int, int]) -> Iterator[list[Part]]:
    """Yield parts in portions that one request may have; `bytes_of` is by place."""
    yield from _portions(parts, bytes_of, ENTRIES_MAX, BODY_BYTES_MAX)


def change_portions(changes: Sequence[NamedChange]) -> Iterator[list[NamedChange]]:
    """Yield changes in portions that one request may have."""
    sizes = {place: size_of(change.fields) for place, change in enumerate(changes)}
    return portions(changes, sizes)


def size_of(fields: Mapping[str, Any]) -> int:
    """Return how much of a request an entry takes: its bytes, or its values, of which are few."""
    text = orjson.dumps(fields)
    return max(len(text), VALUE_BYTES * sum(map(text.count, (b",", b"[", b"{"))))


def counter_portions(counters: Sequence[str]) -> Iterator[list[str]]:
    """Yield counters in portions that one query may have."""
    sizes = {place: len(quote(counter, safe="")) + 4 for place, counter in enumerate(counters)}
    return _portions(counters, sizes, COUNTERS_MAX, QUERY_BYTES_MAX)


def _portions(
    parts: Sequence[Part], bytes_of: Mapping[int, int], count_max: int, bytes_max: int
) -> Iterator[list[Part]]:
    portion: list[Part] = []
    size = 0
    for place, part in enumerate(parts):
        if portion and (len(portion) == count_max or size + bytes_of[place] > bytes_max):
            yield portion
            portion, size = [], 0
        portion.append(part)
        size += bytes_of[place]
    if portion:
        yield portion


def counter_path(counter: str, *rest: str, of: str = "counters") -> str:
    """Return the path of a counter, which is checked, or of something of it.

    Raises:
        InvalidCounter: it is not a counter id.
    """
    return "/".join(["/v1", of, segment(keys.checked_counter(counter)), *rest])


def segment(text: str) -> str:
    """Return text as one segment of a path: a lone dot, too, would have a meaning of its own."""
    quoted = quote(text, safe="")
    return quoted.replace(".", "%2E") if quoted in {".", ".."} else quoted


def query(**values: object) -> list[tuple[str, str]]:
    """Return parameters as text, without those that are None."""
    return [(name, _query_text(value)) for name, value in values.items() if value is not None]


def _query_text(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case datetime():
            return time_text(value) if value.tzinfo else value.isoformat()
        case date():
            return value.isoformat()
        case _:
            return str(value)


def time_text(at: datetime) -> str:
    """Return an aware time in UTC, so that no zone's odd offset is sent."""
    return at.astimezone(UTC).isoformat()


def edge(bound: object) -> str | None:
    """Return a bound of a history as the service reads it.

    Raises:
        InvalidEntry: it is neither an aware time nor the id of an entry.
    """
    match bound:
        case None:
            return None
        case datetime() if bound.tzinfo is not None:
            return time_text(bound)
        case str() if not is_time(bound):  # the service would take it for one
            return bound
        case _:
            raise InvalidEntry(f"{_BOUND}, got {bound!r}")


def first_of(values: Iterable[Part]) -> list[Part]:
    """Return each value once, in the order in which they come first."""
    return list(dict.fromkeys(values))
