"""A lost region's holds are charged once, whichever of its items and entries have arrived."""

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.budgets import AT_HOME, AT_SOUTH, AT_WEST, whole
from support.ledgers import HOME, WEST, make_settings
from support.past_budgets import (
    EVENTS,
    LIMIT,
    ZERO,
    Event,
    Past,
    applied,
    holders_of,
    reclaimed,
)

from ledger.budgets import hold_rules, rights_plan
from ledger.budgets.budget import Budget, Hold
from ledger.budgets.budget_state import state_of
from ledger.budgets.calendar import Window
from ledger.budgets.restore_plan import RestoredEntries, counted_item
from ledger.budgets.rights import GrantName, LateCharge, Rights
from ledger.budgets.rights_items import read_rights
from ledger.budgets.spend_record import SpendRecord
from ledger.core.amounts import EXACT
from ledger.testing import MemoryGlobalTable

HOLDERS = (AT_HOME, AT_SOUTH, AT_WEST)
HELD = [(0, "take", 9, 1), (0, "hold", 9, 1)]


@pytest.mark.slow
@settings(max_examples=300)
@given(EVENTS, st.integers(0, 2), st.integers(0, 9), st.lists(st.integers(0, 3), max_size=12))
@example([*HELD, (0, "close", 1, 1)], 0, 0, [])
@example([*HELD, (0, "close", 1, 2)], 0, 0, [])
@example([*HELD, (0, "close", 1, 1), (0, "apart", 3, 1)], 0, 0, [])
@example([*HELD, (0, "close", 1, 1), (0, "apart", 3, 1)], 0, 1, [])
@example([*HELD, (0, "close", 1, 1), (0, "apart", 3, 1)], 0, 0, [1])
@example([*HELD, (0, "apart", 3, 1), (0, "close", 1, 1)], 0, 0, [])
@example([*HELD, (0, "apart", 3, 1), (0, "close", 1, 1)], 0, 0, [1])
@example([*HELD, (0, "settle", 3, 1), (0, "close", 1, 1)], 0, 0, [1])
def test_what_is_minted_again_and_what_was_spent_come_to_the_limit(
    events: list[Event], place: int, back: int, late: list[int]
) -> None:
    """No more, whichever version of the lost item and of its entries arrived, or none of these.

    And no less if all had arrived, its holds open or resolved, before or after grants were closed.
    """
    past = Past()
    for event in events:
        past.happens(event[0], event[1], Decimal(event[2]), event[3])
    gone = HOLDERS[place]
    items = {versions[0].holder: versions[-1] for versions in past.items}
    versions = past.items[[each[0].holder for each in past.items].index(gone)]
    items[gone] = versions[max(0, len(versions) - 1 - back)]
    spends: list[SpendRecord] = []
    for number, written in enumerate(past.entries):
        missing = late[number] if number < len(late) and gone in holders_of(written[0]) else 0
        spends += written[: len(written) - missing][-1:]
    total = EXACT.add(reclaimed(items, spends, gone), applied(spends, gone))
    assert total <= LIMIT
    if items[gone] == versions[-1] and spends == past.spends:
        assert total == LIMIT


def test_of_a_rolling_limit_nobody_knows_what_comes_back() -> None:
    """So an open hold of a closed grant counts once more there."""
    made = rights_plan.create(AT_WEST, Decimal(10), bucket=3_600)
    granted = rights_plan.take(made, Decimal(5), since=0, expires=60, token="t")
    assert isinstance(granted, Rights)
    spent = rights_plan.SpendPlan(Decimal(3), is_sure=True, held=Decimal(3))
    for after in (
        rights_plan.close(granted, 2, spent),
        rights_plan.reclaim(granted, 2, Decimal(3), held=ZERO),
    ):
        assert isinstance(after, Rights)
        assert after.held == 0


@pytest.mark.parametrize("amount", [2, -2])
def test_what_another_resolves_is_held_no_more(amount: int) -> None:
    """While its grant is open that is kept apart; its owner, who does not know, charges it."""
    granted = rights_plan.take(
        rights_plan.create(AT_WEST, Decimal(10)), Decimal(5), since=0, expires=60, token="t"
    )
    assert isinstance(granted, Rights)
    apart = rights_plan.adjust(granted, 2, Decimal(amount), held=Decimal(3), over=True)
    assert isinstance(apart, Rights)
    assert (apart.released, apart.held) == ({2: Decimal(3)}, ZERO)
    known = rights_plan.SpendPlan(Decimal(5), is_sure=True, held=Decimal(5))
    by_owner = rights_plan.close(apart, 2, known)
    assert isinstance(by_owner, Rights)
    assert (by_owner.held, by_owner.released) == (Decimal(2), {})
    by_reading = rights_plan.reclaim(apart, 2, Decimal(5), held=Decimal(2))
    assert isinstance(by_reading, Rights)
    assert (by_reading.held, by_reading.released) == (Decimal(2), {})
    later = rights_plan.adjust(by_owner, 2, Decimal(-1), held=Decimal(2))
    assert isinstance(later, Rights)
    assert later.held == 0


