"""`LimitChange`: what became of a raise or a lowering, as the items of all regions show it now."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from ledger.budgets import rights_plan
from ledger.budgets.balance import debts
from ledger.budgets.initial_shares import shares_in, target_in
from ledger.budgets.limit_target import LimitTarget, not_reclaimed
from ledger.budgets.lost_stake import unreclaimed
from ledger.budgets.rights import Holder
from ledger.core import amounts
from ledger.core.ids import EPOCH


@dataclass(frozen=True, slots=True)
class LimitChange:
    """What became of a raise, or a lowering: at most `limit` now, going to `target`.

    Both are of the budget, or of the window that runs. `limit` counts what holders were charged
    more than they had, until others have paid it. With windows those that begin at `since` or later
    have the limit `later`: for sure if `is_confirmed`, else it may be put off. None without
    windows, and once such a window runs.

    `unreclaimed` are regions that are gone and had a part of it: they may have made more of it, and
    left more to others, than has arrived. So a lowering is not done before they are reclaimed.
    """

    budget: str
    limit: Decimal
    target: Decimal
    later: Decimal | None = None
    since: datetime | None = None
    unreclaimed: tuple[str, ...] = ()
    is_confirmed: bool = False

    @property
    def is_announced(self) -> bool:
        """Whether a step of later windows is still to be confirmed."""
        return self.since is not None and not self.is_confirmed

    @property
    def is_lowered(self) -> bool:
        """Whether the budget, or the window that runs, has no more than its target, for sure."""
        return self.limit <= self.target and not self.unreclaimed

    @property
    def is_done(self) -> bool:
        """Whether the limit holds from now on: else the same call goes on.

        A window that begins before `since` has the old limit, until a lowering is repeated while it
        runs.
        """
        return self.is_lowered and self.since is None


async def change_now(place: LimitTarget) -> LimitChange:
    """Return what a budget, or its window that runs, has at most, and where it is going.

    Raises:
        BudgetMissing: it has no limit.
        StoreError: home cannot be read.
    """
    limit, items = (await place.limits())[0], await place.everywhere()
    made = place.all_made(limit, items)
    named = shares_in(limit, place.window)
    left = unreclaimed(items.values(), named, keeps=place.keeps)
    # What lost regions owe is at home once it is reclaimed.
    owed = debts(not_reclaimed(made), lost=left).values()
    minted = rights_plan.limit_of(tuple(made.values()))
    now = amounts.total_wide((minted, *owed))
    if place.window.is_whole:
        regions = _regions_of(left)
        return LimitChange(place.budget, now, limit.newest.limit, unreclaimed=regions)
    target = target_in(limit, place.window)
    goal = min(now, minted if target is None else target)
    if now <= goal and not _may_be_of_gone(place):
        left = unreclaimed(items.values(), (), keeps=place.keeps)
    regions = _regions_of(left)
    since = limit.newest.since
    is_confirmed = limit.announced is None
    if since is None or (is_confirmed and since <= place.time.earliest):
        return LimitChange(place.budget, now, goal, unreclaimed=regions)
    begins = EPOCH + timedelta(seconds=since)
    later = limit.newest.limit
    return LimitChange(place.budget, now, goal, later, begins, regions, is_confirmed)


def _may_be_of_gone(place: LimitTarget) -> bool:
    """Return whether a region that is gone may have made its share of the window that runs.

    Not if that began once nothing was written there any more, by the wait after the contract's
    change.
    """
    gone_at = place.terms.given_up_at
    begins = EPOCH + timedelta(seconds=place.window.begins)
    return gone_at is None or begins <= gone_at + timedelta(seconds=place.wait)


def _regions_of(holders: Iterable[Holder]) -> tuple[str, ...]:
    return tuple(sorted({holder.region for holder in holders}))
