"""`BudgetAdministrator`: makes and shows budgets, through home and the regions of their rights."""

from collections.abc import AsyncIterator, Callable, Collection, Mapping
from dataclasses import replace
from decimal import Decimal
from functools import partial

from ledger.budgets import rights_plan
from ledger.budgets.amount_rules import check_credited, checked_amount
from ledger.budgets.budget_state import BudgetState, state_of, with_shares
from ledger.budgets.calendar import Window, checked_budget, rule_of, whole_seconds, window_of
from ledger.budgets.half_applied_changes import target_of
from ledger.budgets.initial_shares import first_rights, shares_in, target_in, weighed
from ledger.budgets.limit_target import LimitTarget
from ledger.budgets.limit_windows import (
    LIMIT_PREFIX,
    BudgetLimit,
    LimitStep,
    adopt,
    limit_item,
    limit_of,
    limit_write,
)
from ledger.budgets.lost_stake import reclaimed_in
from ledger.budgets.raise_ids import Knows, checked_id, is_made, remember_raise
from ledger.budgets.region_access import RegionAccess
from ledger.budgets.rights import Holder, Rights, holder_in, is_rights, rights_of, write_of
from ledger.budgets.rights_items import RightsView, budget_of, scanned
from ledger.core import amounts
from ledger.core.contract import NO_HOME
from ledger.core.errors import (
    BudgetMissing,
    BudgetUndecided,
    HomeMoving,
    OutcomeUnknown,
    StateConflict,
)
from ledger.core.keys import checked_new_counter
from ledger.store.conditions import Absent
from ledger.store.port import Store
from ledger.store.retrier import Retrier
from ledger.store.writes import Put, Rejected, Unknown


def _none_waits(budget: str) -> Decimal:  # noqa: ARG001 (of a process that credits nothing)
    return Decimal(0)


