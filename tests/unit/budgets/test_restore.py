"""Budgets counted anew after a restore: nothing that was spent or moved can be spent again."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.budgets import (
    AT_HOME,
    AT_SOUTH,
    AT_WEST,
    changed,
    granted,
    limited_settings,
    put_rights,
    regions_of,
    shown_rights,
    spend_item,
)
from support.compacting import World
from support.ledgers import HOME, WEST
from support.past_budgets import (
    BACK,
    EVENTS,
    LIMIT,
    WITH_CREDITS,
    ZERO,
    Event,
    Past,
    applied,
    closed,
    reclaimed,
)

from ledger.budgets import hold_rules, rights_plan
from ledger.budgets.grant_closing import RegionViews
from ledger.budgets.restore import RestoreView, look, restore_budget
from ledger.budgets.restore_plan import RestoredEntries, counted_item, plan_restore, takers
from ledger.budgets.rights import GrantName, Holder, LateCharge, Rights
from ledger.budgets.spend_record import SpendRecord, spend_attributes
from ledger.core.amounts import EXACT, total_wide
from ledger.core.contract import Terms
from ledger.core.entry import Item, entry_id
from ledger.core.errors import BudgetUndecided, StateConflict
from ledger.store.reads import Get
from ledger.store.writes import Rejected
from ledger.testing.clock import START


async def count(world: World, made: dict[Holder, Rights | None] | None = None) -> dict[Holder, int]:
    """Count the budget anew; return what was charged, by holder, where anything was changed."""
    regions = regions_of(world)
    looked = await look(regions, None)
    found = await restore_budget(regions, "counter", looked.entries, made or {})
    world.regions.deliver()
    return {holder: int(done.charged) for holder, done in found.items()}


def restored(*, west: Rights | None = None) -> World:
    """Return a world of two regions' rights as a restore took them."""
    world = World()
    put_rights(world.regions, granted(AT_HOME, 10, at=START))
    put_rights(world.regions, west or granted(AT_WEST, at=START, minted=50))
    world.regions.deliver()
    return world


async def test_what_was_spent_under_later_grants_is_charged_once() -> None:
    """No new grant has the name of one that was used."""
    world = restored()
    west = shown_rights(world.regions, AT_WEST)
    names = (AT_WEST, west.version + 1), (AT_WEST, west.version + 4), (AT_HOME, 2)
    for number, (holder, version) in enumerate(names, start=3):
        at = START + timedelta(seconds=number)
        world.regions.put(WEST, spend_item(number, GrantName(holder, version), at=at))
    world.regions.deliver()
    assert await count(world) == {AT_WEST: 7}
    after = shown_rights(world.regions, AT_WEST)
    assert [after.charged, after.version] == [int(west.charged) + 7, west.version + 5]
    assert after.available == int(west.available) - 7
    assert await count(world) == {}


async def test_what_others_have_taken_is_sent() -> None:
    """Else both could spend it."""
    world = restored()
    home = changed(shown_rights(world.regions, AT_HOME), taken={AT_WEST: Decimal(5)})
    put_rights(world.regions, home)
    world.regions.deliver()
    assert await count(world) == {AT_WEST: 0}
    assert shown_rights(world.regions, AT_WEST).sent == {AT_HOME: Decimal(5)}
    assert await count(world) == {}


async def test_a_bundle_is_charged_to_each_budget_that_it_names() -> None:
    """Its entry is one, in another counter."""
    world = restored()
    name = GrantName(AT_WEST, 9, "counter")
    world.regions.put(WEST, spend_item(6, GrantName(AT_WEST, 3), name, at=START, counter="team"))
    world.regions.deliver()
    assert await count(world) == {AT_WEST: 6}


async def test_an_entry_that_two_regions_made_at_once_counts_under_either_grant() -> None:
    """By one key: each shows its own until replication decides, and either may stay."""
    world = restored()
    for region, holder in ((HOME, AT_HOME), (WEST, AT_WEST)):
        world.regions.put(region, spend_item(3, GrantName(holder, 9), at=START))
    spends = (await look(regions_of(world), None)).entries.spends
    assert {name.holder for spend in spends for name in spend.grants} == {AT_HOME, AT_WEST}


