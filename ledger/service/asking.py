"""What a request asks for: names of counters in paths, keys, deadlines, bodies and bounds.

Pure: no clock, no randomness, no I/O.
"""

import re
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, NoReturn, TypeVar
from urllib.parse import unquote_to_bytes

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
)

from ledger.core import amounts
from ledger.core.descriptions import Value
from ledger.core.errors import AmountOverflow, InvalidAmount, InvalidCounter, InvalidInput
from ledger.core.keys import checked_counter
from ledger.service.forms import AMOUNT_SCHEMA, CounterId, EntryId, Name, Named
from ledger.writing.plan import Change, checked_key

ENTRIES_MAX = 1_000
"""Entries of one request that each have an outcome of their own."""
COUNT_MAX = 2**53
"""Changes that one entry stands for: as many as every program of JSON counts exactly."""
WAIT_SECONDS_MAX = 60.0
"""The longest deadline that a request may ask for."""
_WAIT = re.compile(r"(?:^|[,;])\s*wait\s*=\s*([0-9]{1,4})\s*(?=$|[,;])", re.ASCII | re.IGNORECASE)


def counter_in(segment: str) -> str:
    """Return the counter that a percent-encoded segment of a path names.

    Raises:
        InvalidCounter: it is not UTF-8.
    """
    if "%" not in segment:
        return segment
    try:
        return unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        raise InvalidCounter(f"counter {segment!r} is not percent-encoded UTF-8") from None


def key_of(key: str | None, time: str | None) -> tuple[str | None, datetime | None]:
    """Return the key and the time by which a request is named; both None if it is not.

    Whether the key carries its time is checked when the change is planned.

    Raises:
        InvalidInput: the key, or the time, breaks a rule; or there is a time without a key.
    """
    if key is None:
        if time is not None:
            raise InvalidInput("Idempotency-Time belongs to an Idempotency-Key: send both")
        return None, None
    # The draft's header is a structured string: "..." in quotes; most send it bare.
    bare = key[1:-1] if len(key) > 1 and key[0] == key[-1] == '"' else key
    checked_key(bare, what="Idempotency-Key")
    return bare, None if time is None else moment("Idempotency-Time", time)


def wait_of(prefer: str | None) -> float | None:
    """Return the deadline in seconds that a `Prefer: wait=N` header asks for (RFC 7240, 4.3).

    Raises:
        InvalidInput: it is 0, or over a minute.
    """
    found = _WAIT.search(prefer) if prefer else None
    if found is None:
        return None
    seconds = float(found[1])
    if not 0 < seconds <= WAIT_SECONDS_MAX:
        raise InvalidInput(f"Prefer: wait must be 1 to {WAIT_SECONDS_MAX:g} s, got {found[1]}")
    return seconds


def moment(name: str, text: str) -> datetime:
    """Return an aware time.

    Raises:
        InvalidInput: it is none.
    """
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        read = None
    if read is None or read.tzinfo is None:
        raise InvalidInput(
            f"{name} must be a time with a zone, such as 2026-11-21T06:50:00Z, got {text!r}"
        )
    return read


def bound(name: str, text: str | None) -> datetime | date | None:
    """Return a date or an aware time; None if none was given.

    Raises:
        InvalidInput: it is neither.
    """
    if text is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        return moment(name, text)


def _amount(value: object, read: Callable[[str], Decimal] = amounts.parse) -> Decimal:
    if not isinstance(value, str):
        raise InvalidAmount(
            f'an amount must be a string, such as "12.50", got {value!r}: a number of JSON is'
            " rounded by many programs"
        )
    try:
        return read(value)
    except AmountOverflow as error:
        raise InvalidAmount(str(error)) from None


def _addend(value: object) -> Decimal:
    return _amount(value, lambda text: amounts.addend(amounts.parse(text)))


def edge(name: str, text: str | None) -> datetime | str | None:
    """Return a bound of a history: a time, or the id of an entry; None if none was given.

    Raises:
        InvalidInput: a time without a zone.
    """
    if text is None:
        return None
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return text
    return moment(name, text)


def _time(value: object) -> datetime:
    return moment("body: at", _text("at", value))


def _date(value: object) -> date:
    text = _text("effective", value)
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InvalidInput(
            f"body: effective must be a date, such as 2026-11-21, got {text!r}"
        ) from None


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"body: {name} must be a string, got {value!r:.100}")
    return value


def _whole(value: object) -> object:
    """Return a number of JSON as the whole number that it is: there 1.0 is one, too."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


At = Annotated[
    datetime,
    BeforeValidator(_time),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
Effective = Annotated[
    date, BeforeValidator(_date), WithJsonSchema({"type": "string", "format": "date"})
]
Amount = Annotated[Decimal, BeforeValidator(_amount), WithJsonSchema(AMOUNT_SCHEMA)]
Addend = Annotated[Decimal, BeforeValidator(_addend), WithJsonSchema(AMOUNT_SCHEMA)]
"""What may be added to a counter; an entry that was written may hold any amount."""


class Body(BaseModel):
    """A body of a request: a member that has no meaning is an error, since it may be a slip."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class EntryBody(Body):
    """One change of the counter that the path names."""

    change: Addend
    note: str | None = Field(None, description="Free text, kept with the entry.")
    effective: Effective | None = Field(
        None, description="The date that the change is for, if it is not the day of writing."
    )


class NamedEntryBody(EntryBody):
    """One change of several; `key` and `at` name it, as the headers do of a single one."""

    counter: CounterId
    key: Named | None = None
    at: At | None = None

    @property
    def asked(self) -> Change:
        """The change."""
        return Change(self.counter, self.change, self.note, self.effective, self.key, self.at)


class EntriesBody(Body):
    """Many changes: each with an outcome of its own, or, with `together`, all or none."""

    entries: list[NamedEntryBody] = Field(min_length=1, max_length=ENTRIES_MAX)
    together: bool = False


class WrittenEntry(Body):
    """An entry as a problem of kind `outcome-unknown` carried it."""

    counter: Annotated[CounterId, BeforeValidator(checked_counter)]
    id: EntryId
    change: Amount
    region: str | None = None
    note: str | None = None
    effective: Effective | None = None
    count: Annotated[int, BeforeValidator(_whole)] = Field(1, ge=1, le=COUNT_MAX)
    reverses: None = Field(None, description="A reversal is repeated by the call that made it.")


class RetryBody(Body):
    """Entries whose outcome is unknown."""

    entries: list[WrittenEntry] = Field(min_length=1, max_length=ENTRIES_MAX)
    together: bool = False


class ReverseBody(Body):
    """Which counter the entry is of, and why it is taken back."""

    counter: CounterId
    note: str | None = None


class ReconcileBody(Body):
    """What a count by hand found."""

    counted: Addend
    at: At | None = None
    reason: str | None = None
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


BodyModel = TypeVar("BodyModel", bound=Body)


def read_body(kind: TypeAdapter[BodyModel], body: bytes) -> BodyModel:
    """Return a body, checked.

    Raises:
        InvalidInput: it is not JSON, or a member breaks a rule; the message names it.
    """
    try:
        return kind.validate_json(body)
    except ValidationError as error:
        _refuse(error)


def _refuse(error: ValidationError) -> NoReturn:
    """Raise the first error of a body as ours."""
    first = error.errors(include_url=False)[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, InvalidInput):
        raise cause from None
    place = ".".join(map(str, first["loc"]))
    found = "" if first["type"] in {"missing", "json_invalid"} else f", got {first['input']!r:.100}"
    where = f"{place}: " if place else ""
    raise InvalidInput(f"body: {where}{first['msg'].lower()}{found}") from None