def test_what_was_let_through_was_never_held() -> None:
    """Its hold names no grant: a holder is charged for it once, apart."""
    hold = SpendRecord("1", Decimal(3), (GrantName(AT_WEST, 2),), hold=9)
    item = replace(rights_plan.create(AT_WEST, Decimal(10)), version=2, held=Decimal(3))
    for version, held in ((2, 0), (0, 3)):
        void = hold_rules.void(replace(hold, grants=(GrantName(AT_WEST, version),)))
        done = hold_rules.charge_apart(void, {"": item}, now=0.0)
        assert not isinstance(done, rights_plan.TooFewRights)
        assert done.items[0].held == held


async def hold(budget: Budget, amount: int) -> Hold:
    """Keep an amount aside for a day and more."""
    kept = await budget.hold(amount, expires=90_000)
    assert isinstance(kept, Hold)
    return kept


async def _rights(world: MemoryGlobalTable) -> Rights:
    world.replicate()
    return (await read_rights(world.store(HOME), "key/42"))[AT_HOME]


async def test_an_item_says_what_open_holds_keep_of_what_is_charged() -> None:
    """As their owner knows it, whatever it has settled since, in its grant or another."""
    world = MemoryGlobalTable([HOME, WEST], budgets={"key/*": {}})
    async with world.table(HOME) as table:
        budget = table.budget("key/42")
        await budget.create(100)
        first, second, _ = [await hold(budget, n) for n in (5, 6, 7)]
        assert await first.settle(2)
        assert await budget.spend(20)
    rights = await _rights(world)
    assert whole(rights.charged, rights.held) == [2 + 6 + 7 + 20, 6 + 7]
    async with world.table(HOME) as table:
        assert await table.budget("key/42").held(second.entry).settle(1)
    rights = await _rights(world)
    assert whole(rights.charged, rights.held) == [2 + 1 + 7 + 20, 7]


async def test_a_grant_that_is_closed_by_reading_says_it_too() -> None:
    """Its owner has crashed; of a hold that was settled nothing is held."""
    world = MemoryGlobalTable([HOME, WEST], budgets={"key/*": {}})
    async with world.table(HOME) as table:
        budget = table.budget("key/42")
        await budget.create(100)
        settled, _ = [await hold(budget, n) for n in (5, 7)]
        assert await settled.settle(2)
        world.crash(table)
    world.replicate()
    await world.pass_time(3_600)
    await world.compact()
    rights = await _rights(world)
    assert whole(rights.charged, rights.held) == [2 + 7, 7]
    assert rights.grants == {}


def test_what_was_spent_in_a_reclaimed_holder_is_what_it_had_and_was_not_minted() -> None:
    """With a hold that was open, and charged, before the loss: it is in neither twice."""
    gone = replace(rights_plan.create(AT_WEST, Decimal(60)), charged=Decimal(7), held=Decimal(7))
    home = replace(
        rights_plan.create(AT_HOME, Decimal(53)),
        cut={AT_WEST: ZERO},
        reclaimed={AT_WEST: Decimal(53)},
    )
    terms = make_settings().terms
    state = state_of(
        Window("b", "b"),
        {AT_WEST: gone, AT_HOME: home},
        target=None,
        terms=replace(terms, lost=(WEST,)),
        is_over=lambda _: False,
    )
    assert whole(state.limit, state.charged, state.free) == [60, 7, 53]


def test_a_recount_has_as_held_what_the_item_is_charged_for() -> None:
    """Not what was let through, nor under another's grant, and of a rolling limit nothing."""
    there = GrantName(AT_HOME, 2, "b")
    item = replace(rights_plan.create(AT_WEST, Decimal(50)), held=Decimal(9))
    settled = SpendRecord(
        "1", Decimal(2), (there,), 9, "settled", (GrantName(AT_WEST, 3, "b"),), Decimal(5)
    )
    after = counted_item(item, RestoredEntries([settled]), {}, "b", 0.0)
    assert after is not None
    assert whole(after.charged, after.held) == [-3, 9]
    through = SpendRecord("2", Decimal(4), (GrantName(AT_WEST, 0, "b"),), 9)
    noted = replace(item, version=4, resolved={"2": LateCharge(Decimal(-4), 0)})
    again = counted_item(noted, RestoredEntries([], [through]), {}, "b", 0.0)
    assert again is not None
    assert whole(again.charged, again.held) == [4, 9]
    rolling = rights_plan.create(AT_WEST, Decimal(50), bucket=3_600)
    unseen = SpendRecord("3", Decimal(4), (GrantName(AT_WEST, 2, "b"),), 9)
    counted = counted_item(rolling, RestoredEntries([unseen]), {}, "b", 0.0)
    assert counted is not None
    assert whole(counted.charged, counted.held) == [4, 0]
