r"""What a query asks for, by its parameters.

Forms of values in paths, queries, headers and bodies: what OpenAPI says of them.

What a form says is taken: no request is refused for a value that has it. And nothing else is: the
service reads by the same patterns. Where no pattern can say the rule, a `format` names it, and the
description has it in words. Patterns are of the kind that every language's validators read: no
looking ahead, `\x..` for characters, and no count above 1,000.

Pure: no clock, no randomness, no I/O.
"""

import re
from collections.abc import Callable
from typing import Annotated, TypeVar, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)
from starlette.datastructures import QueryParams

from ledger.core import books, transfers
from ledger.core.entry import METADATA_NAMES_MAX
from ledger.core.errors import InvalidInput
from ledger.core.index import TOP_MAX
from ledger.core.parts import PARTS_MAX
from ledger.reads.period_totals import By
from ledger.settings.rules import rule_of

Schema = dict[str, JsonValue]

_YEAR = "(?:197[1-9]|19[89][0-9]|[2-8][0-9]{3}|9[0-8][0-9]{2})"
"""Those that an id holds in every zone, but for the first and the last."""
_LEAP_YEAR = (
    "(?:19(?:7[26]|8[048]|9[26])|(?:[2-8][0-9]|9[0-8])(?:0[48]|[2468][048]|[13579][26])"
    "|(?:[2468][048]|[3579][26])00)"
)
_DAY = (
    rf"(?:{_YEAR}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)"
    rf"|(?:0[13578]|1[02])-31)|{_LEAP_YEAR}-02-29)"
)
_HOUR = "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_TIME = rf"{_DAY}T{_HOUR}:[0-5][0-9]"
TIME_PATTERN = rf"^{_DAY}[Tt]{_HOUR}:[0-5][0-9](?:\.[0-9]+)?(?:[Zz]|[+-]{_HOUR})$"
TIME_SCHEMA: Schema = {"type": "string", "format": "date-time", "pattern": TIME_PATTERN}
"""RFC 3339, of the years 1971 to 9899, without leap seconds."""
DATE_SCHEMA: Schema = {"type": "string", "format": "date", "pattern": f"^{_DAY}$"}
EFFECTIVE_SCHEMA: Schema = {
    "type": "string",
    "format": "date",
    "pattern": "^(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])-[0-9]{2}-[0-9]{2}$",
}
"""Any day of the calendar, which has no year 0."""

_CONTROLS = r"\x00-\x1f\x7f-\x9f"
COUNTER_SCHEMA: Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": 1024,
    "format": "counter-id",
    # So no text of 256 characters, and none of ASCII, has more than the 1,024 bytes of an id.
    "pattern": rf"^(?:[ -}}][ -~]*|[^~{_CONTROLS}][^{_CONTROLS}]{{0,255}})$",
    "examples": ["customer1-balance"],
    "description": "An id: up to 1,024 bytes of UTF-8 that do not begin with `~`, without control"
    " characters; a new one in normal form C (NFC), without invisible characters.",
}
"""What OpenAPI says of a counter's id; `ledger.core.keys` checks it."""
PREFIX_SCHEMA: Schema = {
    "type": "string",
    "maxLength": 1024,
    "format": "prefix",
    "pattern": rf"^(?:(?:[ -}}][ -~]*)?|[^~{_CONTROLS}][^{_CONTROLS}]{{0,255}})$",
}
_ENTRY_ID = rf"{_TIME}\.[0-9]{{6}}Z#[0-9a-f]{{16}}"
HOLD_ID_SCHEMA: Schema = {
    "type": "string",
    "format": "hold-id",
    "pattern": f"^{_ENTRY_ID}$",
    "examples": ["2026-11-21T06:50:01.123456Z#4f1d2c3b5a697887"],
}
ENTRY_ID_SCHEMA: Schema = {
    **HOLD_ID_SCHEMA,
    "format": "entry-id",
    "pattern": rf"^{_ENTRY_ID}(?:\.[0-9]{{3}})?$",
}
"""With its place, of an entry that shares its item."""
DIGITS_MAX = 38
PARTS_CHARACTERS_MAX = transfers.TEXT_BYTES_MAX
"""Of transfers; a hundred amounts of a list with one key have half of that."""
PARTS_SCHEMA: Schema = {
    "type": "string",
    "maxLength": PARTS_CHARACTERS_MAX,
    "format": "parts",
    "description": "As the problem had it, beside an `id` with a place.",
}
"""`ledger.core.parts` checks it."""
WHEN_SCHEMA: Schema = {"anyOf": [DATE_SCHEMA, TIME_SCHEMA]}
EDGE_SCHEMA: Schema = {"anyOf": [TIME_SCHEMA, ENTRY_ID_SCHEMA]}
REGION_SCHEMA: Schema = {
    "type": "string",
    "format": "region",
    "description": "One of the table's regions: `regions` of `GET /v1/session`.",
}

