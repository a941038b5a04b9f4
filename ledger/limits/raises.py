"""The ids of raises that an item remembers, so that a repeat of a raise is known.

The newest `RAISES_KEPT` are remembered, and of the others those made within `RAISE_SECONDS`: a
repeat that comes later may be made again. Times are in whole seconds since 1970.

A raise is one transaction of home's rights item and the limit item, and each remembers it: so what
a lost home left of one in half can be made whole (`ledger.limits.halves`).

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal

from ledger.core.errors import StateConflict
from ledger.core.ids import EPOCH

RAISES_KEPT = 10
"""How many ids an item keeps however old they are: about 1 KB."""
RAISE_SECONDS = (30 * 24 + 1) * 3_600
"""For how long a repeat of a raise is known as one: 30 days, and an hour in which clocks differ."""
RAISES_MAX = 300
"""How many ids an item has at most: each write of it is charged for all."""


def remembered(
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
