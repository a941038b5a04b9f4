"""What a request asks for: names of counters in paths, keys, deadlines, bodies and bounds.

Pure: no clock, no randomness, no I/O.
"""

import re
from collections.abc import Sequence
from datetime import date, datetime
from typing import Annotated
from urllib.parse import unquote_to_bytes

from pydantic import BeforeValidator, ConfigDict, FailFast, Field

from ledger.core import ids
from ledger.core.descriptions import Value
from ledger.core.errors import InvalidCounter, InvalidEntry, InvalidInput, UntimedKey
from ledger.core.keys import ID_BYTES_MAX, checked_counter
from ledger.core.times import is_time
from ledger.core.tokens import no_hyphens, time_of_key
from ledger.core.values import Entry
from ledger.http.service.body_values import (
    Addend,
    Amount,
    At,
    Body,
    Effective,
    Legs,
    Metadata,
    Whole,
    form_of,
    legs_of,
    moment,
    text_of,
)
from ledger.http.service.heads import NOT_ENCODED
from ledger.http.service.query_models import (
    DATE_SCHEMA,
    PREFER_LENGTH_MAX,
    PREFER_SCHEMA,
    TIMED_KEY,
    TRANSFER,
    CounterId,
    EntryId,
    Name,
    Named,
    Note,
    Parts,
    Region,
    short,
    together_max,
)
from ledger.store.writes import TRANSACTION_ACTIONS_MAX
from ledger.writes.entry_plan import Change, checked_key

ENTRIES_MAX = 1_000
"""Entries of one request that each have an outcome of their own."""
COUNT_MAX = 1_000_000
"""Changes that one entry to be repeated stands for: far more than earlier releases made one of."""
WAIT_SECONDS_MAX = 60.0
"""The longest deadline that a request may ask for."""
_PREFERENCE = re.compile(r'(?:[^",]|"(?:[^"\\]|\\.)*"?)+')
_WAIT = re.compile(r'("?)([0-9]{1,4})\1', re.ASCII)
_PREFER, _DAY = map(form_of, (PREFER_SCHEMA, DATE_SCHEMA))


_is_short = short(256)


def counter_in(segment: str) -> str:
    """Return the counter that a percent-encoded segment of a path names.

    Raises:
        InvalidCounter: it is not percent-encoded UTF-8.
    """
    return _is_short(_decoded(segment, "counter", InvalidCounter))


def entry_in(segment: str) -> str:
    """Return the id of the entry that a percent-encoded segment of a path names.

    Raises:
        InvalidEntry: it is not percent-encoded UTF-8, or no id that the ledger made.
    """
    return _entry_id("entry", _decoded(segment, "entry", InvalidEntry))


def _entry_id(name: str, found: str) -> str:
    if ids.parse_named(found) is None:
        raise InvalidEntry(
            f"{name} must be the id of an entry, such as"
            f" 2026-11-21T06:50:01.123456Z#4f1d2c3b5a697887, got {found!r:.100}"
        )
    return found


def _decoded(segment: str, what: str, error: type[InvalidInput]) -> str:
    try:
        if NOT_ENCODED.search(segment) is None:
            return unquote_to_bytes(segment).decode() if "%" in segment else segment
    except UnicodeDecodeError:
        pass
    raise error(f"{what} {segment!r:.100} is not percent-encoded UTF-8 (a percent sign is %25)")


