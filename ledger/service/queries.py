"""What a query asks for, by its parameters.

Pure: no clock, no randomness, no I/O.
"""

import re
from typing import get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from ledger.core.errors import InvalidInput
from ledger.core.index import TOP_MAX
from ledger.service.forms import CounterId, Edge, FeedCursor, Prefix, Since, When
from ledger.totals.periods import By

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
    limit: int = Field(100, ge=1, le=PAGE_MAX)
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
    for query in (IdsQuery, LiveQuery, FeedQuery)
    for name, parameter in query.model_fields.items()
    if get_origin(parameter.annotation) is list
)
"""Parameters that a query may have several times."""
