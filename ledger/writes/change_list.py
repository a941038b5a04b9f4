"""A caller's changes, as a list.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Iterable
from decimal import Decimal
from typing import Any, TypeVar

from ledger.core.errors import InvalidInput
from ledger.writes.entry_plan import Change

Element = TypeVar("Element")
ChangeLike = Change | tuple[str, int | Decimal]


def parse_changes(asked: Iterable[ChangeLike]) -> list[Change]:
    """Return changes, each given as one or as a pair of counter and amount.

    Raises:
        InvalidInput: not a list of changes.
    """
    listed = check_list("changes", asked)
    return [item if isinstance(item, Change) else _pair(item) for item in listed]


def check_list(what: str, asked: Iterable[Element]) -> Iterable[Element]:
    """Return an iterable, or raise with a message that says what it must be.

    Raises:
        InvalidInput: it is not iterable.
    """
    try:
        return iter(asked)
    except TypeError:
        raise InvalidInput(f"{what} must be a list, got {asked!r}") from None


def _pair(asked: Iterable[Any]) -> Change:
    try:
        counter, change = asked
    except (TypeError, ValueError):
        raise InvalidInput(
            f"a change must be a Change or a pair of counter and amount, got {asked!r}"
        ) from None
    return Change(counter, change)
