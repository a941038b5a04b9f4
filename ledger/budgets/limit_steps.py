"""Steps of a limit at their place: of now, or announced for windows that begin later.

Home retires its rights above the limit of now; other regions send home what they have free. They
also pay what a region owes that was charged more than it had: beside a debt others can spend as
much more than the limit.

Every region shows a step that is announced before the step is confirmed, after a wait. Each visit
does what is due; `limit_windows` says what follows from what, and why.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from functools import partial

from ledger.budgets import limit_windows, rights_plan
from ledger.budgets.calendar import previous_of, whole_seconds, window_of
from ledger.budgets.half_applied_changes import not_in_limit
from ledger.budgets.initial_shares import first_rights, target_in, weighed
from ledger.budgets.limit_target import CHANGE_SECONDS, LimitTarget
from ledger.budgets.limit_windows import BudgetLimit, LimitStep
from ledger.budgets.rights import Holder, Rights, holder_in, write_of
from ledger.budgets.rights_items import ControlItems
from ledger.core import amounts
from ledger.core.clock_offset import RegionTime
from ledger.core.errors import StoreError
from ledger.core.ids import EPOCH
from ledger.store.writes import Put

_ZERO = Decimal(0)


async def go_down(place: LimitTarget) -> None:
    """Retire, at home, as much as is free anywhere of what is above the limit, and pay debts.

    Raises:
        BudgetMissing, OutcomeUnknown, StoreError: it may be repeated.
    """
    await _retire(place)
    await _send_home(place)
    await _retire(place)


def lowered_to(place: LimitTarget, limit: BudgetLimit, items: Collection[Rights]) -> Decimal | None:
    """Return down to what rights are retired now; None if it is not lowered.

    With each raise that these items show and the limit does not know, of a lost home or restored:
    it would be taken for what is above.
    """
    target = target_in(limit, place.window)
    unknown = not_in_limit(limit, items).values()
    return None if target is None else amounts.total_wide((target, *unknown))


async def is_free_above(place: LimitTarget) -> bool:
    """Return whether any region that is not gone has something free of what is to be retired.

    Raises:
        BudgetMissing, BudgetUndecided, StoreError: it may be repeated.
    """
    items = await place.everywhere()
    limit = (await place.limits())[0]
    made = place.all_made(limit, items)
    is_free = any(item.available > 0 for holder, item in made.items() if place.keeps(holder))
    return is_free and _above(place, limit, made) > 0


def _above(place: LimitTarget, limit: BudgetLimit, items: Mapping[Holder, Rights]) -> Decimal:
    """Return how much of these items is to be retired."""
    target = lowered_to(place, limit, items.values())
    return _ZERO if target is None else rights_plan.above(target, tuple(items.values()))


def lowered_by(
    place: LimitTarget, limit: BudgetLimit, items: Mapping[Holder, Rights]
) -> list[rights_plan.Step]:
    """Return the step that retires at home what is above the limit, if that is lowered.

    `items` are those of all holders, as they are, or will be made.
    """
    target = lowered_to(place, limit, items.values())
    others = place.others(items)
    return (
        [] if target is None else [partial(rights_plan.lower_limit, target=target, others=others)]
    )


async def _retire(place: LimitTarget) -> None:
    """Take up at home what was sent there, retire what is above the limit, and pay debts.

    The limit is read after home's item: a raise, which writes both, is either in that limit, or
    has changed the version of the item, and this write is refused.
    """

    async def planned() -> list[Put]:
        items = await place.everywhere()
        limit = (await place.limits())[0]
        before, made = items[place.me], place.all_made(limit, items)
        others = place.others(made)
        steps: list[rights_plan.Step] = [
            partial(first_rights, window=place.window, limit=limit),
            *(partial(rights_plan.take_up, giver=giver) for giver in others),
            *lowered_by(place, limit, made),
            *(
                partial(rights_plan.pay, to=one, debt=debt)
                for one, debt in place.debts(made).items()
            ),
        ]
        after = rights_plan.in_one_write(before, steps)
        if not isinstance(after, Rights) or after.version == before.version:
            return []
        return [write_of(before, after, place.window.counter)]

    await place.write(planned)


async def _send_home(place: LimitTarget) -> None:
    """Let other regions send home what they have free of what is above the limit, or owed."""
    limit = (await place.limits())[0]
    made = place.all_made(limit, await place.everywhere())
    owed = place.debts(made).values()
    above = amounts.total_wide((_above(place, limit, made), *owed))
    for holder, region in sorted((await place.holders()).items()):
        if holder == place.me or above <= 0 or made[holder].available <= 0:
            continue
        try:
            sent = await _sent_home(place, limit, holder, region, above)
        except StoreError:
            continue  # by the next call
        above = amounts.total_wide((above, sent.copy_negate()))


async def _sent_home(
    place: LimitTarget, limit: BudgetLimit, giver: Holder, region: ControlItems, most: Decimal
) -> Decimal:
    """Let one region send at most so much home; return how much it did."""
    sent = _ZERO

    def planned(rights: Rights) -> Rights:
        nonlocal sent
        sent = min(most, place.made(limit, rights).available)
        if sent <= 0:
            sent = _ZERO
            return rights
        steps: list[rights_plan.Step] = [
            partial(first_rights, window=place.window, limit=limit),
            partial(rights_plan.send, to=place.me, amount=sent),
        ]
        done = rights_plan.in_one_write(rights, steps)
        assert isinstance(done, Rights)  # noqa: S101 (there is as much)
        return done

    with place.access.signed():
        await region.change(place.window.counter, giver, planned, seconds=CHANGE_SECONDS)
    return sent


CONFIRM_SECONDS = 600
"""How much time there is, at least, to confirm an announced step beside its wait."""
POSTPONED_SECONDS = (4 * 3_600, 16 * 3_600, 64 * 3_600, 256 * 3_600)
"""How much there is once that was too little, the last for good.

