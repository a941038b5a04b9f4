"""The ids of raises that an item remembers, so that a repeat of a raise is known.

The newest `RAISES_KEPT` are remembered, and of the others those made within `RAISE_SECONDS`: a
repeat that comes later may be made again. Times are in whole seconds since 1970.

A raise is one transaction of home's rights item and the limit item, and each remembers it. Items
replicate one by one: of a home that is lost one half may have arrived, the other never will. Which
is missing is said by their ids (`not_in_limit`, `not_minted`). Of what made the budget the limit
may have arrived without any rights (`is_unmade`).

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Collection, Mapping
from datetime import timedelta
from decimal import Decimal

from ledger.core import amounts
from ledger.core.errors import StateConflict
from ledger.core.ids import EPOCH
from ledger.limits.rights import Rights
from ledger.limits.windows import Limit

RAISES_KEPT = 10
"""How many ids an item keeps however old they are: about 1 KB."""
RAISE_SECONDS = 30 * 24 * 3_600
"""For how long a repeat of a raise is known as one."""
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
    newest = sorted(raised, key=lambda one: (raised[one], one), reverse=True)
    since = now - RAISE_SECONDS
    kept = [
        each
        for place, each in enumerate(newest, start=1)
        if place < RAISES_KEPT or raised[each] >= since
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


def not_in_limit(limit: Limit, items: Collection[Rights], now: int) -> dict[str, Decimal]:
    """Return the raises that were minted and that the limit does not know, by id.

    Of the newer half of what is remembered: what is older the limit may have forgotten.
    """
    since = now - RAISE_SECONDS // 2
    return {
        raise_id: amount
        for item in items
        for raise_id, amount in item.raises.items()
        if raise_id not in limit.raises and item.raised[raise_id] >= since
    }


def is_unmade(items: Collection[Rights]) -> bool:
    """Return whether items, the newest of each account, have minted nothing but raises.

    Once something was reclaimed the budget had been made.
    """
    raised = amounts.total_wide(amount for item in items for amount in item.raises.values())
    minted = amounts.total_wide(item.minted for item in items)
    return minted <= raised and not any(item.reclaimed for item in items)


def not_minted(limit: Limit, items: Collection[Rights]) -> dict[str, Decimal]:
    """Return the raises of the limit that no item has minted, by id."""
    minted = {raise_id for item in items for raise_id in item.raises}
    return {raise_id: amount for raise_id, amount in limit.raises.items() if raise_id not in minted}