class BudgetAdministrator:
    """Makes and shows budgets; `waiting` says how much of a budget's credits waits here."""

    def __init__(
        self, access: RegionAccess, *, waiting: Callable[[str], Decimal] = _none_waits
    ) -> None:
        self._access = access
        self._waiting = waiting

    async def create(
        self,
        budget: str,
        limit: int | Decimal,
        *,
        raise_id: str | None = None,
        weights: Mapping[str, int] | None = None,
    ) -> bool:
        """Make a budget, through home; return whether this call did: False if it was there so.

        With a `raise_id` it is made by that raise, and was there so if any call has made that.
        `weights` are in which parts regions share each window of it, by default equal ones.

        Raises:
            InvalidInput: the counter, the limit or a weight breaks a rule.
            StateConflict: the budget is there with another limit or, if they are given, weights of
                its windows; or with rights of another: a lost home had made it, and only they have
                arrived.
            BudgetMissing: no pattern of the contract has its counter.
            HomeMoving, OutcomeUnknown, StoreError: it may be repeated.
        """
        settings = self._access.settings.current
        terms = settings.terms
        rule = rule_of(terms, budget)
        checked_budget(budget, rule)
        window = window_of(budget, rule, self._access.services.clock.now())
        checked_new_counter(window.counter)
        made = self._first(budget, limit, raise_id, weights)
        if terms.home == NO_HOME:
            raise HomeMoving("the table's home is being moved: budgets are made once it is")
        home = await self._access.store_of(terms.home)
        asked = made.newest if weights is not None and not window.is_whole else None
        if await self._has(home, window, made, asked):  # by a home, perhaps, that is lost now
            return False
        left = await self._left(home, window)
        puts: list[Put] = []
        is_minted = any(item.minted for item in left)  # nothing may be, in a restored table
        if window.is_whole and (not left or not (is_minted or terms.lost)):
            holder = holder_in(terms.home, terms)
            before = next((item for item in left if item.holder == holder), Rights(holder))
            after = _minted(before, made, window)
            if after != before:
                puts.append(write_of(before, after, budget))
        elif left:
            made = _made_of(made, left, budget)
        puts.append(Put(limit_item(made, budget), Absent()))
        services = self._access.services
        retrier = Retrier.of(home, clock=services.clock, randomness=services.randomness)
        with self._access.signed():
            final = await retrier.until_answered(lambda: home.transact(puts))
        if isinstance(final.outcome, Unknown):
            raise OutcomeUnknown(
                f"budget {budget!r} may be made, or not ({final.outcome.cause}): repeat the call",
                entries=[],
                retryable=True,
            )
        if isinstance(final.outcome, Rejected):
            if not await self._has(home, window, made, asked):
                raise StateConflict(f"budget {budget!r} has a limit already: raise or lower that")
            return final.doubt is not None
        return True

    def _first(
        self,
        budget: str,
        limit: int | Decimal,
        raise_id: str | None,
        weights: Mapping[str, int] | None,
    ) -> BudgetLimit:
        """Return the limit that a budget begins with."""
        terms, amount = self._access.settings.current.terms, amounts.addend(limit)
        if amount > 0:
            checked_amount(amount, amount, "limit")
            if terms.takes_credits(budget):
                check_credited(amount, "a limit")
        shares = weighed(terms, weights or dict.fromkeys(terms.written, 1))
        made = BudgetLimit(1, (LimitStep.of(amount, shares),), generation=terms.generation)
        if raise_id is None:
            return made if amount else replace(made, opened_by="")
        now = whole_seconds(self._access.services.clock.now())
        raises, raised = remember_raise({}, {}, checked_id(raise_id), amount, now)
        return replace(made, raises=raises, raised=raised, opened_by=raise_id)

    async def _left(self, home: Store, window: Window) -> list[Rights]:
        """Return rights that are there without a limit: of a lost home, or of a restored table."""
        if not window.is_whole:
            return []
        left = await self._access.left(window.counter)
        if left is None:
            left = list((await self._access.items(home).read(window.counter)).items.values())
        return left

    async def _has(
        self, home: Store, window: Window, made: BudgetLimit, asked: LimitStep | None
    ) -> bool:
        """Return whether a budget is there as `made`, by home or, of an earlier one, others.

        Raises:
            StateConflict: it has another limit, was not made by the raise, nor raised by it, or is
                not shared as `asked`.
        """
        budget, amount = window.budget, made.newest.limit
        there = await self._access.limit_of(budget, self._access.items(home))
        if there is None:
            return False
        generation = self._access.settings.current.terms.generation
        if there.generation < generation:  # so that every region shows it
            with self._access.signed():
                await home.write(limit_write(there, adopt(there), budget, generation=generation))
        limit = there.steps[-1].limit
        if made.opened_by:
            place = await LimitTarget.of(self._access, budget, window)
            shown: list[Knows] = [*await place.limits(), *(await place.everywhere()).values()]
            if is_made(made.opened_by, amount, shown, budget):
                return True
            raise StateConflict(
                f"budget {budget!r} has a limit of {amounts.to_text(limit)} already, which raise"
                f" {made.opened_by!r} has not made: raise it by that id"
            )
        if limit != amount:
            raise StateConflict(
                f"budget {budget!r} has a limit of {amounts.to_text(limit)} already: raise or"
                " lower that"
            )
        if asked is not None and asked.shares != there.steps[-1].shares:
            shares = sorted(there.steps[-1].shares.items())
            had = ", ".join(f"{one.region}={amounts.to_text(share)}" for one, share in shares)
            raise StateConflict(
                f"budget {budget!r} has other weights, its windows are shared as {had}: lower it"
                f" to {amounts.to_text(limit)} with the new ones"
            )
        return True

    async def state(self, window: Window) -> BudgetState:
        """Return a budget, or a window of it, as this region shows it.

        Raises:
            BudgetMissing: this region shows no limit of it.
        """
        items = self._access.here
        shown = await items.read(window.counter)
        limit = shown.limit if window.is_whole else (await items.read(window.budget)).limit
        if limit is None:
            raise BudgetMissing(
                f"budget {window.budget!r} has no limit in {self._access.store.region}"
            )
        return self._state(window, shown, limit)

    async def states(self) -> AsyncIterator[BudgetState]:
        """Yield all budgets by counter, each with its window that runs, by a scan of the table.

        Every item is read and charged, eventually consistent; budgets are held in memory.

        Raises:
            DamagedItem: a control item cannot be read whole.
            StoreError: DynamoDB could not do it.
        """
        items: dict[str, dict[Holder, Rights]] = {}
        limits: dict[str, dict[str, BudgetLimit]] = {}
        here = self._access.here
        async for item in scanned(self._access.store):
            counter, sort_key = budget_of(item), item["sk"]["S"]
            if counter is None:
                continue
            if is_rights(sort_key):
                rights = here.as_of_now(rights_of(item))
                items.setdefault(counter, {})[rights.holder] = rights
            elif sort_key.startswith(LIMIT_PREFIX):
                limits.setdefault(counter, {})[sort_key] = limit_of(item)
        now = self._access.services.clock.now()
        for budget in sorted(limits):
            rule = self._access.settings.current.terms.budget_of(budget)
            if rule is not None:
                window = window_of(budget, rule, now)
                limit = limits[budget][max(limits[budget])]
                yield self._state(window, RightsView(items.get(window.counter, {}), limit), limit)

    def _state(self, window: Window, shown: RightsView, limit: BudgetLimit) -> BudgetState:
        terms = self._access.settings.current.terms
        is_over = partial(
            rights_plan.is_over,
            date=self._access.here.time.earliest,
            signature_lifetime=terms.signature_lifetime,
            clock_skew=terms.longest("clock_skew"),
        )
        items = dict(shown.items)
        target: Decimal | None = None
        if window.is_whole:  # a lost home may have left a raise in half, to be written by the next
            target = target_of(limit, items.values()) if terms.lost else limit.newest.limit
        if not window.is_whole:
            holders = {holder_in(region, terms) for region in terms.written}
            holders |= reclaimed_in(items.values()) | shares_in(limit, window).keys()
            for holder in holders:  # what it has not made, or what no region shows, is its share
                try:
                    made = first_rights(shown.of(holder), window=window, limit=limit)
                except BudgetUndecided:
                    target = limit.newest.limit
                else:
                    items[holder] = made or shown.of(holder)
            items = with_shares(items, [each for each in items if not shown.of(each).version])
            if target is None and (lowered := target_in(limit, window)) is not None:
                target = min(lowered, rights_plan.limit_of(tuple(items.values())))
        waiting = self._waiting(window.counter)
        return state_of(window, items, target=target, terms=terms, is_over=is_over, waiting=waiting)