It takes two visits, the wait apart: one finds that all regions show the step, the next confirms it.
In 4 hours a scheduled compactor's hourly searches come by three times. Who comes once a day, and
has no compactor, does so in 64.
"""


def step_to(
    place: LimitTarget, limit: BudgetLimit, target: Decimal, weights: Mapping[str, int] | None
) -> LimitStep:
    """Return the step of another amount: of now, or of windows that begin later.

    Raises:
        InvalidInput: the weights are not of the table's regions, or not whole numbers from 0 on.
    """
    terms = place.access.settings.current.terms
    since = None if place.window.is_whole else _since(place, limit, seconds=CONFIRM_SECONDS)
    if weights is not None:
        step = LimitStep.of(target, weighed(terms, weights), since=since)
    else:
        holders = [holder_in(region, terms) for region in terms.written]
        step = limit.newest.like(target, holders, since=since)
    # Without windows nothing is shared by it: it names all that may have had a part of it.
    return step.naming(limit.newest.shares) if place.window.is_whole else step


def with_step(place: LimitTarget, limit: BudgetLimit, step: LimitStep) -> BudgetLimit:
    """Return the limit with a step in force, or announced."""
    if place.window.is_whole:
        return replace(limit, revision=limit.revision + 1, steps=(step,))
    return limit_windows.announce(limit, step, now=place.time.latest, wait=place.wait)


async def due_of(place: LimitTarget, limit: BudgetLimit) -> BudgetLimit | None:
    """Return the limit once what is due for an announced step is done; None if nothing is due."""
    step, time = limit.announced, place.time
    if step is None or step.since is None:
        return None
    if time.earliest >= step.since:
        seconds = POSTPONED_SECONDS[min(limit.postponed, len(POSTPONED_SECONDS) - 1)]
        since = _since(place, limit, seconds=seconds)
        return limit_windows.postpone(limit, since, now=time.latest, wait=place.wait)
    if limit.shown is not None:
        oldest = _oldest(place, time)
        return limit_windows.confirm(
            limit, now=time.earliest, looked=limit.shown, wait=place.wait, oldest=oldest
        )
    try:
        shown = [
            (await items.read(place.budget)).limit
            for items in (await place.access.items_everywhere()).values()
        ]
    except StoreError:
        return None  # that region has yet to show it
    is_shown = all(other is not None and other.revision >= limit.revision for other in shown)
    return limit_windows.note_shown(limit, place.time.latest) if is_shown else None


def _oldest(place: LimitTarget, time: RegionTime) -> int:
    """Return when the oldest window begins of which any process may still make an item."""
    behind = time.least - place.terms.longest("clock_skew")
    runs = window_of(place.budget, place.rule, EPOCH + timedelta(seconds=behind))
    return previous_of(runs, place.rule).begins


def _since(place: LimitTarget, limit: BudgetLimit, *, seconds: int) -> int:
    """Return when the first window begins that a step announced now can decide.

    Not before the newest in force does. There is to be so much time beside the wait. What takes
    the place of another that is announced begins with that, if there is.
    """
    at = EPOCH + timedelta(seconds=place.time.latest + place.wait + seconds)
    at = max(at, EPOCH + timedelta(seconds=limit.begins - 1))
    announced = None if limit.announced is None else limit.announced.since
    if announced is not None and announced > whole_seconds(at):
        return announced
    ends = window_of(place.budget, place.rule, at).ends
    assert ends is not None  # noqa: S101 (it has windows)
    return ends
