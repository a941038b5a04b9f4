"""What a request asks for: names of counters in paths, keys, deadlines, bodies and bounds.

Pure: no clock, no randomness, no I/O.
"""

import re
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated
from urllib.parse import unquote_to_bytes

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    WithJsonSchema,
)

from ledger.core import amounts, ids
from ledger.core.descriptions import Value
from ledger.core.errors import (
    AmountOverflow,
    InvalidAmount,
    InvalidCounter,
    InvalidEntry,
    InvalidInput,
    UntimedKey,
)
from ledger.core.keys import ID_BYTES_MAX, checked_counter
from ledger.core.times import is_time, time_of
from ledger.core.tokens import no_hyphens, time_of_key
from ledger.core.values import Entry
from ledger.http.service.heads import NOT_ENCODED
from ledger.http.service.json_bodies import shown
from ledger.http.service.query_models import (
    ABOVE_0_SCHEMA,
    ADDEND_SCHEMA,
    AMOUNT_SCHEMA,
    BUDGET_DIGITS_MAX,
    DATE_SCHEMA,
    EFFECTIVE_SCHEMA,
    NOT_NEGATIVE_SCHEMA,
    PREFER_LENGTH_MAX,
    PREFER_SCHEMA,
    TIME_SCHEMA,
    TIMED_KEY,
    CounterId,
    EntryId,
    Name,
    Named,
    Note,
    Parts,
    Region,
    Schema,
    short,
    together_max,
)
from ledger.http.wire.models import AMOUNT_PATTERN
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
_AMOUNT = re.compile(AMOUNT_PATTERN, re.ASCII)


def _form_of(schema: Schema) -> re.Pattern[str]:
    return re.compile(str(schema["pattern"]), re.ASCII)


_PREFER, _TIME, _DAY, _EFFECTIVE, _ANY_FORM, _ADDEND_FORM, _BUDGET_FORM = map(
    _form_of,
    (
        PREFER_SCHEMA,
        TIME_SCHEMA,
        DATE_SCHEMA,
        EFFECTIVE_SCHEMA,
        AMOUNT_SCHEMA,
        ADDEND_SCHEMA,
        NOT_NEGATIVE_SCHEMA,
    ),
)
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


def moment(name: str, text: str) -> datetime:
    """Return an aware time.

    Raises:
        InvalidInput: it is none.
    """
    if not _TIME.fullmatch(text):
        raise InvalidInput(
            f"{name} must be a time with a zone, such as 2026-11-21T06:50:00Z, of the years 1971 to"
            f" 9899, got {text!r:.100}"
        )
    return time_of(text)


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


def _amount(
    value: object,
    read: Callable[[str], Decimal] = amounts.parse,
    form: re.Pattern[str] = _ANY_FORM,
) -> Decimal:
    if not isinstance(value, str):
        rounded = ": a number of JSON is rounded by many programs"
        why = rounded if isinstance(value, int | float) and not isinstance(value, bool) else ""
        raise InvalidAmount(f'an amount must be a string, such as "12.50", got {shown(value)}{why}')
    if not _AMOUNT.fullmatch(value):
        raise InvalidAmount(
            "an amount must be a decimal number without spaces, such as 12.50, -1 or 1e3, got"
            f" {value!r:.100}"
        )
    try:
        found = read(value)
    except AmountOverflow as error:
        raise InvalidAmount(str(error)) from None
    if not form.fullmatch(value):
        raise InvalidAmount(
            "an amount must be written with no zero before its digits, and with an exponent one"
            f" digit before the point, such as 12.50 or 1.5e3, got {value!r:.100}"
        )
    return found


def _addend(value: object) -> Decimal:
    return _amount(value, lambda text: amounts.addend(amounts.parse(text)), _ADDEND_FORM)


def _not_negative(value: object) -> Decimal:
    found = _addend(value)
    if str(value).startswith("-"):
        raise InvalidAmount(f"an amount of a budget must have no sign, got {value!r:.100}")
    return _of_budget(found, value)


def _above_0(value: object) -> Decimal:
    found = _addend(value)
    if found <= 0:
        raise InvalidAmount(f"an amount to spend or hold must be above 0, got {value!r:.100}")
    return _of_budget(found, value)


def _of_budget(found: Decimal, value: object) -> Decimal:
    """Return an amount of a budget; how large it may be depends on the budget."""
    if not _BUDGET_FORM.fullmatch(str(value)):
        raise InvalidAmount(
            f"an amount of a budget must have up to {BUDGET_DIGITS_MAX} digits, got {value!r:.100}"
        )
    return found


def edge(name: str, text: str | None) -> datetime | str | None:
    """Return a bound of a history: a time, or the id of an entry; None if none was given.

    Raises:
        InvalidInput: a time without a zone.
    """
    return moment(name, text) if text is not None and is_time(text) else text


def _time(value: object) -> datetime:
    return moment("body: at", _text("at", value))


def _date(value: object) -> date:
    text = _text("effective", value)
    try:
        if _EFFECTIVE.fullmatch(text):
            return date.fromisoformat(text)
    except ValueError:
        pass
    raise InvalidInput(f"body: effective must be a date, such as 2026-11-21, got {text!r}")


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"body: {name} must be a string, got {shown(value)}")
    return value


def _written_id(value: object) -> str:
    return _entry_id("body: id", _text("id", value))


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, BeforeValidator(_whole)]
"""A whole number of JSON: there 1.0 is one, too."""

At = Annotated[datetime, BeforeValidator(_time), WithJsonSchema(TIME_SCHEMA)]
Effective = Annotated[date, BeforeValidator(_date), WithJsonSchema(EFFECTIVE_SCHEMA)]
Amount = Annotated[Decimal, BeforeValidator(_amount), WithJsonSchema(AMOUNT_SCHEMA)]
Addend = Annotated[Decimal, BeforeValidator(_addend), WithJsonSchema(ADDEND_SCHEMA)]
"""What may be added to a counter; an entry that was written may hold any amount."""
NotNegative = Annotated[
    Decimal, BeforeValidator(_not_negative), WithJsonSchema(NOT_NEGATIVE_SCHEMA)
]
Above0 = Annotated[Decimal, BeforeValidator(_above_0), WithJsonSchema(ABOVE_0_SCHEMA)]
"""What the ledger takes of budgets, and checks."""


class Body(BaseModel):
    """A body of a request: a member that has no meaning is an error, since it may be a slip."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class EntryBody(Body):
    """One change of the counter that the path names."""

    change: Addend
    note: Note | None = Field(None, description="Free text, kept with the entry.")
    effective: Effective | None = Field(
        None, description="The date that the change is for, if it is not the day of writing."
    )


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
    """One change of several; `key` and `at` name it, as the headers do of a single one."""

    model_config = ConfigDict(json_schema_extra=TIMED_KEY)

    counter: CounterId
    key: Named | None = None
    at: At | None = None

    @property
    def asked(self) -> Change:
        """The change."""
        return Change(self.counter, self.change, self.note, self.effective, self.key, self.at)


class EntriesBody(NamedBody):
    """Many changes: each with an outcome of its own, or, with `together`, all or none.

    A `key` names them all, which are amounts alone then.
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