def _minted(before: Rights, made: BudgetLimit, window: Window) -> Rights:
    """Return home's item once a limit is made, of a budget without windows."""
    amount = made.newest.limit
    if not made.opened_by:
        if before.version:
            return rights_plan.mint(before, amount) if amount else before
        return rights_plan.create(before.holder, amount, bucket=window.bucket)
    steps: list[rights_plan.Step] = [
        partial(first_rights, window=window, limit=made),
        *(
            partial(rights_plan.raise_limit, amount=amount, raise_id=raise_id, now=int(at))
            for raise_id, at in made.raised.items()
        ),
    ]
    after = rights_plan.in_one_write(before, steps)
    assert isinstance(after, Rights)  # noqa: S101 (neither step refuses)
    return after


def _made_of(made: BudgetLimit, left: Collection[Rights], budget: str) -> BudgetLimit:
    """Return the limit of rights that a lost home left without one, as it is to be made.

    Raises:
        StateConflict: they are of another, or were made by another raise.
    """
    there = rights_plan.limit_of(tuple(left))
    if made.opened_by and is_made(made.opened_by, made.newest.limit, left, budget):
        made = replace(made, steps=(made.newest.like(there, made.newest.shares),))
    elif made.newest.limit != there or made.opened_by:
        raise StateConflict(
            f"budget {budget!r} has rights of {amounts.to_text(there)} and no limit, by a lost home"
            " or a restore: create it with that limit, then raise or lower it"
        )
    raises = {raise_id: amount for item in left for raise_id, amount in item.raises.items()}
    raised = {raise_id: at for item in left for raise_id, at in item.raised.items()}
    # What nothing but raises is missing of: their rights are there.
    return replace(made, raises=raises, raised=raised, opened_by=made.opened_by or "")
