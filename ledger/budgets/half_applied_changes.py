"""Changes of a limit of which a lost home left one half, and what makes them whole.

A create, a raise and a lowering are each of home's rights item and the limit item, and items
replicate one by one: of a home that is lost one may have arrived, and the other never will.

| arrived alone | what is seen | the next home |
|---|---|---|
| rights of a raise | its id is in the rights, not in the limit | adds it to the limit, at once |
| limit of a raise | its id is in the limit, not in any rights | mints it, after a reclaim |
| limit of a create | nothing but raises was ever minted | mints the rest of it, after that, too |
| limit of a create by an id | that is a raise by it | mints it, as that of any raise |
| rights of a lowering | there is less than the limit, and it was made | lowers the limit, as late |

A reclaim is a day after the loss, when nothing arrives any more. Other regions may have taken from
the lost home of what is minted so, and its entries may be of that: the reclaim charges both. What
is above a limit that was lowered since is retired in the same write.

With windows a raise is minted in the one that ran, as long as that runs; what was announced for
later ones is in the limit alone. A create of which the rights arrived is made whole by a create
(`BudgetAdministrator.create`), a lowering of which the limit arrived by retiring, as any other that
is not finished.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial

from ledger.budgets import rights_plan
from ledger.budgets.calendar import Window
from ledger.budgets.limit_windows import BudgetLimit
from ledger.budgets.raise_ids import RAISE_SECONDS, remember_raise
from ledger.budgets.rights import Rights
from ledger.core import amounts

EDGE_SECONDS = 60
"""A raise that was planned so shortly after a window began may have been of the one before."""


@dataclass(frozen=True, slots=True)
class MissingHalf:
    """What of a limit no rights item has: the steps that mint it, and what there is after them."""

    steps: tuple[rights_plan.Step, ...]
    limit: Decimal


def not_in_limit(limit: BudgetLimit, items: Collection[Rights]) -> dict[str, Decimal]:
    """Return the raises that were minted and that the limit does not know, by id.

    What was raised so long before the last raise that it knows it may have forgotten; how long ago
    that was makes no difference: a restored table may be weeks old.
    """
    last = max(limit.raised.values(), default=Decimal(0))
    since = amounts.EXACT.subtract(last, RAISE_SECONDS // 2)
    return {
        raise_id: amount
        for item in items
        for raise_id, amount in item.raises.items()
        if raise_id not in limit.raises and item.raised[raise_id] >= since
    }


def target_of(limit: BudgetLimit, items: Collection[Rights]) -> Decimal:
    """Return where a limit is going, with the raises that were minted and that it does not know."""
    return amounts.total((limit.newest.limit, *not_in_limit(limit, items).values()))


def remembering(limit: BudgetLimit, raises: Mapping[str, Decimal], now: int) -> BudgetLimit:
    """Return a limit that knows raises, too; its steps are as they were.

    Raises:
        StateConflict: there were too many of late.
    """
    for raise_id, amount in sorted(raises.items()):
        known, raised = remember_raise(limit.raises, limit.raised, raise_id, amount, now)
        limit = replace(limit, raises=known, raised=raised)
    return limit


def missing_of(
    limit: BudgetLimit, items: Collection[Rights], window: Window, now: int
) -> MissingHalf:
    """Return what no item has of a limit; `items` are the newest of each holder.

    They must be all that ever arrive: what is minted here is minted again if another comes. Of a
    window the raises that were made in it are missing; all else is of windows that begin later.
    """
    since = 0 if window.is_whole else window.begins + EDGE_SECONDS
    raises = sorted(
        (raise_id, amount)
        for raise_id, amount in _not_minted(limit, items).items()
        if limit.raised[raise_id] >= since and (window.is_whole or raise_id != limit.opened_by)
    )
    steps: list[rights_plan.Step] = [
        partial(rights_plan.raise_limit, amount=amount, raise_id=raise_id, now=now)
        for raise_id, amount in raises
    ]
    if not window.is_whole:
        return MissingHalf(tuple(steps), limit.newest.limit)
    there = amounts.total_wide(
        (rights_plan.limit_of(tuple(items)), *(amount for _, amount in raises))
    )
    rest = amounts.total_wide((limit.newest.limit, there.copy_negate()))
    if rest > 0 and limit.opened_by is None and _is_unmade(items):
        steps.append(partial(rights_plan.mint, amount=rest))
        there = limit.newest.limit
    return MissingHalf(tuple(steps), there)


def _is_unmade(items: Collection[Rights]) -> bool:
    """Return whether items have minted nothing but raises."""
    raised = amounts.total_wide(amount for item in items for amount in item.raises.values())
    minted = amounts.total_wide(item.minted for item in items)
    return minted <= raised


def _not_minted(limit: BudgetLimit, items: Collection[Rights]) -> dict[str, Decimal]:
    minted = {raise_id for item in items for raise_id in item.raises}
    return {raise_id: amount for raise_id, amount in limit.raises.items() if raise_id not in minted}
