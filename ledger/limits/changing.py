"""`LimitChanger`: limits raised and lowered through home, while spending goes on.

A budget without windows is raised by one transaction at home, of its rights and its limit. It is
lowered to a target: home retires what it has, the others send home what they have free, and what is
granted comes back as grants are closed; so the call is repeated until the limit has arrived. What
is retired goes by the limit item as it is then, not by the target of the call: so a raise meanwhile
is not eaten. A raise, too, retires what a lowering before it left.

With windows a step is announced for those that begin after the wait (`ledger.limits.windows`), and
the running one is raised or lowered at once, as a budget without windows: the limit item says what
it is lowered to. The next window may begin before the step, and has the limit before it: it is not
lowered by what was asked of another.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from math import ceil

from ledger.core import amounts
from ledger.core.contract import seconds_to_wait
from ledger.core.errors import (
    AmountOverflow,
    ContractStale,
    InvalidInput,
    OutcomeUnknown,
    StateConflict,
    StoreError,
)
from ledger.core.ids import EPOCH
from ledger.limits import balance, halves, losing, plan, sizes, windows
from ledger.limits.balance import debts
from ledger.limits.calendar import previous_of, whole_seconds, window_of
from ledger.limits.items import ControlItems
from ledger.limits.lost import unreclaimed
from ledger.limits.lowering import go_down, lowered_by
from ledger.limits.place import Place, not_reclaimed
from ledger.limits.raises import remembered
from ledger.limits.reach import Reach
from ledger.limits.rights import (
    GROWTH_DIGITS,
    Account,
    Rights,
    account_in,
    checked_amount,
    fits,
    write_of,
)
from ledger.limits.shares import created, shares_in, target_in, weighed
from ledger.limits.windows import Limit, limit_write
from ledger.store.writes import Put

CONFIRM_SECONDS = 600
"""How much time there is, at least, to confirm an announced step beside its wait."""
POSTPONED_SECONDS = (4 * 3_600, 16 * 3_600, 64 * 3_600, 256 * 3_600)
"""How much there is once that was too little, the last for good.

It takes two visits, the wait apart: one finds that all regions show the step, the next confirms it.
In 4 hours a scheduled compactor's hourly searches come by three times. Who comes once a day, and
has no compactor, does so in 64.
"""
ID_CHARACTERS_MAX = 100
_ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class LimitChange:
    """What became of a raise, or a lowering: at most `limit` now, going to `target`.

    Both are of the budget, or of the window that runs. `limit` counts what accounts were charged
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