async def test_a_holder_without_an_item_makes_it() -> None:
    """With its share of the window, less what was spent of it."""
    world = restored()
    world.regions.put(HOME, spend_item(6, GrantName(AT_SOUTH, 2), at=START))
    world.regions.deliver()
    share = rights_plan.create(AT_SOUTH, Decimal(20))
    assert await count(world, {AT_SOUTH: share}) == {AT_SOUTH: 6}
    made = shown_rights(world.regions, AT_SOUTH)
    assert [made.minted, made.charged, made.version] == [20, 6, 3]


@pytest.mark.parametrize("by", ["entry", "taker"])
async def test_a_share_that_is_not_decided_is_not_left_out(by: str) -> None:
    """An item made without it could never have it; what was spent of it is not free."""
    world = restored()
    if by == "taker":
        home = shown_rights(world.regions, AT_HOME)
        put_rights(world.regions, changed(home, taken={AT_SOUTH: Decimal(5)}))
    else:
        world.regions.put(HOME, spend_item(6, GrantName(AT_SOUTH, 2), at=START))
    world.regions.deliver()
    with pytest.raises(BudgetUndecided, match=r"ap-southeast-2.*`ledger budget confirm`, then run"):
        await count(world, {AT_SOUTH: None})


async def test_one_that_is_not_decided_and_not_spent_of_waits_for_nothing() -> None:
    """Whoever spends makes it once that is in force."""
    assert await count(restored(), {AT_SOUTH: None}) == {}


async def test_a_holder_that_nothing_but_entries_name_is_counted() -> None:
    """As one of a region that is written no more; what it had was another's."""
    world = restored()
    world.regions.put(HOME, spend_item(6, GrantName(AT_SOUTH, 2), at=START))
    world.regions.deliver()
    assert await count(world) == {AT_WEST: 0, AT_SOUTH: 6}
    assert shown_rights(world.regions, AT_SOUTH).available == 0


async def test_nobody_may_write_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was counted is not what there is."""
    world = restored()
    world.regions.put(WEST, spend_item(3, GrantName(AT_WEST, 9), at=START))
    world.regions.deliver()

    async def raced(_: object) -> Rejected:
        return Rejected("condition")

    monkeypatch.setattr(world.regions.replicas[WEST], "write", raced)
    with pytest.raises(StateConflict, match="nobody may spend before all is counted"):
        await count(world)


async def test_a_grant_that_was_topped_up_has_what_was_spent_under_it() -> None:
    """The item shows it as it was made: what it had more would be free."""
    world = restored()
    [version] = shown_rights(world.regions, AT_HOME).grants
    for number in (7, 8):
        at = START + timedelta(seconds=number)
        world.regions.put(HOME, spend_item(number, GrantName(AT_HOME, version), at=at))
    world.regions.deliver()
    assert await count(world) == {AT_HOME: 5}
    assert shown_rights(world.regions, AT_HOME).grants[version].amount == 15
    assert await count(world) == {}


async def test_what_was_taken_and_is_shown_nowhere_is_not_free_elsewhere() -> None:
    """West spent 80 of its 50: home's 30, of which no item says that they moved."""
    world = restored()
    put_rights(world.regions, granted(AT_HOME, 10, at=START, minted=100))
    world.regions.put(WEST, spend_item(80, GrantName(AT_WEST, 9), at=START))
    world.regions.deliver()
    found = await count(world)
    assert found == {AT_HOME: 0, AT_WEST: 80}
    home, west = (shown_rights(world.regions, holder) for holder in (AT_HOME, AT_WEST))
    assert [home.sent, west.taken] == [{AT_WEST: Decimal(30)}, {AT_HOME: Decimal(30)}]
    assert [home.available, west.available] == [60, 0]
    assert await count(world) == {}