BUDGET_DIGITS_MAX = 31
"""Of amounts of budgets: sums of a million of them have 38."""
_ZERO = r"0(?:\.0{1,38})?"


def _above_0(digits: int) -> str:
    """Return the pattern of numbers of so many digits, none beyond the 38th around the point."""
    forms = (
        rf"[1-9][0-9]{{0,{digits - 1}}}",
        *(rf"[1-9][0-9]{{{most - 1}}}\.[0-9]{{1,{digits - most}}}" for most in range(1, digits)),
        *(rf"0\.0{{{most}}}[1-9][0-9]{{0,{digits - most - 1}}}" for most in range(digits)),
        r"[1-9](?:\.[0-9]{1,18})?[eE](?:\+?(?:[0-9]|[12][0-9]|3[0-7])|-(?:[0-9]|1[0-9]|20))",
        "[1-9][eE]-(?:2[1-9]|3[0-8])",
    )
    return "|".join(forms)


_ANY = (
    r"[1-9][0-9]{0,37}0{0,2}|0\.0{0,39}[1-9][0-9]{0,37}|"
    r"[1-9](?:\.[0-9]{1,37})?[eE]"
    r"(?:\+?(?:[0-9]|[1-9][0-9]|1[01][0-9]|12[0-5])|-(?:[0-9]|[1-9][0-9]|1[0-2][0-9]|130))"
)


def _amount(pattern: str, digits: int, said: str) -> Schema:
    return {
        "type": "string",
        "format": "amount",
        "pattern": f"^{pattern}$",
        "examples": ["12.50"],
        "description": f"An exact amount of up to {digits} digits, as text{said}.",
    }


AMOUNT_SCHEMA = _amount(f"-?(?:{_ZERO}|{_above_0(DIGITS_MAX)}|{_ANY})", DIGITS_MAX, "")
ADDEND_SCHEMA = _amount(
    f"-?(?:{_ZERO}|{_above_0(DIGITS_MAX)})",
    DIGITS_MAX,
    ", none of them beyond the 38th before or after the point",
)
NOT_NEGATIVE_SCHEMA = _amount(
    f"(?:{_ZERO}|{_above_0(BUDGET_DIGITS_MAX)})", BUDGET_DIGITS_MAX, ", 0 or more"
)
ABOVE_0_SCHEMA = _amount(f"(?:{_above_0(BUDGET_DIGITS_MAX)})", BUDGET_DIGITS_MAX, ", above 0")

MOVED_SCHEMA = _amount(
    f"-?(?:{_above_0(DIGITS_MAX)})", DIGITS_MAX, ", not 0; out of the account if negative"
)
ACCOUNT_SCHEMA: Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": books.ACCOUNT_BYTES_MAX,
    "format": "account",
    "pattern": rf"^[^~{_CONTROLS}][^{_CONTROLS}]*$",
    "examples": ["customer/alice"],
    "description": "Up to 255 bytes of UTF-8, by the rules of a counter's id.",
}
"""`ledger.core.books` checks it."""
ASSET_SCHEMA: Schema = {
    "type": "string",
    "pattern": f"^[!-~]{{1,{books.ASSET_CHARACTERS_MAX}}}$",
    "examples": ["EUR"],
}
METADATA_SCHEMA: Schema = {
    "type": "object",
    "maxProperties": METADATA_NAMES_MAX,
    "propertyNames": {"type": "string", "minLength": 1, "format": "visible"},
    "additionalProperties": {"type": "string"},
    "description": "Texts by name, for whoever reads the history: 2,048 bytes of UTF-8 together,"
    " and each character of a name can be seen.",
}
TRANSFER: Schema = {
    "if": {"required": ["legs"], "properties": {"legs": {"type": "array"}}},
    "then": {"properties": {"change": {"pattern": f"^-?{_ZERO}$"}}},
}