def key_of(key: str | None, time: str | None) -> tuple[str | None, datetime | None]:
    """Return the key and the time by which a request is named; both None if it is not.

    They are its headers Idempotency-Key and Idempotency-Time.

    Raises:
        InvalidInput: the key, or the time, breaks a rule; or there is a time without a key, or
            another than the key carries.
        UntimedKey: there is no time.
    """
    if key is None:
        if time is not None:
            raise InvalidInput("Idempotency-Time belongs to an Idempotency-Key: send both")
        return None, None
    # The draft's header is a structured string: "..." in quotes; most send it bare.
    bare = key[1:-1] if len(key) > 1 and key[0] == key[-1] == '"' else key
    if not bare.isascii():
        raise InvalidInput(
            f"Idempotency-Key must be ASCII, got {bare[:40]!r}: what else a header holds is read in"
            " more than one way; send such a key in the body of POST /v1/entries"
        )
    checked_key(bare, what="Idempotency-Key")
    if len(key) > ID_BYTES_MAX:
        raise InvalidInput(
            f"Idempotency-Key must have up to {ID_BYTES_MAX:,} characters, its quotes among them,"
            f" got {len(key):,}"
        )
    carried = time_of_key(bare)
    if time is None and carried is None:
        raise UntimedKey(
            f"Idempotency-Key {bare[:40]!r} carries no time: send Idempotency-Time, which was"
            f" chosen with it and is the same at each try, or a UUIDv7 or a ULID{no_hyphens(bare)}"
        )
    at = None if time is None else moment("Idempotency-Time", time)
    if None not in (at, carried) and at != carried:
        raise InvalidInput(
            f"Idempotency-Time {time} is not the time that the Idempotency-Key carries"
            f" ({carried}): leave it out"
        )
    return bare, at


def wait_of(prefer: Sequence[str]) -> float | None:
    """Return the deadline in seconds that `wait=N` among Prefer headers asks for.

    Other preferences are ignored (RFC 7240, 2 and 4.3).

    Raises:
        InvalidInput: it is no whole number of 1 to 60, or there twice; or there is more than any
            caller prefers.
    """
    if not prefer:
        return None
    if len(",".join(prefer)) > PREFER_LENGTH_MAX:
        raise InvalidInput(f"Prefer must have up to {PREFER_LENGTH_MAX} characters")
    asked = [one.partition(";")[0].partition("=") for one in _PREFERENCE.findall(",".join(prefer))]
    waits = [value.strip() for name, _, value in asked if name.strip().lower() == "wait"]
    if not waits and _PREFER.fullmatch(",".join(prefer)):
        return None
    if len(waits) > 1:
        raise InvalidInput(f"Prefer: wait must be there once, got {len(waits)} of them")
    found = _WAIT.fullmatch(waits[0]) if waits and _PREFER.fullmatch(",".join(prefer)) else None
    if found is None or not 0 < int(found[2]) <= WAIT_SECONDS_MAX:
        raise InvalidInput(
            f"Prefer: wait must be a whole number of seconds from 1 to {WAIT_SECONDS_MAX:g}, got"
            f" {','.join(prefer)!r:.40}"
        )
    return float(found[2])


def bound(name: str, text: str | None) -> datetime | date | None:
    """Return a date or an aware time; None if none was given.

    Raises:
        InvalidInput: it is neither.
    """
    if text is None:
        return None
    return date.fromisoformat(text) if _DAY.fullmatch(text) else moment(name, text)


def checked_region(region: str | None, regions: Sequence[str]) -> str | None:
    """Return the region of an entry, if one was given.

    Raises:
        InvalidInput: it is none of the table's.
    """
    if region is not None and region not in regions:
        raise InvalidInput(
            f"body: region must be one of the table's ({', '.join(regions)}), got {region!r:.100}"
        )
    return region


def edge(name: str, text: str | None) -> datetime | str | None:
    """Return a bound of a history: a time, or the id of an entry; None if none was given.

    Raises:
        InvalidInput: a time without a zone.
    """
    return moment(name, text) if text is not None and is_time(text) else text


def _written_id(value: object) -> str:
    return _entry_id("body: id", text_of("id", value))


class EntryBody(Body):
    """One change of the counter that the path names."""

    change: Addend
    note: Note | None = Field(None, description="Free text, kept with the entry.")
    effective: Effective | None = Field(
        None, description="The date that the change is for, if it is not the day of writing."
    )
    metadata: Metadata | None = None


class TransferBody(Body):
    """A transfer in the book that the path names, whole wherever it is shown."""

    legs: Legs
    note: Note | None = Field(None, description="Free text, kept with the entry.")
    effective: Effective | None = Field(
        None, description="The date that it is for, if it is not the day of writing."
    )
    metadata: Metadata | None = None