async def test_a_count_that_ends_between_two_items_is_finished_by_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The debtor's comes last; what was sent to it is in flight, and is not sent again."""
    world = restored()
    put_rights(world.regions, granted(AT_HOME, 10, at=START, minted=100))
    world.regions.put(WEST, spend_item(80, GrantName(AT_WEST, 9), at=START))
    world.regions.deliver()

    async def fails(_: object) -> Rejected:
        return Rejected("condition")

    with monkeypatch.context() as patched:
        patched.setattr(world.regions.replicas[WEST], "write", fails)
        with pytest.raises(StateConflict, match="eu-west-1"):
            await count(world)
    world.regions.deliver()
    assert shown_rights(world.regions, AT_HOME).sent == {AT_WEST: Decimal(30)}
    assert await count(world) == {AT_WEST: 80}
    home, west = (shown_rights(world.regions, holder) for holder in (AT_HOME, AT_WEST))
    assert [home.available, west.available] == [60, 0]


def test_a_hold_that_was_charged_apart_later_counts() -> None:
    """Its grant was closed before; what it came to more is in a version that is not there."""
    item = replace(granted(AT_WEST, at=START, minted=50), charged=Decimal(4), version=7)
    settled = SpendRecord("id", Decimal(6), (GrantName(AT_WEST, 3, "b"),), 1, "settled")
    later = replace(settled, adjusted=(GrantName(AT_WEST, 8, "b"),))
    assert counted_item(item, RestoredEntries([settled]), {}, "b", 0.0) is None
    after = counted_item(item, RestoredEntries([later]), {}, "b", 0.0)
    assert after is not None
    assert [after.charged, after.version] == [10, 8]


def test_what_is_on_its_way_stays_sent() -> None:
    """The taker shows less than was sent to it: that is no reason to take it back."""
    item = replace(rights_plan.create(AT_HOME, Decimal(50)), sent={AT_WEST: Decimal(7)})
    assert counted_item(item, RestoredEntries([]), {AT_WEST: Decimal(4)}, "b", 0.0) is None
    after = counted_item(item, RestoredEntries([]), {AT_WEST: Decimal(9)}, "b", 0.0)
    assert after is not None
    assert after.sent == {AT_WEST: 9}


def test_a_name_that_was_used_is_not_used_again_though_nothing_is_missing() -> None:
    """The hold's difference is found by what closes its grant, which is open."""
    item = granted(AT_WEST, 10, at=START, minted=50)
    [version] = item.grants
    names = GrantName(AT_WEST, version, "b"), GrantName(AT_WEST, 7, "b")
    settled = SpendRecord("id", Decimal(6), names[:1], 1, "settled", names[1:])
    after = counted_item(item, RestoredEntries([settled]), {}, "b", 0.0)
    assert after == replace(item, version=7)


def test_of_a_rolling_limit_what_was_missing_comes_back_from_now_on() -> None:
    """When it was spent is not known: it is not to come back too early."""
    item = rights_plan.create(AT_WEST, Decimal(50), bucket=60)
    spend = SpendRecord("id", Decimal(6), (GrantName(AT_WEST, 5, "b"),))
    [after] = plan_restore({AT_WEST: item}, RestoredEntries([spend]), {}, "b", 6_000.0)
    assert [after.charged, after.buckets] == [6, {100: 6}]


async def test_what_names_other_budgets_or_lost_regions_is_not_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The one is counted with its own, the other by a reclaim."""
    world = restored()
    names = GrantName(AT_WEST, 3, "team"), GrantName(AT_SOUTH, 9)
    for number, name in enumerate(names, start=5):
        at = START + timedelta(seconds=number)
        world.regions.put(WEST, spend_item(number, name, at=at))
    world.regions.deliver()

    def is_over(_: Terms, region: str, epoch: int) -> bool:
        return (region, epoch) == (AT_SOUTH.region, AT_SOUTH.epoch)

    monkeypatch.setattr(Terms, "is_over", is_over)
    assert await count(world) == {}


async def test_what_a_lost_region_alone_spent_is_no_budget_to_be_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a budget would be reported as counted of which nothing is."""
    world = World()
    world.regions.put(WEST, spend_item(5, GrantName(AT_SOUTH, 9), at=START))
    world.regions.deliver()
    monkeypatch.setattr(RegionViews, "keeps", lambda _, holder: holder != AT_SOUTH)
    assert await look(regions_of(world), None) == RestoreView([], [], RestoredEntries([], []))