class LimitChanger:
    """Changes limits; `others` opens the stores of other regions."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def raise_limit(
        self, budget: str, amount: int | Decimal, raise_id: str, weights: Mapping[str, int] | None
    ) -> LimitChange:
        """Raise a limit, once for each id; see `Budget.raise_limit`."""
        place = await Place.of(self._reach, budget)
        more = amounts.addend(amount)
        checked_amount(more, more)
        _check_id(raise_id)
        self._check_weights(weights)
        await self._do_due(place)

        async def planned() -> list[Put]:
            limits, items = await place.limits(), await place.everywhere()
            if any(raise_id in known.raises for known in limits) or plan.is_raised(
                tuple(items.values()), raise_id
            ):
                _check_same(place, raise_id, more, [*limits, *items.values()])
                return []
            limit, now = limits[0], self._seconds()
            before = items[place.me]
            steps: list[plan.Step] = [
                partial(created, window=place.window, limit=limit),
                partial(plan.raise_limit, amount=more, raise_id=raise_id, now=now),
            ]
            after = plan.in_one_write(before, steps)
            assert isinstance(after, Rights)  # noqa: S101 (neither step refuses)
            target = amounts.total((limit.newest.limit, more))
            _check_digits(place, target, more, [*items.values(), after])
            raises, raised = remembered(limit.raises, limit.raised, raise_id, more, now)
            changed = self._with(place, limit, self._step(place, limit, target, weights))
            changed = windows.raise_window(changed, place.window.begins, more)
            changed = replace(changed, raises=raises, raised=raised)
            return [
                write_of(before, after, place.window.counter),
                self._limit_put(place, limit, changed),
            ]

        await place.write(planned)
        try:
            raised = await self._now(place)
            if raised.limit > raised.target:  # a lowering before it is not finished
                await go_down(place)
                raised = await self._now(place)
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
        place = await Place.of(self._reach, budget)
        target = amounts.addend(to)
        if target < 0:
            raise InvalidInput(f"a limit is lowered to 0 or more, got {amounts.to_text(target)}")
        self._check_weights(weights)
        await self._do_due(place)

        async def planned() -> list[Put]:
            limit = (await place.limits())[0]
            if target > limit.newest.limit:
                now = (await self._now(place)).limit
                has, going = amounts.to_text(now), amounts.to_text(limit.newest.limit)
                is_there = now <= limit.newest.limit
                raise StateConflict(
                    f"budget {budget!r} has a limit of"
                    f" {going if is_there else f'at most {has}, going to {going}'}, which is less"
                    f" than {amounts.to_text(target)}: raise it"
                )
            changed = limit
            is_shared_anew = weights is not None and not place.window.is_whole
            if target != limit.newest.limit or is_shared_anew:
                step = self._step(place, limit, target, weights)
                if step.shares != limit.newest.shares:
                    changed = self._with(place, limit, step)
            if not place.window.is_whole:
                changed = windows.lower_window(changed, place.window.begins, target)
            if changed == limit:
                return []
            changed = replace(changed, revision=limit.revision + 1)
            return [self._limit_put(place, limit, changed)]

        await place.write(planned)
        await go_down(place)
        return await self._now(place)

    async def go_on(
        self, budget: str, *, is_reclaimed: bool = False, is_restored: bool = False
    ) -> LimitChange:
        """Do what is due for an announced step: note that all show it, confirm, or postpone it.

        After a loss what a reclaim minted above a limit that was lowered is retired.
        After the loss of a home what it left is written in this generation; of a change of which
        one half has arrived the other is made (`ledger.limits.halves`), what is to be minted for it
        only if `is_reclaimed`: all that lost regions had was, and so what others had of it counts.
        So it is of a table that `is_restored`, to which nothing arrives any more.

        Raises:
            BudgetMissing, HomeMoving, OutcomeUnknown, StoreError: it may be repeated.
        """
        place = await Place.of(self._reach, budget)
        await self._do_due(place, is_reclaimed=is_reclaimed, is_restored=is_restored)
        done = await self._now(place)
        if place.terms.lost and done.limit > done.target:  # what is minted again, too
            with suppress(ContractStale, StoreError):  # as far as can be done now: the next goes on
                await go_down(place)
                done = await self._now(place)
        return done

    async def is_torn(
        self, budget: str, *, is_reclaimed: bool = True, is_restored: bool = False
    ) -> bool:
        """Return whether a lost home, or a restore, left a change of a limit in half, for `go_on`.

        Raises:
            BudgetMissing, HomeMoving, StoreError: it may be repeated.
        """
        place = await Place.of(self._reach, budget)
        limit = (await place.limits())[0]
        torn = await self._torn(place, limit, is_reclaimed=is_reclaimed, is_restored=is_restored)
        return torn != (limit, [])

    async def _do_due(
        self, place: Place, *, is_reclaimed: bool = False, is_restored: bool = False
    ) -> None:
        """Write what is due for the limit, as `go_on`, in one transaction."""

        async def planned() -> list[Put]:
            limit = (await place.limits())[0]
            after = await self._due(place, limit)
            if after is None and limit.generation < place.generation:
                after = windows.adopt(limit)
            raised, rights = await self._torn(
                place, after or limit, is_reclaimed=is_reclaimed, is_restored=is_restored
            )
            # What is minted is of the limit that was read, which a lowering meanwhile changes.
            if rights or raised != (after or limit):
                after = replace(raised, revision=limit.revision + 1)
            return [*rights, *([] if after is None else [self._limit_put(place, limit, after)])]

        await place.write(planned)

    async def _due(self, place: Place, limit: Limit) -> Limit | None:
        step, now = limit.announced, self._seconds()
        if step is None or step.since is None:
            return None
        if now >= step.since:
            seconds = POSTPONED_SECONDS[min(limit.postponed, len(POSTPONED_SECONDS) - 1)]
            since = self._since(place, limit, seconds=seconds)
            return windows.postpone(limit, since, now=now, wait=self._wait)
        if limit.shown is not None:
            oldest = previous_of(place.window, place.rule).begins
            return windows.confirm(
                limit, now=now, looked=limit.shown, wait=self._wait, oldest=oldest
            )
        try:
            shown = [
                (await ControlItems.read(items, place.budget)).limit
                for items in (await self._reach.items_everywhere()).values()
            ]
        except StoreError:
            return None  # that region has yet to show it
        is_shown = all(other is not None and other.revision >= limit.revision for other in shown)
        return windows.note_shown(limit, now) if is_shown else None

    async def _torn(
        self, place: Place, limit: Limit, *, is_reclaimed: bool, is_restored: bool
    ) -> tuple[Limit, list[Put]]:
        """Return a limit as it is to be after such a loss, or a restore, and what mints the rest.

        What it has and was not minted may still arrive for a day after the loss, and others may
        have taken of it what they show: that counts once it is reclaimed.
        """
        terms = self._reach.settings.current.terms
        items = await self._reach.left(place.window.counter)
        if is_restored and items is None and not place.terms.lost:
            items = list((await place.everywhere()).values())
        if items is None or (terms.given_up_at is None and not is_restored):
            return limit, []
        now = self._seconds()
        known = halves.not_in_limit(limit, items)
        if known and limit.announced is None:
            target = halves.target_of(limit, items)
            raised = halves.remembering(limit, known, now)
            limit = self._with(place, raised, self._step(place, limit, target, None))
            limit = windows.raise_window(
                limit, place.window.begins, amounts.total_wide(known.values())
            )
        if not is_reclaimed or (not is_restored and self._may_arrive()):
            return limit, []
        missing = halves.missing_of(limit, items, place.window, now)
        if missing.limit < limit.newest.limit:
            limit = self._with(place, limit, self._step(place, limit, missing.limit, None))
        if not missing.steps:
            return limit, []
        found = await place.with_unmade(items)
        before, others = found[place.me], place.others(place.all_made(limit, found))
        made = partial(created, window=place.window, limit=limit)
        # Minted above a limit that was lowered since it would be spent before it is retired.
        lowered = lowered_by(place, limit, others)
        after = plan.in_one_write(before, [made, *missing.steps, *lowered])
        assert isinstance(after, Rights)  # noqa: S101 (no step refuses)
        return limit, [write_of(before, after, place.window.counter)]

    def _may_arrive(self) -> bool:
        """Return whether what the region that was lost last has written may still arrive."""
        terms = self._reach.settings.current.terms
        wait = timedelta(seconds=losing.ARRIVED_SECONDS + terms.clock_skew)
        return terms.given_up_at is not None and self._reach.clock.now() <= terms.given_up_at + wait

    def _check_weights(self, weights: Mapping[str, int] | None) -> None:
        """Check weights, also where nothing is shared by them: of a budget without windows."""
        if weights is not None:
            windows.LimitStep.of(1, weighed(self._reach.settings.current.terms, weights))

    def _step(
        self, place: Place, limit: Limit, target: Decimal, weights: Mapping[str, int] | None
    ) -> windows.LimitStep:
        """Return the step of another amount: of now, or of windows that begin later."""
        terms = self._reach.settings.current.terms
        since = None if place.window.is_whole else self._since(place, limit)
        if weights is not None:
            step = windows.LimitStep.of(target, weighed(terms, weights), since=since)
        else:
            accounts = [account_in(region, terms) for region in terms.written]
            step = limit.newest.like(target, accounts, since=since)
        # Without windows nothing is shared by it: it names whoever may have had a part of it.
        return step.naming(limit.newest.shares) if place.window.is_whole else step

    def _with(self, place: Place, limit: Limit, step: windows.LimitStep) -> Limit:
        """Return the limit with a step in force, or announced."""
        if place.window.is_whole:
            return replace(limit, revision=limit.revision + 1, steps=(step,))
        return windows.announce(limit, step, now=self._seconds(), wait=self._wait)

    def _limit_put(self, place: Place, before: Limit, after: Limit) -> Put:
        return limit_write(before, after, place.budget, generation=place.generation)

    async def _now(self, place: Place) -> LimitChange:
        limit, items = (await place.limits())[0], await place.everywhere()
        made = place.all_made(limit, items)
        named = shares_in(limit, place.window)
        left = unreclaimed(items.values(), named, keeps=place.keeps)
        # What lost regions owe is at home once it is reclaimed.
        owed = debts(not_reclaimed(made), lost=left).values()
        minted = plan.limit_of(tuple(made.values()))
        now = amounts.total_wide((minted, *owed))
        if place.window.is_whole:
            regions = _regions_of(left)
            return LimitChange(place.budget, now, limit.newest.limit, unreclaimed=regions)
        target = target_in(limit, place.window)
        goal = min(now, minted if target is None else target)
        if now <= goal and not self._may_be_of_gone(place):
            left = unreclaimed(items.values(), (), keeps=place.keeps)
        regions = _regions_of(left)
        since = limit.newest.since
        is_confirmed = limit.announced is None
        if since is None or (is_confirmed and since <= self._seconds()):
            return LimitChange(place.budget, now, goal, unreclaimed=regions)
        begins = EPOCH + timedelta(seconds=since)
        later = limit.newest.limit
        return LimitChange(place.budget, now, goal, later, begins, regions, is_confirmed)

    def _may_be_of_gone(self, place: Place) -> bool:
        """Return whether a region that is gone may have made its share of the window that runs.

        Not if that began once nobody wrote there any more, by the wait after the contract's change.
        """
        terms = place.terms
        gone = [at for at in (terms.given_up_at, terms.left_at) if at is not None]
        begins = EPOCH + timedelta(seconds=place.window.begins)
        written = timedelta(seconds=self._wait)
        return not gone or begins <= max(gone) + written

    def _since(self, place: Place, limit: Limit, *, seconds: int = CONFIRM_SECONDS) -> int:
        """Return when the first window begins that a step announced now can decide.

        Not before the newest in force does. There is to be so much time beside the wait. What takes
        the place of another that is announced begins with that, if there is.
        """
        at = self._reach.clock.now() + timedelta(seconds=self._wait + seconds)
        at = max(at, EPOCH + timedelta(seconds=limit.begins - 1))
        announced = None if limit.announced is None else limit.announced.since
        if announced is not None and announced > whole_seconds(at):
            return announced
        ends = window_of(place.budget, place.rule, at).ends
        assert ends is not None  # noqa: S101 (it has windows)
        return ends

    @property
    def _wait(self) -> int:
        """The contract's wait; whoever confirms may have another clock than whoever looked."""
        terms = self._reach.settings.current.terms
        return ceil(seconds_to_wait(terms, terms) + 2 * terms.clock_skew)

    def _seconds(self) -> int:
        return whole_seconds(self._reach.clock.now())


