"""`LimitChanger`: limits raised and lowered through home, while spending goes on.

A budget without windows is raised by one transaction at home, of its rights and its limit. It is
lowered to a target: home retires what it has, the others send home what they have free, and what is
granted comes back as grants are closed; so the call is repeated until the limit has arrived. What
is retired goes by the limit item as it is then, not by the target of the call: so a raise meanwhile
is not eaten. A raise, too, retires what a lowering before it left.

With windows a step is announced for those that begin after the wait
(`ledger.budgets.limit_windows`), and the running one is raised or lowered at once, as a budget
without windows: the limit item says what it is lowered to. The next window may begin before the
step, and has the limit before it: it is not lowered by what was asked of another.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from functools import partial

from ledger.budgets import (
    balance,
    grant_allowance,
    half_applied_changes,
    limit_windows,
    rights_plan,
)
from ledger.budgets.amount_rules import GROWTH_DIGITS, check_credited, checked_amount, fits
from ledger.budgets.calendar import Window
from ledger.budgets.initial_shares import first_rights, weighed
from ledger.budgets.limit_change import LimitChange, change_now
from ledger.budgets.limit_steps import (
    due_of,
    go_down,
    is_free_above,
    lowered_by,
    step_to,
    with_step,
)
from ledger.budgets.limit_target import LimitTarget
from ledger.budgets.limit_windows import BudgetLimit, limit_write
from ledger.budgets.lost_stake import arrived_seconds
from ledger.budgets.raise_ids import checked_id, is_made, remember_raise
from ledger.budgets.region_access import RegionAccess
from ledger.budgets.rights import Rights, write_of
from ledger.core import amounts
from ledger.core.errors import (
    AmountOverflow,
    ContractStale,
    InvalidInput,
    OutcomeUnknown,
    StateConflict,
    StoreError,
)
from ledger.store.writes import Put


class LimitChanger:
    """Changes limits; `others` opens the stores of other regions."""

    def __init__(self, access: RegionAccess) -> None:
        self._access = access

    async def raise_limit(
        self, budget: str, amount: int | Decimal, raise_id: str, weights: Mapping[str, int] | None
    ) -> LimitChange:
        """Raise a limit, once for each id; see `Budget.raise_limit`."""
        place = await LimitTarget.of(self._access, budget)
        more = amounts.addend(amount)
        checked_amount(more, more)
        if place.terms.takes_credits(budget):
            check_credited(more, "a raise")
        checked_id(raise_id)
        self._check_weights(weights)
        await self._do_due(place)

        async def planned() -> list[Put]:
            limits, items = await place.limits(), await place.everywhere()
            if is_made(raise_id, more, [*limits, *items.values()], budget):
                return []
            limit, now = limits[0], place.seconds
            before = items[place.me]
            steps: list[rights_plan.Step] = [
                partial(first_rights, window=place.window, limit=limit),
                partial(rights_plan.raise_limit, amount=more, raise_id=raise_id, now=now),
            ]
            after = rights_plan.in_one_write(before, steps)
            assert isinstance(after, Rights)  # noqa: S101 (neither step refuses)
            target = amounts.total((limit.newest.limit, more))
            _check_digits(place, target, more, [*items.values(), after])
            raises, raised = remember_raise(limit.raises, limit.raised, raise_id, more, now)
            changed = with_step(place, limit, step_to(place, limit, target, weights))
            changed = limit_windows.raise_window(changed, place.window.begins, more)
            changed = replace(changed, raises=raises, raised=raised)
            return [
                write_of(before, after, place.window.counter),
                self._limit_put(place, limit, changed),
            ]

        await place.write(planned)
        try:
            raised = await change_now(place)
            if raised.limit > raised.target:  # a lowering before it is not finished
                await go_down(place)
                raised = await change_now(place)
        except StoreError as error:
            raise OutcomeUnknown(
                f"budget {budget!r} is raised, and not read after it ({error}): the same call is"
                " harmless",
                entries=[],
                retryable=True,
            ) from error
        return replace(raised, unreclaimed=())  # it is raised, whatever lost regions had

    async def lower_limit(
        self, budget: str, to: int | Decimal, weights: Mapping[str, int] | None
    ) -> LimitChange:
        """Lower a limit as far as that can be done now; see `Budget.lower_limit`."""
        place = await LimitTarget.of(self._access, budget)
        target = amounts.addend(to)
        if target < 0:
            raise InvalidInput(f"a limit is lowered to 0 or more, got {amounts.to_text(target)}")
        self._check_weights(weights)
        await self._do_due(place)

        async def planned() -> list[Put]:
            limit = (await place.limits())[0]
            if target > limit.newest.limit:
                now = (await change_now(place)).limit
                has, going = amounts.to_text(now), amounts.to_text(limit.newest.limit)
                is_there = now <= limit.newest.limit
                raise StateConflict(
                    f"budget {budget!r} has a limit of"
                    f" {going if is_there else f'at most {has}, going to {going}'}, which is less"
                    f" than {amounts.to_text(target)}: raise it"
                )
            changed = limit
            is_shared_again = weights is not None and not place.window.is_whole
            if target != limit.newest.limit or is_shared_again:
                step = step_to(place, limit, target, weights)
                if step.shares != limit.newest.shares:
                    changed = with_step(place, limit, step)
            if not place.window.is_whole:
                changed = limit_windows.lower_window(changed, place.window.begins, target)
            if changed == limit:
                return []
            changed = replace(changed, revision=limit.revision + 1)
            return [self._limit_put(place, limit, changed)]

        await place.write(planned)
        await go_down(place)
        return await change_now(place)

    async def go_on(
        self, budget: str, *, is_reclaimed: bool = False, is_restored: bool = False
    ) -> LimitChange:
        """Do what is due for an announced step: note that all show it, confirm, or postpone it.

        What a reclaim minted above a limit that was lowered is retired, of a region that was lost
        and of one that was taken out.
        After the loss of a home what it left is written in this generation; of a change of which
        one half has arrived the other is made (`ledger.budgets.half_applied_changes`), what is to
        be minted for it only if `is_reclaimed`: all that lost regions had was, and so what others
        had of it counts. So it is of a table that `is_restored`, to which nothing arrives any more.

        Raises:
            BudgetMissing, HomeMoving, OutcomeUnknown, StoreError: it may be repeated.
        """
        place = await LimitTarget.of(self._access, budget)
        await self._do_due(place, is_reclaimed=is_reclaimed, is_restored=is_restored)
        done = await change_now(place)
        if place.terms.lost and done.limit > done.target:
            with suppress(ContractStale, StoreError):  # as far as can be done now: the next goes on
                await go_down(place)
                done = await change_now(place)
        return done

    async def retire_ended(self, window: Window) -> None:
        """Retire what a reclaim minted of a window that has ended, above what it was lowered to.

        With ids of that window it could be spent for as long as the pattern's `late` allows.

        Raises:
            BudgetMissing, BudgetUndecided, HomeMoving, OutcomeUnknown, StoreError: it may be
                repeated.
        """
        place = await LimitTarget.of(self._access, window.budget, window)
        if await is_free_above(place):
            await go_down(place)

    async def is_to_retire(self, window: Window) -> bool:
        """Return whether something is free above what a budget, or a window, is lowered to.

        Raises:
            BudgetMissing, BudgetUndecided, HomeMoving, StoreError: it may be repeated.
        """
        return await is_free_above(await LimitTarget.of(self._access, window.budget, window))

    async def is_torn(
        self, budget: str, *, is_reclaimed: bool = True, is_restored: bool = False
    ) -> bool:
        """Return whether a lost home, or a restore, left a change of a limit in half, for `go_on`.

        Raises:
            BudgetMissing, HomeMoving, StoreError: it may be repeated.
        """
        place = await LimitTarget.of(self._access, budget)
        limit = (await place.limits())[0]
        torn = await self._torn(place, limit, is_reclaimed=is_reclaimed, is_restored=is_restored)
        return torn != (limit, [])

    async def _do_due(
        self, place: LimitTarget, *, is_reclaimed: bool = False, is_restored: bool = False
    ) -> None:
        """Write what is due for the limit, as `go_on`, in one transaction."""

        async def planned() -> list[Put]:
            limit = (await place.limits())[0]
            after = await due_of(place, limit)
            if after is None and limit.generation < place.generation:
                after = limit_windows.adopt(limit)
            raised, rights = await self._torn(
                place, after or limit, is_reclaimed=is_reclaimed, is_restored=is_restored
            )
            # What is minted is of the limit that was read, which a lowering meanwhile changes.
            if rights or raised != (after or limit):
                after = replace(raised, revision=limit.revision + 1)
            return [*rights, *([] if after is None else [self._limit_put(place, limit, after)])]

        await place.write(planned)

    async def _torn(
        self, place: LimitTarget, limit: BudgetLimit, *, is_reclaimed: bool, is_restored: bool
    ) -> tuple[BudgetLimit, list[Put]]:
        """Return a limit as it is to be after such a loss, or a restore, and what mints the rest.

        What it has and was not minted may still arrive for a day after the loss, and others may
        have taken of it what they show: that counts once it is reclaimed.
        """
        terms = self._access.settings.current.terms
        items = await self._access.left(place.window.counter)
        if is_restored and items is None and not place.terms.lost:
            items = list((await place.everywhere()).values())
        if items is None or (terms.given_up_at is None and not is_restored):
            return limit, []
        now = place.seconds
        known = half_applied_changes.not_in_limit(limit, items)
        if known and limit.announced is None:
            target = half_applied_changes.target_of(limit, items)
            raised = half_applied_changes.remembering(limit, known, now)
            limit = with_step(place, raised, step_to(place, limit, target, None))
            limit = limit_windows.raise_window(
                limit, place.window.begins, amounts.total_wide(known.values())
            )
        if not is_reclaimed or (not is_restored and self._may_arrive(place)):
            return limit, []
        missing = half_applied_changes.missing_of(limit, items, place.window, now)
        if missing.limit < limit.newest.limit:
            limit = with_step(place, limit, step_to(place, limit, missing.limit, None))
        if not missing.steps:
            return limit, []
        found = await place.with_unmade(items)
        before = found[place.me]
        made = partial(first_rights, window=place.window, limit=limit)
        # Minted above a limit that was lowered since it would be spent before it is retired.
        lowered = lowered_by(place, limit, place.all_made(limit, found))
        after = rights_plan.in_one_write(before, [made, *missing.steps, *lowered])
        assert isinstance(after, Rights)  # noqa: S101 (no step refuses)
        return limit, [write_of(before, after, place.window.counter)]

    @staticmethod
    def _may_arrive(place: LimitTarget) -> bool:
        """Return whether what the region that was lost last has written may still arrive."""
        given_up_at = place.terms.given_up_at
        wait = arrived_seconds(place.terms)
        return given_up_at is not None and place.time.least <= given_up_at.timestamp() + wait

    def _check_weights(self, weights: Mapping[str, int] | None) -> None:
        """Check weights, also where nothing is shared by them: of a budget without windows."""
        if weights is not None:
            limit_windows.LimitStep.of(1, weighed(self._access.settings.current.terms, weights))

    def _limit_put(self, place: LimitTarget, before: BudgetLimit, after: BudgetLimit) -> Put:
        return limit_write(before, after, place.budget, generation=place.generation)


def _check_digits(place: LimitTarget, target: Decimal, more: Decimal, items: list[Rights]) -> None:
    """Check that what was spent and moved still can be added up under a higher limit.

    Raises:
        AmountOverflow: it cannot.
    """
    finest = min(grant_allowance.quantum_of(more), balance.quantum_of(items))
    highest = rights_plan.highest_limit(target, items)
    if not fits(finest, highest):
        most = amounts.scaled(finest, amounts.DIGITS_MAX - GROWTH_DIGITS)
        raise AmountOverflow(
            f"budget {place.budget!r} cannot be raised to {amounts.to_text(target)}: amounts as"
            f" fine as {amounts.to_text(finest)} are in it, with which all that it ever had must"
            f" stay below {amounts.to_text(most)}, and that would be {amounts.to_text(highest)}"
        )