async def test_a_charge_apart_is_found_by_the_entry_that_names_it() -> None:
    """Its grant is closed in the item, and the version that charged it is not there."""
    world = restored()
    west = shown_rights(world.regions, AT_WEST)
    closed, later = GrantName(AT_WEST, 1), GrantName(AT_WEST, west.version + 1)
    item = spend_item(5, closed, at=START, hold=60)
    settled = SpendRecord(item["sk"]["S"], Decimal(5), (closed,), 60, "settled", (later,))
    world.regions.put(WEST, {**item, **spend_attributes(settled)})
    world.regions.deliver()
    assert await count(world) == {AT_WEST: 5}


def test_names_of_other_budgets_say_nothing_of_this_one() -> None:
    """The entry of a bundle names a grant of each."""
    item = granted(AT_WEST, 10, at=START, minted=50)
    [version] = item.grants
    others = GrantName(AT_WEST, 9, "c"), GrantName(AT_WEST, version, "c")
    closed, later = GrantName(AT_WEST, 1, "b"), GrantName(AT_WEST, 9, "b")
    assert (
        counted_item(
            item,
            RestoredEntries([SpendRecord("id", Decimal(6), (closed, others[0]))]),
            {},
            "b",
            0.0,
        )
        is None
    )
    after = counted_item(
        item, RestoredEntries([SpendRecord("id", Decimal(6), (later, others[1]))]), {}, "b", 0.0
    )
    assert after is not None
    assert [after.charged, after.version] == [6, 9]


def owing(amount: int, *, is_known: bool) -> tuple[Rights, list[SpendRecord]]:
    """Return west's item, which spent so much of its 50, with what it does not know of that."""
    item = rights_plan.create(AT_WEST, Decimal(50))
    if is_known:
        return replace(item, charged=Decimal(amount)), []
    return item, [SpendRecord("id", Decimal(amount), (GrantName(AT_WEST, 9, "b"),))]


@pytest.mark.parametrize("is_known", [False, True])
def test_what_is_granted_elsewhere_is_sent_if_nobody_can_spend_it(*, is_known: bool) -> None:
    """Where something was missing the table was restored: of its grants nothing is under way."""
    home = granted(AT_HOME, 90, at=START)
    west, spends = owing(80, is_known=is_known)
    home_after, west_after = plan_restore(
        {AT_HOME: home, AT_WEST: west}, RestoredEntries(spends), {}, "b", 0.0
    )
    assert home_after.sent == {AT_WEST: 10 if is_known else 30}
    assert west_after.taken == {AT_HOME: 10 if is_known else 30}


def test_what_a_third_sent_is_taken_up_to_be_sent_on() -> None:
    """It is nobody's until then."""
    home = replace(rights_plan.create(AT_HOME, Decimal(30)), sent={AT_SOUTH: Decimal(30)})
    west, spends = owing(70, is_known=False)
    items = {AT_HOME: home, AT_SOUTH: rights_plan.create(AT_SOUTH, ZERO), AT_WEST: west}
    south_after, west_after = plan_restore(items, RestoredEntries(spends), {}, "b", 0.0)
    assert [south_after.taken, south_after.sent] == [{AT_HOME: 30}, {AT_WEST: 20}]
    assert west_after.taken == {AT_SOUTH: 20}


def test_nothing_moves_to_or_from_a_holder_that_was_cut_off() -> None:
    """It was lost: a reclaim has counted it."""
    west, spends = owing(80, is_known=False)
    home = rights_plan.create(AT_HOME, Decimal(100))
    cut = replace(home, cut={AT_WEST: ZERO})
    assert [
        one.holder
        for one in plan_restore(
            {AT_HOME: cut, AT_WEST: west}, RestoredEntries(spends), {}, "b", 0.0
        )
    ] == [AT_WEST]
    off = replace(west, cut={AT_HOME: ZERO})
    given = replace(home, sent={AT_WEST: Decimal(40)})
    [after] = plan_restore({AT_HOME: given, AT_WEST: off}, RestoredEntries(spends), {}, "b", 0.0)
    assert after.taken == {}


