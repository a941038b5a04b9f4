"""Forms of values in paths, queries and bodies: what OpenAPI says of them.

The ledger itself checks them; a `format` names a rule that JSON Schema cannot say.

Pure: no clock, no randomness, no I/O.
"""

from typing import Annotated

from pydantic import Field, JsonValue, WithJsonSchema

NO_CONTROLS = r"^[^~\u0000-\u001f\u007f-\u009f][^\u0000-\u001f\u007f-\u009f]*$"
"""A counter has no control characters, and does not begin with `~`."""
COUNTER_SCHEMA: dict[str, JsonValue] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 1024,
    "format": "counter-id",
    "pattern": NO_CONTROLS,
    "examples": ["customer1-balance"],
}
"""What OpenAPI says of a counter's id; `ledger.core.keys` checks it."""
ENTRY_ID_SCHEMA: dict[str, JsonValue] = {
    "type": "string",
    "minLength": 1,
    "format": "entry-id",
    "examples": ["2026-11-21T06:50:01.123456Z#4f1d2c3b5a697887"],
}
WHEN_SCHEMA: dict[str, JsonValue] = {
    "anyOf": [{"type": "string", "format": "date"}, {"type": "string", "format": "date-time"}]
}
EDGE_SCHEMA: dict[str, JsonValue] = {
    "anyOf": [{"type": "string", "format": "date-time"}, ENTRY_ID_SCHEMA]
}
PREFIX_SCHEMA: dict[str, JsonValue] = {"type": "string", "maxLength": 1024, "format": "prefix"}
AMOUNT_PATTERN = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
AMOUNT_SCHEMA: dict[str, JsonValue] = {
    "type": "string",
    "format": "amount",
    "pattern": AMOUNT_PATTERN,
    "examples": ["12.50", "-1"],
    "description": "An exact amount of up to 38 digits, as text; of a change none beyond the 38th"
    " before or after the point.",
}
When = Annotated[str, WithJsonSchema(WHEN_SCHEMA)]
"""A date, or a time with a zone."""
FeedCursor = Annotated[
    str, WithJsonSchema({"type": "string", "minLength": 1, "format": "feed-cursor"})
]
"""Where a page of the feed ended."""
Since = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
"""A time with a zone."""
Edge = Annotated[str, WithJsonSchema(EDGE_SCHEMA)]
"""A time with a zone, or the id of an entry."""
Named = Annotated[str, Field(min_length=1, max_length=1024)]
"""A key or a token."""
Name = Annotated[
    str, WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 64, "format": "attribute"})
]
CounterId = Annotated[str, Field(json_schema_extra=COUNTER_SCHEMA)]
EntryId = Annotated[str, Field(json_schema_extra=ENTRY_ID_SCHEMA)]
Prefix = Annotated[str, WithJsonSchema(PREFIX_SCHEMA)]
