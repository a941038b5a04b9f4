"""The ids of raises that an item remembers, so that a repeat of a raise is known.

The newest `RAISES_KEPT` are remembered, and of the others those made within `RAISE_SECONDS`: a
repeat that comes later may be made again. Times are in whole seconds since 1970.

A budget may be made by a raise: its limit is that of the first delivery, and the raise of the same
id counts no more.

A raise is one transaction of home's rights item and the limit item, and each remembers it: so what
a lost home left of one in half can be made whole (`ledger.budgets.half_applied_changes`).

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Protocol

from ledger.core import amounts
from ledger.core.errors import InvalidInput, StateConflict
from ledger.core.ids import EPOCH
from ledger.core.visible import is_visible

CHARACTERS_MAX = 100
RAISES_KEPT = 10
"""How many ids an item keeps however old they are: about 1 KB."""
RAISE_SECONDS = (30 * 24 + 1) * 3_600
"""For how long a repeat of a raise is known as one: 30 days, and an hour in which clocks differ."""
RAISES_MAX = 300
"""How many ids an item has at most: each write of it is charged for all."""


class Knows(Protocol):
    """What remembers raises: a limit, or rights."""

    @property
    def raises(self) -> Mapping[str, Decimal]:
        """The amounts of raises, by id."""


def checked_id(raise_id: object) -> str:
    """Return the id of a raise.

    Raises:
        InvalidInput: it is none.
    """
    if isinstance(raise_id, str) and is_visible(raise_id) and 0 < len(raise_id) <= CHARACTERS_MAX:
        return raise_id
    raise InvalidInput(
        f"the id of a raise must be 1 to {CHARACTERS_MAX} printable characters, got"
        f" {raise_id!r:.80}"
    )


def is_made(raise_id: str, amount: Decimal, shown: Iterable[Knows], budget: str) -> bool:
    """Return whether a raise of a budget was made, as any of its items shows.

    Raises:
        StateConflict: it was of another amount.
    """
    made = {item.raises[raise_id] for item in shown if raise_id in item.raises}
    if made and amount not in made:
        raise StateConflict(
            f"raise {raise_id!r} of budget {budget!r} was made by {amounts.to_text(min(made))}, not"
            f" {amounts.to_text(amount)}: another raise takes another id"
        )
    return bool(made)


def remember_raise(
    raises: Mapping[str, Decimal],
    raised: Mapping[str, Decimal],
    raise_id: str,
    amount: Decimal,
    now: int,
) -> tuple[Mapping[str, Decimal], Mapping[str, Decimal]]:
    """Return the amounts and times of the raises that an item remembers after another one.

    Raises:
        StateConflict: there were too many of late.
    """
    newest = sorted(raised, key=lambda known: (raised[known], known), reverse=True)
    since = now - RAISE_SECONDS
    kept = [
        known
        for place, known in enumerate(newest, start=1)
        if place < RAISES_KEPT or raised[known] >= since
    ]
    if len(kept) >= RAISES_MAX:
        free = EPOCH + timedelta(seconds=int(raised[kept[-1]]) + RAISE_SECONDS)
        raise StateConflict(
            f"a limit is raised at most {RAISES_MAX} times in"
            f" {RAISE_SECONDS // (24 * 3_600)} days, since each id is kept for a repeat: raise in"
            f" larger steps, the next one after {free:%Y-%m-%dT%H:%M:%SZ}"
        )
    return (
        {**{known: raises[known] for known in kept}, raise_id: amount},
        {**{known: raised[known] for known in kept}, raise_id: Decimal(now)},
    )