async def test_a_holder_of_which_others_took_is_made() -> None:
    """It has no item, and nothing was spent of it: it has sent what it does not show."""
    world = restored()
    put_rights(
        world.regions, changed(shown_rights(world.regions, AT_HOME), taken={AT_SOUTH: Decimal(5)})
    )
    world.regions.deliver()
    assert AT_SOUTH in await count(world)
    assert shown_rights(world.regions, AT_SOUTH).sent == {AT_HOME: 5}


@pytest.mark.parametrize(("age", "is_counted"), [(0, True), (602, True), (603, False)])
async def test_rights_of_windows_that_can_be_spent_from_are_counted(
    age: int, *, is_counted: bool
) -> None:
    """Their transfers may be restored by half; of what has ended nobody spends.

    By a clock that is behind a window ends later, and this one may be ahead.
    """
    world = World()
    rule = {"counter": {"window": "hour", "late": 600}}
    terms = limited_settings().replace(budgets=rule).terms
    ends = START.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    counter = f"counter@{START:%Y-%m-%dT%H}Z"
    put_rights(world.regions, rights_plan.create(AT_HOME, Decimal(5)), counter)
    world.regions.deliver()
    await world.clock.advance((ends - world.clock.now()).total_seconds() + age)
    looked = await look(RegionViews(world.regions.replicas, terms, world.clock), None)
    assert [window.counter for window in looked.windows] == [counter] * is_counted
    assert looked.budgets == ["counter"]


