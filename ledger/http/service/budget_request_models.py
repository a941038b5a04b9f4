"""What requests about budgets ask for: spends, holds, what a hold came to, limits.

Pure: no clock, no randomness, no I/O.
"""

from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, ConfigDict, FailFast, Field, WithJsonSchema

from ledger.budgets.initial_shares import WEIGHT_MAX
from ledger.budgets.raise_ids import CHARACTERS_MAX
from ledger.budgets.spend_request import BUDGETS_MAX
from ledger.core.errors import InvalidInput
from ledger.http.service.body_values import Above0, Body, NotNegative, Whole, moment
from ledger.http.service.json_bodies import shown
from ledger.http.service.query_models import (
    REGION_SCHEMA,
    TIME_SCHEMA,
    TIMED_KEY,
    Asked,
    CounterId,
    IdsQuery,
    Note,
    Region,
    Schema,
    Since,
    printable,
    short,
)
from ledger.http.service.request_models import WAIT_SECONDS_MAX, NamedBody

ALSO_MAX = BUDGETS_MAX - 1
"""Wider budgets that one spend takes from, beside that of the path."""
SHARE_FOR_RIGHTS = 0.9
"""The part of a request's time for which rights may be waited for; the rest is for the answer."""
SECONDS_MIN = 1e-3
"""Fewer seconds from now are taken for so many: a clock does not tell them apart."""
SECONDS_MAX = 1e10
"""More seconds than a time may lie ahead: three centuries."""
EXPIRES_SCHEMA: Schema = {
    "anyOf": [
        {"type": "number", "exclusiveMinimum": 0, "maximum": SECONDS_MAX},
        TIME_SCHEMA,
    ],
    "description": "Seconds from now, or a time, which is later than now.",
    "examples": [600],
}


def _expires(value: object) -> datetime | float:
    if isinstance(value, str):
        return moment("body: expires", value)
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > SECONDS_MAX:
        raise InvalidInput(f"body: expires must be seconds or a time, got {shown(value)}")
    if value <= 0:
        raise InvalidInput(f"body: expires must be later than now, got {shown(value)}")
    return max(float(value), SECONDS_MIN)


Expires = Annotated[datetime | float, BeforeValidator(_expires), WithJsonSchema(EXPIRES_SCHEMA)]
WEIGHTS_SCHEMA: Schema = {
    "type": "object",
    "propertyNames": REGION_SCHEMA,
    "additionalProperties": {"type": "integer", "minimum": 0, "maximum": WEIGHT_MAX},
    "description": "By region a whole number, not all of them 0.",
}


RaiseId = Annotated[
    str,
    AfterValidator(short(CHARACTERS_MAX // 4)),
    WithJsonSchema(printable(CHARACTERS_MAX, name="raise-id")),
]


def waited(wait: float | None, seconds: float | None) -> float:
    """Return for how long a request waits of which this is asked, and that may take so long."""
    if seconds is None:
        return wait or 0.0
    most = SHARE_FOR_RIGHTS * seconds
    return most if wait is None else min(wait, most)


class SpendBody(NamedBody):
    """An amount to be spent from the budget of the path, and from wider ones, or from none.

    `key` and `at` name it, in place of the headers; `wait` is for how many seconds rights that lie
    elsewhere are waited for, by default those of `Prefer: wait=N`.
    """

    model_config = ConfigDict(json_schema_extra=TIMED_KEY)

    amount: Above0
    note: Note | None = Field(None, description="Free text, kept with the entry.")
    also: Annotated[list[CounterId], FailFast()] = Field(
        default_factory=list, max_length=ALSO_MAX, json_schema_extra={"uniqueItems": True}
    )
    wait: float | None = Field(None, ge=0, le=WAIT_SECONDS_MAX)

    def waits(self, seconds: float | None) -> float:
        """Return for how long rights are waited for in a request that may take so many seconds."""
        return waited(self.wait, seconds)


class CreditBody(NamedBody):
    """An amount that the budget of the path is given.

    `key` and `at` name it, in place of the headers; `wait` is for how many seconds it is waited for
    that it can be spent, by default those of `Prefer: wait=N`.
    """

    model_config = ConfigDict(json_schema_extra=TIMED_KEY)

    amount: Above0
    note: Note | None = Field(None, description="Free text, kept with the entry.")
    wait: float | None = Field(None, ge=0, le=WAIT_SECONDS_MAX)

    def waits(self, seconds: float | None) -> float:
        """Return for how long a request waits that may take so many seconds."""
        return waited(self.wait, seconds)


class HoldBody(SpendBody):
    """An amount to be kept aside until it is settled or voided, or expires."""

    expires: Expires


class VoidBody(Body):
    """Which counter the entry of a hold is of."""

    counter: CounterId
    region: Region | None = Field(
        None, description="That of its entry, where it is not this one: by it the hold is found."
    )


class SettleBody(VoidBody):
    """What a hold came to; with `over` also more than there is, since the cost was incurred."""

    actual: NotNegative
    over: bool = False


class ExtendBody(VoidBody):
    """Until when a hold is to be kept."""

    expires: Expires


class BudgetBody(Body):
    """The limit of a counter, or of each of its windows, which regions share by `weights`."""

    limit: NotNegative
    id: RaiseId | None = Field(
        None, description="Of the raise that this counts as: a repeat of either changes nothing."
    )
    weights: Annotated[dict[str, Whole], WithJsonSchema(WEIGHTS_SCHEMA)] | None = Field(
        None, description="By default regions share equally."
    )


class BudgetQuery(Asked):
    """Which window of a budget is to be shown."""

    at: Since | None = Field(None, description="That of this time, by default of now.")

    @property
    def time(self) -> datetime | None:
        """The time that the window is of; None for now."""
        return None if self.at is None else moment("at", self.at)


class BudgetsQuery(IdsQuery, BudgetQuery):
    """Which budgets are to be shown, each the window of the same time."""
