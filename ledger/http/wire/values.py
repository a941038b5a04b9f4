"""Attributes of counters as JSON objects, and refusals of budgets as the errors of problems.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from ledger.budgets.spend_request import CROWDED, Refused
from ledger.core import amounts
from ledger.core.descriptions import Value
from ledger.core.errors import BudgetExceeded

Fields = dict[str, Any]


def typed(description: Mapping[str, Value | None]) -> Fields:
    """Return attributes as JSON keeps them with their types: a number is `{"number": "12.50"}`.

    Text, true, false and null are JSON's own. A JSON number would be rounded by many programs, and
    as plain text it could not be told from text.
    """
    return {name: _typed(value) for name, value in description.items()}


def _typed(value: Value | None) -> object:
    if value is None or isinstance(value, bool | str):
        return value
    return {"number": amounts.to_text(amounts.exact(value))}


def shown(description: Mapping[str, Value]) -> dict[str, str | bool]:
    """Return attributes as JSON shows them: numbers as text, so that no digit is lost."""
    return {name: text_of(value) for name, value in description.items()}


def text_of(value: Value) -> str | bool:
    """Return a value of an attribute: a number as text."""
    if isinstance(value, bool | str):
        return value
    return amounts.to_text(Decimal(value))


def exceeded(refused: Refused) -> BudgetExceeded:
    """Return a refusal as the error that a service answers with."""
    left = f"{amounts.to_text(refused.here)} left here, {amounts.to_text(refused.elsewhere)}"
    wanted = amounts.to_text(refused.wanted)
    why = f"waits: {CROWDED}" if refused.crowded else "is more than may be spent"
    error = BudgetExceeded(f"budget {refused.budget!r} has {left} elsewhere: {wanted} {why}")
    error.members = {
        "budget": refused.budget,
        "wanted": wanted,
        "here": amounts.to_text(refused.here),
        "elsewhere": amounts.to_text(refused.elsewhere),
        "crowded": refused.crowded,
    }
    return error


def refused_of(error: BudgetExceeded) -> Refused:
    """Return the refusal that a service answered with."""
    said = error.members
    wanted, here, elsewhere = (
        amounts.of_text(str(said[name])) for name in ("wanted", "here", "elsewhere")
    )
    return Refused(str(said["budget"]), wanted, here, elsewhere, bool(said["crowded"]))