NOTE_SCHEMA: Schema = {"type": "string", "maxLength": 89_600}
"""Any text that fits into an item beside what else an entry may have, of 4 bytes a character."""
NAMED_SCHEMA: Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": 1024,
    "format": "visible",
    "pattern": rf"^(?:[ -~]+|[^{_CONTROLS}]{{1,256}})$",
    "description": "Text of up to 1,024 bytes of UTF-8, each character of which can be seen.",
}
_TIMED = (
    r"0[0-9a-fA-F]{7}-[0-9a-fA-F]{4}-7[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}"
    rf"|0[0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{{25}}|{_ENTRY_ID}"
)
"""A UUIDv7, or a ULID, of the years up to 2500; or a text in the form of an entry's id."""
KEY_SCHEMA: Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": 1024,
    "format": "idempotency-key",
    "pattern": r'^(?:[!#-~](?:[ -~]*[!-~])?|"(?:[ -~]*[!#-~]|[ -~]+")?)$',
    "examples": ["0193a1b2-7c00-7a31-8b1c-5f2d9e4a6b70"],
}
_W_AGAIN = "(?:[Ww]|[Aa][Ww]|[Aa][Ii][Ww])*"
_NO_WAIT = (
    rf"(?:[^Ww]|[Ww]{_W_AGAIN}(?:[^WwAa]|[Aa][^WwIi]|[Aa][Ii][^WwTt]))*"
    rf"(?:[Ww]{_W_AGAIN}(?:[Aa][Ii]?)?)?"
)
"""Any text without the word, letter by letter, since there is no looking ahead."""
_SIGN = "[!#$%&'*+.^_`|~0-9A-Za-z-]"
_GAP = r"[ \x09]*"
# Each text is read in one way alone, so that none takes long.
_VALUE = rf'(?:{_GAP}=(?:{_GAP}(?:{_SIGN}+|"(?:[^"\x5c]|\x5c.)*"))?)'
_PARAMETERS = f"(?:{_GAP};(?:{_GAP}{_SIGN}+{_VALUE}?)?)*"
_NAME = (
    "(?:[!#$%&'*+.^_`|~0-9A-VX-Za-vx-z-]"
    f"{_SIGN}*|[Ww](?:[!#$%&'*+.^_`|~0-9B-Zb-z-]{_SIGN}*)?"
    f"|[Ww][Aa](?:[!#$%&'*+.^_`|~0-9A-HJ-Za-hj-z-]{_SIGN}*)?"
    f"|[Ww][Aa][Ii](?:[!#$%&'*+.^_`|~0-9A-SU-Za-su-z-]{_SIGN}*)?|[Ww][Aa][Ii][Tt]{_SIGN}+)"
)
"""That of any preference but `wait`."""
_OTHER = f"{_GAP}(?:{_NAME}{_VALUE}?{_PARAMETERS}{_GAP})?"
_SECONDS = "(?:[1-9]|[1-5][0-9]|60)"
_WAIT = rf'{_GAP}[Ww][Aa][Ii][Tt]{_GAP}={_GAP}(?:{_SECONDS}|"{_SECONDS}"){_PARAMETERS}{_GAP}'
PREFER_LENGTH_MAX = 512
PREFER_SCHEMA: Schema = {
    "type": "string",
    "maxLength": PREFER_LENGTH_MAX,
    "pattern": rf"^(?:{_NO_WAIT}|{_OTHER}(?:,{_OTHER})*|(?:{_OTHER},)*{_WAIT}(?:,{_OTHER})*)$",
    "examples": ["wait=5"],
}
"""A list of preferences (RFC 7240) with `wait` at most once, or any text without the word."""

TIMED_KEY: Schema = {
    "if": {"required": ["at"], "properties": {"at": {"type": "string"}}},
    "then": {"required": ["key"], "properties": {"key": {"type": "string"}}},
    "else": {
        "properties": {"key": {"anyOf": [{"type": "null"}, {"pattern": f"^(?:{_TIMED})$"}]}},
    },
}
"""`at` belongs to a key, and each key has its time: in it, or beside it."""