def _regions_of(accounts: Iterable[Account]) -> tuple[str, ...]:
    return tuple(sorted({account.region for account in accounts}))


def _check_same(
    place: Place, raise_id: str, amount: Decimal, shown: Sequence[Limit | Rights]
) -> None:
    """Check that a raise that was made before was of this amount.

    Raises:
        StateConflict: it was of another.
    """
    made = {item.raises[raise_id] for item in shown if raise_id in item.raises}
    if amount not in made:
        raise StateConflict(
            f"raise {raise_id!r} of budget {place.budget!r} was made by"
            f" {amounts.to_text(min(made))}, not {amounts.to_text(amount)}: another raise takes"
            " another id"
        )


def _check_digits(place: Place, target: Decimal, more: Decimal, items: list[Rights]) -> None:
    """Check that what was spent and moved still can be added up under a higher limit.

    Raises:
        AmountOverflow: it cannot.
    """
    finest = min(sizes.quantum_of(more), balance.quantum_of(items))
    highest = plan.highest_limit(target, items)
    if not fits(finest, highest):
        most = amounts.scaled(finest, amounts.DIGITS_MAX - GROWTH_DIGITS)
        raise AmountOverflow(
            f"budget {place.budget!r} cannot be raised to {amounts.to_text(target)}: amounts as"
            f" fine as {amounts.to_text(finest)} are in it, with which all that it ever had must"
            f" stay below {amounts.to_text(most)}, and that would be {amounts.to_text(highest)}"
        )


def _check_id(raise_id: object) -> None:
    is_text = isinstance(raise_id, str) and raise_id.isprintable()
    if not is_text or not 0 < len(str(raise_id)) <= ID_CHARACTERS_MAX:
        raise InvalidInput(
            f"the id of a raise must be 1 to {ID_CHARACTERS_MAX} printable characters, got"
            f" {raise_id!r:.80}"
        )
