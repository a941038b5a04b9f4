"""Values of bodies of requests: times, dates, amounts, and legs of transfers.

Pure: no clock, no randomness, no I/O.
"""

import re
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
)

from ledger.core import amounts
from ledger.core.books import LEGS_MAX
from ledger.core.errors import AmountOverflow, InvalidAmount, InvalidInput
from ledger.core.times import time_of
from ledger.core.values import Leg
from ledger.http.service.json_bodies import shown
from ledger.http.service.query_models import (
    ABOVE_0_SCHEMA,
    ADDEND_SCHEMA,
    AMOUNT_SCHEMA,
    ASSET_SCHEMA,
    BUDGET_DIGITS_MAX,
    EFFECTIVE_SCHEMA,
    METADATA_SCHEMA,
    MOVED_SCHEMA,
    NOT_NEGATIVE_SCHEMA,
    TIME_SCHEMA,
    Account,
    Schema,
)
from ledger.http.wire.models import AMOUNT_PATTERN

_AMOUNT = re.compile(AMOUNT_PATTERN, re.ASCII)


def form_of(schema: Schema) -> re.Pattern[str]:
    """Return the pattern of a form, to be matched by a whole text."""
    return re.compile(str(schema["pattern"]), re.ASCII)


_TIME, _EFFECTIVE, _ANY_FORM, _ADDEND_FORM, _BUDGET_FORM = map(
    form_of, (TIME_SCHEMA, EFFECTIVE_SCHEMA, AMOUNT_SCHEMA, ADDEND_SCHEMA, NOT_NEGATIVE_SCHEMA)
)


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
        raise InvalidAmount(
            f"an amount to spend, hold or credit must be above 0, got {value!r:.100}"
        )
    return _of_budget(found, value)


def _of_budget(found: Decimal, value: object) -> Decimal:
    """Return an amount of a budget; how large it may be depends on the budget."""
    if not _BUDGET_FORM.fullmatch(str(value)):
        raise InvalidAmount(
            f"an amount of a budget must have up to {BUDGET_DIGITS_MAX} digits, got {value!r:.100}"
        )
    return found


def _time(value: object) -> datetime:
    return moment("body: at", text_of("at", value))


def _date(value: object) -> date:
    text = text_of("effective", value)
    try:
        if _EFFECTIVE.fullmatch(text):
            return date.fromisoformat(text)
    except ValueError:
        pass
    raise InvalidInput(f"body: effective must be a date, such as 2026-11-21, got {text!r}")


def text_of(name: str, value: object) -> str:
    """Return a member of a body that is text.

    Raises:
        InvalidInput: it is none.
    """
    if not isinstance(value, str):
        raise InvalidInput(f"body: {name} must be a string, got {shown(value)}")
    return value


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


class LegBody(Body):
    """What a transfer moves into an account of a book; out of it if negative."""

    account: Account
    asset: Annotated[str, WithJsonSchema(ASSET_SCHEMA)]
    amount: Annotated[Decimal, BeforeValidator(_addend), WithJsonSchema(MOVED_SCHEMA)]


def legs_of(legs: Sequence[LegBody]) -> tuple[Leg, ...]:
    """Return legs as the ledger takes them, and checks."""
    return tuple([Leg(leg.account, leg.asset, leg.amount) for leg in legs])


Legs = Annotated[
    list[LegBody],
    Field(
        fail_fast=True,
        min_length=2,
        max_length=LEGS_MAX,
        description="Those of each asset sum to 0, and name an account once.",
        examples=[
            [
                {"account": "cash", "asset": "EUR", "amount": "-12.50"},
                {"account": "customer/alice", "asset": "EUR", "amount": "12.50"},
            ]
        ],
    ),
]
Metadata = Annotated[dict[str, str], WithJsonSchema(METADATA_SCHEMA)]
"""What a caller names of an entry; the ledger checks it."""