def short(most: int) -> Callable[[str], str]:
    """Return what refuses a text that may be too long in UTF-8, though its characters are few."""

    def checked(text: str) -> str:
        if len(text) > most and not text.isascii():
            raise InvalidInput(
                f"text with a character beyond ASCII must have at most {most} characters, got"
                f" {text[:40]!r}... of {len(text):,}"
            )
        return text

    return checked


def printable(most: int, *, name: str) -> Schema:
    """Return the form of printable text of up to so many bytes of UTF-8, or characters of ASCII."""
    return {
        "type": "string",
        "minLength": 1,
        "maxLength": most,
        "format": name,
        "pattern": rf"^(?:[ -~]{{1,{most}}}|[^{_CONTROLS}]{{1,{most // 4}}})$",
        "description": "Printable text.",
    }


def together_max(most: int) -> Schema:
    """Return what bounds the entries of a body that are written `together`."""
    return {
        "if": {"required": ["together"], "properties": {"together": {"const": True}}},
        "then": {"properties": {"entries": {"maxItems": most}}},
    }


When = Annotated[str, WithJsonSchema(WHEN_SCHEMA)]
"""A date, or a time with a zone."""
FeedCursor = Annotated[
    str, WithJsonSchema({"type": "string", "minLength": 1, "format": "feed-cursor"})
]
"""Where a page of the feed ended."""
Since = Annotated[str, WithJsonSchema(TIME_SCHEMA)]
"""A time with a zone."""
Edge = Annotated[str, WithJsonSchema(EDGE_SCHEMA)]
"""A time with a zone, or the id of an entry."""
_IsShort = AfterValidator(short(256))
Named = Annotated[str, Field(min_length=1, max_length=1024), _IsShort, WithJsonSchema(NAMED_SCHEMA)]
"""A key or a token."""
Note = Annotated[str, WithJsonSchema(NOTE_SCHEMA)]
Region = Annotated[str, WithJsonSchema(REGION_SCHEMA)]
Name = Annotated[str, AfterValidator(short(16)), WithJsonSchema(printable(64, name="attribute"))]
CounterId = Annotated[str, _IsShort, Field(json_schema_extra=COUNTER_SCHEMA)]
EntryId = Annotated[str, Field(json_schema_extra=ENTRY_ID_SCHEMA)]
Parts = Annotated[str, Field(max_length=PARTS_CHARACTERS_MAX), WithJsonSchema(PARTS_SCHEMA)]
Account = Annotated[
    str, Field(min_length=1, max_length=books.ACCOUNT_BYTES_MAX), WithJsonSchema(ACCOUNT_SCHEMA)
]
Prefix = Annotated[str, _IsShort, WithJsonSchema(PREFIX_SCHEMA)]


IDS_MAX = 100
"""Counters of one request for totals."""
LIVE_MAX = 50
"""Counters that one stream of events follows."""
PAGE_MAX = 1_000


_FORMS = {
    "true or false": ((bool,), re.compile("true|false")),
    "a whole number, such as 10": ((int,), re.compile("-?(?:0|[1-9][0-9]*)")),
    "a number, such as 0.5": (
        (float, float | None),
        re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"),
    ),
}


class Asked(BaseModel):
    """Parameters of a query: one that has no meaning is an error, since it may be a slip."""

    model_config = ConfigDict(extra="forbid")

    @field_validator("*", mode="before")
    @classmethod
    def _of_json(cls, value: object, info: ValidationInfo) -> object:
        """Take numbers and truths as JSON writes them, which is all that the document says."""
        kind = cls.model_fields[info.field_name or ""].annotation
        for name, (kinds, form) in _FORMS.items():
            if kind in kinds and isinstance(value, str) and not form.fullmatch(value):
                raise InvalidInput(f"must be {name}")
        return value


Query = TypeVar("Query", bound=Asked)


class TotalQuery(Asked):
    """How a total is to be read."""

    max_age: float | None = Field(
        None, ge=0, description="Seconds that a total may be old; 0 reads the table."
    )
    steady: bool = Field(
        default=False,
        description="Read until two looks agree; goes with no `max_age` and no `at`.",
    )
    at: When | None = Field(None, description="A date or time: what was made before it.")
    effective: bool = Field(
        default=False, description="With a date as `at`: what is effective before it."
    )


