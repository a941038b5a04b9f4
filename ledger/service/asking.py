"""What a request asks for: names of counters in paths, keys, deadlines, bodies and bounds.

Pure: no clock, no randomness, no I/O.
"""

import re
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Literal, NoReturn, TypeVar
from urllib.parse import unquote_to_bytes

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from ledger.core import amounts
from ledger.core.descriptions import Value
from ledger.core.errors import AmountOverflow, InvalidAmount, InvalidCounter, InvalidInput
from ledger.core.index import TOP_MAX
from ledger.core.timed_keys import time_in
from ledger.writing.plan import Change, checked_key

ENTRIES_MAX = 1_000
"""Entries of one request that each have an outcome of their own."""
IDS_MAX = 100
"""Counters of one request for totals."""
LIVE_MAX = 50
"""Counters that one stream of events follows."""
PAGE_MAX = 1_000
WAIT_SECONDS_MAX = 60.0
"""The longest deadline that a request may ask for."""
_WAIT = re.compile(r"(?:^|[,;])\s*wait\s*=\s*([0-9]{1,4})\s*(?=$|[,;])", re.ASCII | re.IGNORECASE)


class UntimedKey(InvalidInput):
    """The key of a request carries no time, and none came with it."""


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

    Raises:
        UntimedKey: a key that carries no time, without one beside it.
        InvalidInput: the key, or the time, breaks a rule; or there is a time without a key.
    """
    if key is None:
        if time is not None:
            raise InvalidInput("Idempotency-Time belongs to an Idempotency-Key: send both")
        return None, None
    # The draft's header is a structured string: "..." in quotes; most send it bare.
    bare = key[1:-1] if len(key) > 1 and key[0] == key[-1] == '"' else key
    checked_key(bare, what="Idempotency-Key")
    if time is not None:
        return bare, moment("Idempotency-Time", time)
    if time_in(bare) is None:
        raise UntimedKey(
            f"Idempotency-Key {bare[:40]!r} carries no time: send a UUIDv7 or a ULID, or the time"
            " that was chosen with it as Idempotency-Time"
        )
    return bare, None


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


def _amount(value: object) -> Decimal:
    if not isinstance(value, str):
        raise InvalidAmount(
            f'an amount must be a string, such as "12.50", got {value!r}: a number of JSON is'
            " rounded by many programs"
        )
    try:
        return amounts.parse(value)
    except AmountOverflow as error:
        raise InvalidAmount(str(error)) from None


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


Amount = Annotated[
    Decimal,
    BeforeValidator(_amount),
    Field(
        json_schema_extra={
            "type": "string",
            "pattern": r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$",
            "examples": ["12.50", "-1"],
        },
        description="An exact amount of up to 38 digits, as text.",
    ),
]


By = Literal["hour", "day", "month"]


class Body(BaseModel):
    """A body of a request: a member that has no meaning is an error, since it may be a slip."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class EntryBody(Body):
    """One change of the counter that the path names."""

    change: Amount
    note: str | None = Field(None, description="Free text, kept with the entry.")
    effective: Annotated[date | None, Field(strict=False)] = Field(
        None, description="The date that the change is for, if it is not the day of writing."
    )


class NamedEntryBody(EntryBody):
    """One change of several; `key` and `at` name it, as the headers do of a single one."""

    counter: str
    key: str | None = None
    at: Annotated[datetime | None, Field(strict=False)] = None

    @property
    def asked(self) -> Change:
        """The change.

        Raises:
            UntimedKey: its key carries no time.
            InvalidInput: the key or the time breaks a rule.
        """
        if self.key is None or self.at is not None:
            return Change(self.counter, self.change, self.note, self.effective, self.key, self.at)
        key, at = key_of(self.key, None)
        return Change(self.counter, self.change, self.note, self.effective, key, at)


class EntriesBody(Body):
    """Many changes: each with an outcome of its own, or, with `together`, all or none."""

    entries: list[NamedEntryBody] = Field(min_length=1, max_length=ENTRIES_MAX)
    together: bool = False


class WrittenEntry(Body):
    """An entry as a problem of kind `outcome-unknown` carried it."""

    counter: str
    id: str
    change: Amount
    region: str | None = None
    note: str | None = None
    effective: Annotated[date | None, Field(strict=False)] = None
    count: int = Field(1, ge=1)
    reverses: None = Field(None, description="A reversal is repeated by the call that made it.")


class RetryBody(Body):
    """Entries whose outcome is unknown."""

    entries: list[WrittenEntry] = Field(min_length=1, max_length=ENTRIES_MAX)
    together: bool = False


class ReverseBody(Body):
    """Which counter the entry is of, and why it is taken back."""

    counter: str
    note: str | None = None


class ReconcileBody(Body):
    """What a count by hand found."""

    counted: Amount
    at: Annotated[datetime | None, Field(strict=False)] = None
    reason: str | None = None
    token: str | None = None


class TotalQuery(BaseModel):
    """How a total is to be read."""

    model_config = ConfigDict(extra="forbid")

    max_age: float | None = Field(
        None, ge=0, description="Seconds that a total may be old; 0 reads the table."
    )
    steady: bool = Field(default=False, description="Read until two looks agree.")
    at: str | None = Field(None, description="A date or time: what was made before it.")
    effective: bool = Field(default=False, description="With `at`: what is effective before it.")


class TotalsQuery(BaseModel):
    """Which totals are to be read, and how."""

    model_config = ConfigDict(extra="forbid")

    id: list[str] = Field(min_length=1, max_length=IDS_MAX, description="Counter ids.")
    max_age: float | None = Field(None, ge=0)
    steady: bool = False


class LiveQuery(BaseModel):
    """Which totals are to be followed."""

    model_config = ConfigDict(extra="forbid")

    id: list[str] = Field(min_length=1, max_length=LIVE_MAX, description="Counter ids.")
    every: float = Field(1.0, ge=0.1, le=60, description="Seconds between two looks.")


class PeriodsQuery(BaseModel):
    """Which sums by period are to be read."""

    model_config = ConfigDict(extra="forbid")

    by: By
    since: str | None = Field(None, description="From this date or time on.")
    until: str | None = Field(None, description="Before this date or time.")
    effective: bool = False


class HistoryQuery(BaseModel):
    """Which entries are to be listed, a page at a time."""

    model_config = ConfigDict(extra="forbid")

    after: str | None = Field(None, description="A time, or the `next` of the page before.")
    before: str | None = Field(None, description="A time, or the id of an entry.")
    limit: int = Field(100, ge=1, le=PAGE_MAX)


class CountersQuery(BaseModel):
    """Which counters are to be listed, a page at a time."""

    model_config = ConfigDict(extra="forbid")

    prefix: str = ""
    after: str | None = Field(None, description="The `next` of the page before.")
    limit: int = Field(100, ge=1, le=PAGE_MAX)
    exact: bool = Field(default=False, description="Read each total from the table.")
    described: bool = False


class TopQuery(BaseModel):
    """Which counters are to be ranked, and how."""

    model_config = ConfigDict(extra="forbid")

    prefix: str = ""
    n: int = Field(10, ge=1, le=TOP_MAX, description="How many are returned at most.")
    smallest: bool = Field(default=False, description="Those with the smallest values.")
    exact: bool = Field(default=False, description="Read the totals of those found.")


class NumberBody(Body):
    """A number among the attributes of a counter, as text, so that no digit is lost."""

    number: Amount


class DescriptionBody(Body):
    """Attributes to set, by name; one that is null is removed, one that is not named stays."""

    attributes: dict[str, str | bool | NumberBody | None] = Field(min_length=1)

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