async def test_the_item_of_a_lost_region_is_left_to_its_reclaim(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody writes it but that: what others have taken of it counts there."""
    world = restored()
    put_rights(world.regions, granted(AT_SOUTH, at=START, minted=50))
    home = changed(shown_rights(world.regions, AT_HOME), taken={AT_SOUTH: Decimal(5)})
    put_rights(world.regions, home)
    world.regions.deliver()
    monkeypatch.setattr(RegionViews, "keeps", lambda _, holder: holder != AT_SOUTH)
    assert await count(world) == {}


@pytest.mark.parametrize(("actual", "returned"), [(1, -4), (7, 0)])
@pytest.mark.parametrize("age", [60, 3_600])
def test_of_a_rolling_limit_a_hold_is_resolved_once_more_as_before(
    actual: int, returned: int, age: float
) -> None:
    """What had left the window gave nothing back, and gives nothing back again."""
    made = START.timestamp()
    entry, name = str(entry_id(START, 1)), GrantName(AT_WEST, 2, "b")
    hold = SpendRecord(entry, Decimal(5), (name,), hold=1)
    buckets = {int(made // 60): Decimal(5)}
    rights = Rights(AT_WEST, 5, Decimal(50), charged=Decimal(5), bucket=60, buckets=buckets)
    settled = hold_rules.settle(hold, Decimal(actual))
    apart = hold_rules.charge_apart(settled, {"b": rights}, now=made + age)
    assert isinstance(apart, hold_rules.SeparateCharge)
    [item] = apart.items
    assert item.returned == (returned if age == 3_600 else 0)
    [again] = plan_restore({AT_WEST: item}, RestoredEntries([], [hold]), {}, "b", made + age + 600)
    assert [again.charged, again.returned, again.available] == [5, 0, 45]
    [late] = plan_restore(
        {AT_WEST: rights}, RestoredEntries([apart.resolved.after]), {}, "b", made + age
    )
    assert [late.charged, late.returned] == [item.charged, item.returned]


def test_of_a_rolling_limit_a_hold_of_an_open_grant_had_given_nothing_back() -> None:
    """So nothing is taken back but what it came to less: others' charges come back as before."""
    made = START.timestamp()
    name, now = GrantName(AT_WEST, 2, "b"), made + 3_600
    hold = SpendRecord(str(entry_id(START, 1)), Decimal(5), (name,), hold=1)
    rights = replace(
        granted(AT_WEST, 5, at=START, minted=50),
        bucket=60,
        charged=Decimal(9),
        buckets={int(now // 60): Decimal(9)},
    )
    apart = hold_rules.charge_apart(hold_rules.settle(hold, Decimal(1)), {"b": rights}, now=now)
    assert isinstance(apart, hold_rules.SeparateCharge)
    [again] = plan_restore({AT_WEST: apart.items[0]}, RestoredEntries([], [hold]), {}, "b", now)
    assert [again.available, again.returned] == [rights.available, 0]
    assert again.buckets == rights.buckets


def test_what_is_of_the_next_version_is_missing_beside_a_hold_that_is_open_again() -> None:
    """Both of one item: the hold is as it was held, and what was spent later is charged."""
    void = {"held": LateCharge(Decimal(-6), 0)}
    item = replace(rights_plan.create(AT_WEST, Decimal(50)), version=4, resolved=void)
    hold = SpendRecord("held", Decimal(6), (GrantName(AT_WEST, 2, "b"),), hold=1)
    later = SpendRecord("later", Decimal(3), (GrantName(AT_WEST, 5, "b"),))
    after = counted_item(item, RestoredEntries([later], [hold]), {}, "b", 0.0)
    assert after is not None
    assert [after.charged, after.version] == [9, 5]


def test_what_the_item_itself_names_is_charged_there() -> None:
    """Of an entry that another budget's item does not know: this one's has its version."""
    names = GrantName(AT_WEST, 2, "b"), GrantName(AT_WEST, 2, "c")
    adjusted = GrantName(AT_WEST, 7, "b"), GrantName(AT_WEST, 7, "c")
    settled = SpendRecord("id", Decimal(8), names, 1, "settled", adjusted, Decimal(5))
    item = replace(rights_plan.create(AT_WEST, Decimal(50)), charged=Decimal(8), version=7)
    assert counted_item(item, RestoredEntries([settled]), {}, "b", 0.0) is None
    older = replace(rights_plan.create(AT_WEST, Decimal(50)), version=1)
    after = counted_item(older, RestoredEntries([settled]), {}, "c", 0.0)
    assert after is not None
    assert [after.charged, after.version] == [8, 7]


def test_what_is_on_its_way_to_who_owes_nothing_is_not_taken_up() -> None:
    """It does so itself; nothing was missing."""
    home = replace(rights_plan.create(AT_HOME, Decimal(50)), sent={AT_WEST: Decimal(5)})
    items = {AT_HOME: home, AT_WEST: rights_plan.create(AT_WEST, ZERO)}
    assert plan_restore(items, RestoredEntries([]), {}, "b", 0.0) == []


async def test_an_entry_of_the_version_that_is_there_is_not_missing() -> None:
    """The item was written with it: there is nothing to be counted."""
    world = World()
    put_rights(world.regions, replace(rights_plan.create(AT_WEST, Decimal(50)), version=4))
    for version in (4, 5):
        at = START + timedelta(seconds=version)
        world.regions.put(WEST, spend_item(version, GrantName(AT_WEST, version), at=at))
    world.regions.deliver()
    looked = await look(regions_of(world), None)
    assert [spend.amount for spend in looked.entries.spends] == [5]


def test_nothing_is_written_of_who_has_nothing_to_send() -> None:
    """It is as it was."""
    west, spends = owing(80, is_known=False)
    items = {AT_HOME: rights_plan.create(AT_HOME, ZERO), AT_WEST: west}
    assert [one.holder for one in plan_restore(items, RestoredEntries(spends), {}, "b", 0.0)] == [
        AT_WEST
    ]


def test_a_holder_without_an_item_is_charged_what_another_s_hold_came_to_more() -> None:
    """What was held is charged under the other's grant."""
    there, here = GrantName(AT_WEST, 2, "b"), GrantName(AT_HOME, 1, "b")
    settled = SpendRecord("id", Decimal(8), (there,), 1, "settled", (here,), Decimal(5))
    after = counted_item(Rights(AT_HOME), RestoredEntries([settled]), {}, "b", 0.0)
    assert after is not None
    assert [after.charged, after.version] == [3, 1]


def reopened(*, age: float = 0, counter: str = "counter") -> World:
    """Return a world in which the west's item has a hold of 6 as voided, and its entry is open."""
    world = World()
    made = START - timedelta(seconds=age)
    held = spend_item(6, GrantName(AT_WEST, 2, counter), at=made, hold=9_999_999_999)
    void = {held["sk"]["S"]: LateCharge(Decimal(-6), int(made.timestamp()))}
    rights = replace(rights_plan.create(AT_WEST, Decimal(50)), version=4, resolved=void)
    put_rights(world.regions, rights, counter)
    world.regions.put(WEST, held)
    world.regions.deliver()
    return world


async def test_a_region_that_has_not_got_a_resolution_reopens_nothing() -> None:
    """The table is at work: the region that it was made in has the entry as resolved."""
    world = reopened()
    regions = regions_of(world)
    looked = await look(regions, None)
    [hold] = looked.entries.reopened
    item = spend_item(6, GrantName(AT_WEST, 2), at=START, hold=hold.hold)
    world.regions.put(WEST, {**item, **spend_attributes(replace(hold, resolved="void"))})
    assert (await look(regions, None)).entries.reopened == []


async def test_a_hold_that_is_resolved_while_it_is_looked_at_is_not_reopened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was read before its item was: the table is at work."""
    world = reopened()
    regions = regions_of(world)
    [hold] = (await look(regions, None)).entries.reopened
    item = spend_item(6, GrantName(AT_WEST, 2), at=START, hold=hold.hold)
    store = regions.stores[WEST]
    get = store.get

    async def late(one: Get) -> Item | None:
        world.regions.put(WEST, {**item, **spend_attributes(replace(hold, resolved="void"))})
        return await get(one)

    monkeypatch.setattr(store, "get", late)
    assert (await look(regions, None)).entries.reopened == []


def test_what_home_was_charged_for_a_region_that_is_gone_was_not_held_by_it() -> None:
    """So it is not taken from what home's own holds keep."""
    hold = SpendRecord("id", Decimal(6), (GrantName(AT_SOUTH, 2, "b"),), hold=1)
    item = replace(
        rights_plan.create(AT_HOME, Decimal(50)),
        charged=Decimal(9),
        held=Decimal(7),
        resolved={"id": LateCharge(Decimal(-2), 0)},
    )
    after = counted_item(item, RestoredEntries([], [hold]), {}, "b", 0.0)
    assert after is not None
    assert [after.charged, after.held] == [11, 7]


async def test_of_one_budget_no_other_is_counted() -> None:
    """Though another's limit, or rights, lie with it."""
    rules = {name: {"window": "hour"} for name in ("counter", "other")}
    world = World()
    for name in rules:
        put_rights(world.regions, rights_plan.create(AT_WEST, Decimal(50)), name)
    world.regions.deliver()
    terms = limited_settings().replace(budgets=rules).terms
    looked = await look(RegionViews(world.regions.replicas, terms, world.clock), "counter")
    assert looked.budgets == ["counter"]


async def test_of_a_key_that_was_used_in_two_regions_the_other_copy_is_not_reopened() -> None:
    """It names grants of its own region, whose item knows nothing of the one that was voided."""
    world = reopened()
    put_rights(world.regions, granted(AT_HOME, 10, at=START))
    other = spend_item(6, GrantName(AT_HOME, 2), at=START, hold=9_999_999_999)
    world.regions.put(HOME, other)
    world.regions.deliver()
    assert (await look(regions_of(world), None)).entries.reopened == []


async def test_what_home_was_charged_for_a_region_that_is_gone_is_taken_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its holds are resolved by home's item, which names them, too."""
    world = reopened()
    gone = spend_item(6, GrantName(AT_SOUTH, 2), at=START, hold=9_999_999_999)
    world.regions.put(WEST, gone)
    world.regions.deliver()
    monkeypatch.setattr(RegionViews, "keeps", lambda _, holder: holder != AT_SOUTH)
    [hold] = (await look(regions_of(world), None)).entries.reopened
    assert hold.grants[0].holder == AT_SOUTH


async def test_a_window_that_ended_is_counted_for_a_hold_that_is_open_again() -> None:
    """It is resolved some time, and folded, whatever is spent from the window by then."""
    world = World()
    rule = {"counter": {"window": "hour", "late": 600}}
    terms = limited_settings().replace(budgets=rule).terms
    at = START - timedelta(hours=2)
    world = reopened(age=7_200, counter=f"counter@{at:%Y-%m-%dT%H}Z")
    looked = await look(RegionViews(world.regions.replicas, terms, world.clock), None)
    assert [window.counter for window in looked.windows] == [f"counter@{at:%Y-%m-%dT%H}Z"]
    assert [hold.amount for hold in looked.entries.reopened] == [6]


OLD, NEW = (9, 9, 9), (0, 0, 0)
HELD = [(0, "take", 9, 1), (0, "hold", 9, 1)]
CREDITED = [(0, "open", 1, 1), (0, "credit", 9, 1), (0, "take in", 1, 1)]


@pytest.mark.slow
@settings(max_examples=300)
@given(EVENTS | WITH_CREDITS, BACK, st.integers(0, 3), st.sets(st.integers(0, 9)))
@example([(0, "send", 5, 1), (1, "send", 1, 2)], OLD, 3, set())
@example([(0, "send", 9, 1), (1, "take", 29, 1), (1, "spend", 29, 1)], OLD, 3, set())
@example([(0, "take", 1, 1), (0, "top up", 9, 1), (0, "spend", 9, 1)], OLD, 3, set())
@example([*HELD, (0, "close", 1, 1), (0, "apart", 3, 1)], NEW, 3, {0})
@example([*HELD, (0, "apart", 3, 1)], NEW, 3, {0})
@example([*HELD, (0, "apart", 3, 1), (0, "close", 1, 2)], NEW, 3, {0})
@example([*HELD, (0, "settle", 3, 1), (0, "close", 1, 1)], NEW, 3, {0})
@example([*HELD, (0, "close", 1, 1), (0, "apart", 3, 1)], (1, 0, 0), 3, set())
@example([*CREDITED, (0, "send", 9, 1), (1, "take", 9, 1), (1, "spend", 9, 1)], OLD, 3, set())
@example([*CREDITED, (0, "credit", 4, 1), (0, "close", 1, 1)], (1, 0, 0), 3, set())
def test_whatever_items_were_restored_what_is_left_is_left(
    events: list[Event], back: tuple[int, int, int], written: int, open_still: set[int]
) -> None:
    """All entries are there, holds of some as they were made, and of each item any version.

    What can be spent is the limit less what the entries come to, and none of it is a debt; also if
    the count ended after some writes.
    """
    past = Past()
    for place, kind, amount, beside in events:
        past.happens(place, kind, Decimal(amount), beside)
    shown = {
        versions[0].holder: versions[max(0, len(versions) - 1 - n)]
        for versions, n in zip(past.items, back, strict=True)
    }
    spends = [
        versions[0 if place in open_still else -1] for place, versions in enumerate(past.entries)
    ]
    for item in counted(shown, spends)[:written]:
        shown[item.holder] = item
    for item in counted(shown, spends):
        shown[item.holder] = item
    assert counted(shown, spends) == []
    left = {holder: closed(item, spends).available for holder, item in shown.items()}
    under_way = total_wide(
        EXACT.subtract(item.sent.get(taker, ZERO), other.taken.get(giver, ZERO))
        for giver, item in shown.items()
        for taker, other in shown.items()
    )
    spent = (spend.amount for spend in spends)
    assert total_wide((*left.values(), under_way, *spent)) == 100
    assert under_way >= 0
    for gone in shown:  # after the restore
        assert EXACT.add(reclaimed(shown, spends, gone), applied(spends, gone)) == LIMIT
    for holder, free in left.items():
        item = shown[holder]
        arriving = [
            EXACT.subtract(other.sent.get(holder, ZERO), item.taken.get(giver, ZERO))
            for giver, other in shown.items()
        ]
        assert total_wide((free, *arriving)) >= 0


def counted(shown: dict[Holder, Rights], spends: list[SpendRecord]) -> list[Rights]:
    """Return what a count changes of these items."""
    noted = {entry for item in shown.values() for entry in item.resolved}
    reopened = [spend for spend in spends if spend.is_open_hold and spend.id in noted]
    return plan_restore(shown, RestoredEntries(spends, reopened), takers(shown), "b", 0.0)