class NamedBody(Body):
    """A body whose `key` and `at` name the request, in place of its headers."""

    key: Named | None = None
    at: At | None = None

    def named(self, key: str | None, time: str | None) -> tuple[str | None, datetime | None]:
        """Return key and time: those of the headers, or else of the body.

        Raises:
            InvalidInput: both have one; and as `key_of`.
        """
        found = key_of(key, time)
        if found == (None, None):
            return self.key, self.at
        if (self.key, self.at) != (None, None):
            raise InvalidInput("the key is in the header Idempotency-Key, or in the body: send one")
        return found


class NamedEntryBody(EntryBody):
    """One change of several; `key` and `at` name it, as the headers do of a single one.

    With `legs` it is a transfer in a book, and `change` is 0.
    """

    model_config = ConfigDict(json_schema_extra={"allOf": [TIMED_KEY, TRANSFER]})

    counter: CounterId
    key: Named | None = None
    at: At | None = None
    legs: Legs | None = None

    @property
    def asked(self) -> Change:
        """The change."""
        said = self.note, self.effective, self.key, self.at
        legs = None if self.legs is None else legs_of(self.legs)
        return Change(self.counter, self.change, *said, legs, self.metadata)


class EntriesBody(NamedBody):
    """Many changes: each with an outcome of its own, or, with `together`, all or none.

    A `key` names them all, which are amounts, or transfers, alone then.
    """

    model_config = ConfigDict(
        json_schema_extra={**TIMED_KEY, **together_max(TRANSACTION_ACTIONS_MAX)}
    )

    entries: Annotated[list[NamedEntryBody], FailFast()] = Field(
        min_length=1, max_length=ENTRIES_MAX
    )
    together: bool = False


class WrittenEntry(Body):
    """An entry as a problem of kind `outcome-unknown` carried it."""

    model_config = ConfigDict(json_schema_extra=TRANSFER)

    counter: Annotated[CounterId, BeforeValidator(checked_counter)]
    id: Annotated[EntryId, BeforeValidator(_written_id)]
    key: Annotated[Named, BeforeValidator(checked_key)] = Field(
        description="What its id follows from: it proves who wrote the entry."
    )
    change: Addend
    region: Region | None = Field(
        None, description="Where it was sent first. The one that repeats it writes its own."
    )
    note: Note | None = None
    effective: Effective | None = None
    count: Whole = Field(1, ge=1, le=COUNT_MAX)
    parts: Parts = ""
    legs: Legs | None = None
    metadata: Metadata | None = None
    reverses: None = Field(None, description="A reversal is repeated by the call that made it.")
    spending: None = Field(None, description="A spend is repeated by the call that made it.")

    @property
    def entry(self) -> Entry:
        """The entry, of a region that is not known."""
        return Entry(
            self.counter,
            self.id,
            self.change,
            note=self.note,
            effective=self.effective,
            count=self.count,
            key=self.key,
            parts=self.parts,
            legs=legs_of(self.legs or ()),
            metadata=self.metadata or None,
        )


class RetryBody(Body):
    """Entries whose outcome is unknown."""

    model_config = ConfigDict(json_schema_extra=together_max(TRANSACTION_ACTIONS_MAX))

    entries: Annotated[list[WrittenEntry], FailFast()] = Field(min_length=1, max_length=ENTRIES_MAX)
    together: bool = False


class ReverseBody(Body):
    """Which counter the entry is of, why it is taken back, and from when the reversal applies."""

    counter: CounterId
    note: Note | None = None
    effective: Effective | None = None


class ReconcileBody(Body):
    """What a count by hand found."""

    counted: Addend
    at: At | None = None
    reason: Note | None = None
    token: Named | None = None


class NumberBody(Body):
    """A number among the attributes of a counter, as text, so that no digit is lost."""

    number: Amount


class DescriptionBody(Body):
    """Attributes to set, by name; one that is null is removed, one that is not named stays."""

    attributes: dict[Name, str | bool | NumberBody | None] = Field(
        min_length=1, json_schema_extra={"maxProperties": 16}
    )

    @property
    def asked(self) -> dict[str, Value | None]:
        """The attributes as the ledger takes them."""
        return {
            name: value.number if isinstance(value, NumberBody) else value
            for name, value in self.attributes.items()
        }