class IdsQuery(Asked):
    """Which totals are to be read."""

    id: list[CounterId] = Field(min_length=1, max_length=IDS_MAX, description="Counter ids.")


class TotalsQuery(IdsQuery):
    """Which totals are to be read, and how."""

    max_age: float | None = Field(None, ge=0)
    steady: bool = Field(default=False, description="Goes with no `max_age`.")


class LiveQuery(Asked):
    """Which totals are to be followed."""

    id: list[CounterId] = Field(min_length=1, max_length=LIVE_MAX, description="Counter ids.")
    every: float = Field(1.0, ge=0.1, le=60, description="Seconds between two looks.")


class PeriodsQuery(Asked):
    """Which sums by period are to be read."""

    by: By
    since: When | None = Field(None, description="From this date or time on.")
    until: When | None = Field(
        None, description="Before this date or time; by default the period of now is the last."
    )
    effective: bool = False


class HistoryQuery(Asked):
    """Which entries are to be listed, a page at a time."""

    after: Edge | None = Field(None, description="A time, or the `next` of the page before.")
    before: Edge | None = Field(None, description="A time, or the id of an entry.")
    limit: int = Field(100, ge=1, le=PAGE_MAX)


class BalancesQuery(Asked):
    """Which balances of a book are to be read, and how."""

    account: list[Account] = Field(
        default_factory=list, max_length=IDS_MAX, description="Of these accounts alone."
    )
    prefix: Prefix = Field("", description="Of accounts that begin with it.")
    at: When | None = Field(None, description="A date or time: what was moved before it.")
    max_age: float | None = Field(None, ge=0, description="Seconds that they may be old.")
    steady: bool = Field(default=False, description="Goes with no `max_age` and no `at`.")


class TransfersQuery(HistoryQuery):
    """Which transfers of a book are to be listed, a page at a time."""

    account: list[Account] = Field(
        default_factory=list, max_length=IDS_MAX, description="Of those that name one of these."
    )


class FeedQuery(Asked):
    """Which entries are to be followed, and from where on."""

    prefix: Prefix = Field("", description="Of counters that begin with it.")
    counter: list[CounterId] = Field(
        default_factory=list, max_length=IDS_MAX, description="Of these counters alone."
    )
    after: FeedCursor | None = Field(
        None, description="The `next` of the page before, of the same prefix and counters."
    )
    since: Since | None = Field(
        None, description="Without `after`: what arrived from this time on; else all of a day."
    )
    limit: int = Field(
        100,
        ge=1,
        le=PAGE_MAX,
        description=f"Entries of a page, beside the rest of those that share the last one's item:"
        f" fewer than {PARTS_MAX:,}.",
    )
    wait: float = Field(
        0.0, ge=0, le=60, description="Seconds to wait for an entry, if there is none yet."
    )


class CountersQuery(Asked):
    """Which counters are to be listed, a page at a time."""

    prefix: Prefix = ""
    after: CounterId | None = Field(
        None, description="The `next` of the page before, of the same prefix."
    )
    limit: int = Field(100, ge=1, le=PAGE_MAX)
    exact: bool = Field(
        default=False, description="Read each total from the table; else merged changes only."
    )
    described: bool = False


class TopQuery(Asked):
    """Which counters are to be ranked, and how."""

    prefix: Prefix = ""
    n: int = Field(10, ge=1, le=TOP_MAX, description="How many are returned at most.")
    smallest: bool = Field(default=False, description="Those with the smallest values.")
    exact: bool = Field(
        default=False,
        description="Rank by totals: reads those of all counters, 1,000 at most.",
    )


LISTS = frozenset(
    name
    for query in (IdsQuery, LiveQuery, FeedQuery, BalancesQuery)
    for name, parameter in query.model_fields.items()
    if get_origin(parameter.annotation) is list
)
"""Parameters that a query may have several times."""


def read_query(kind: type[Query], given: QueryParams) -> Query:
    """Return what a query asks for, checked.

    Raises:
        InvalidInput: it breaks a rule: the first one, by the parameter's name.
    """
    lists = LISTS & kind.model_fields.keys()
    values = {name: given.getlist(name) if name in lists else given[name] for name in given}
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(map(str, first["loc"]))
        got = "" if first["type"] == "missing" else f", got {first['input']!r:.100}"
        raise InvalidInput(f"{name}: {rule_of(first)}{got}") from None
