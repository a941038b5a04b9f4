r"""Forms of values in paths, queries, headers and bodies: what OpenAPI says of them.

The ledger itself checks them. What a form says is taken: no request is refused for a value that has
it. Where no pattern can say the rule, a `format` names it, and the description has it in words.
Patterns are of the kind that every language's validators read: no looking ahead, `\x..` for
characters, and no count above 1,000.

Pure: no clock, no randomness, no I/O.
"""

from typing import Annotated

from pydantic import Field, JsonValue, WithJsonSchema

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
TIME_PATTERN = rf"^{_TIME}(?:\.[0-9]+)?(?:Z|[+-]{_HOUR})$"
TIME_SCHEMA: Schema = {"type": "string", "format": "date-time", "pattern": TIME_PATTERN}
"""RFC 3339, of the years 1971 to 9899, without leap seconds."""
DATE_SCHEMA: Schema = {"type": "string", "format": "date", "pattern": f"^{_YEAR}-"}
EFFECTIVE_SCHEMA: Schema = {
    "type": "string",
    "format": "date",
    "pattern": "^(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])-",
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
ENTRY_ID_SCHEMA: Schema = {
    "type": "string",
    "format": "entry-id",
    "pattern": rf"^{_TIME}\.[0-9]{{6}}Z#[0-9a-f]{{16}}$",
    "examples": ["2026-11-21T06:50:01.123456Z#4f1d2c3b5a697887"],
}
WHEN_SCHEMA: Schema = {"anyOf": [DATE_SCHEMA, TIME_SCHEMA]}
EDGE_SCHEMA: Schema = {"anyOf": [TIME_SCHEMA, ENTRY_ID_SCHEMA]}
REGION_SCHEMA: Schema = {
    "type": "string",
    "format": "region",
    "description": "One of the table's regions: `regions` of `GET /v1/session`.",
}

DIGITS_MAX = 38
BUDGET_DIGITS_MAX = 31
"""Of amounts of budgets: sums of a million of them have 38."""
_ZERO = r"0(?:\.0{1,38})?"


def _above_0(digits: int) -> str:
    """Return the pattern of numbers of so many digits, none beyond the 38th around the point."""
    whole = [digits // 4, digits // 2, digits * 3 // 4]
    half = digits // 2 - 1
    forms = (
        rf"[1-9][0-9]{{0,{digits - 1}}}",
        *(rf"[1-9][0-9]{{0,{most - 1}}}\.[0-9]{{1,{digits - most}}}" for most in whole),
        rf"0\.0{{0,{half}}}[1-9][0-9]{{0,{half}}}",
        r"[1-9](?:\.[0-9]{1,18})?[eE](?:\+?(?:[0-9]|[12][0-9]|3[0-7])|-(?:[0-9]|1[0-9]|20))",
        "[1-9][eE]-(?:2[1-9]|3[0-8])",
    )
    return "|".join(forms)


_ANY = (
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
    r"|0[0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{25}"
)
"""A UUIDv7, or a ULID, of the years up to 2500."""
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
PREFER_SCHEMA: Schema = {
    "type": "string",
    "pattern": rf"^(?:{_NO_WAIT}|(?:{_NO_WAIT}, ?)?wait=(?:[1-9]|[1-5][0-9]|60)(?:,{_NO_WAIT})?)$",
    "examples": ["wait=5"],
}

TIMED_KEY: Schema = {
    "if": {"required": ["at"], "properties": {"at": {"type": "string"}}},
    "then": {"required": ["key"], "properties": {"key": {"type": "string"}}},
    "else": {
        "properties": {"key": {"anyOf": [{"type": "null"}, {"pattern": f"^(?:{_TIMED})$"}]}},
    },
}
"""`at` belongs to a key, and each key has its time: in it, or beside it."""


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
Named = Annotated[str, Field(min_length=1, max_length=1024), WithJsonSchema(NAMED_SCHEMA)]
"""A key or a token."""
Note = Annotated[str, WithJsonSchema(NOTE_SCHEMA)]
Region = Annotated[str, WithJsonSchema(REGION_SCHEMA)]
Name = Annotated[str, WithJsonSchema(printable(64, name="attribute"))]
CounterId = Annotated[str, Field(json_schema_extra=COUNTER_SCHEMA)]
EntryId = Annotated[str, Field(json_schema_extra=ENTRY_ID_SCHEMA)]
Prefix = Annotated[str, WithJsonSchema(PREFIX_SCHEMA)]
