"""Grants that are over are closed by their entries; expired holds are resolved, once."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from support.budgets import (
    AT_HOME,
    AT_SOUTH,
    AT_WEST,
    LIFE,
    changed,
    granted,
    put_rights,
    regions_of,
    seconds,
    shown_rights,
    spend_item,
    whole,
)
from support.compacting import World
from support.ledgers import HOME, SOUTH, WEST

from ledger.budgets.grant_closing import (
    Reclaimed,
    RegionViews,
    charge_open,
    close_over,
    is_left_open,
    is_own_open,
    resolve_expired,
)
from ledger.budgets.limit_windows import BudgetLimit, LimitStep, limit_item
from ledger.budgets.rights import GrantName, Holder, LateCharge, Rights
from ledger.budgets.rights_plan import take
from ledger.budgets.spend_record import WAITING_MAX, spend_of
from ledger.core.clock_offset import ClockOffset
from ledger.core.contract import ShardRule
from ledger.core.entry import RESOLVED, Item, key_of
from ledger.core.errors import BudgetUndecided, DamagedItem, Unreachable
from ledger.store.reads import Get
from ledger.store.wrappers.faults import Fault, FaultCall, FaultyStore, Raises
from ledger.testing.clock import START
from ledger.testing.replicas import nothing

GRANT = GrantName(AT_HOME, 2)
LATE = LIFE + 1 + 1 + 1
"""After which a grant is over: its life, a signature's, the skew; and no offset is measured."""


async def begun(*amounts: int, spent: tuple[Item, ...] = ()) -> World:
    """Return a world with a budget at home that granted these amounts at the start."""
    world = World()
    put_rights(world.regions, granted(AT_HOME, *amounts, at=START))
    for item in spent:
        world.regions.put(HOME, item)
    world.regions.deliver()
    return world


async def closed(world: World, regions: RegionViews | None = None, **overrides: str) -> Reclaimed:
    """Close what is over of home's budget."""
    regions = regions or regions_of(world, **overrides)
    return await close_over(regions, "counter", shown_rights(world.regions, AT_HOME))


SPENT = spend_item(3, GRANT, at=START)
BACK = spend_item(-1, GRANT, at=START, suffix=2)


@pytest.mark.parametrize(("after", "is_over"), [(LATE, False), (LATE + 1, True)])
async def test_a_grant_is_closed_once_nothing_that_names_it_can_land(
    after: int, *, is_over: bool
) -> None:
    """Not at its expiry: a request signed just before it lands a signature's lifetime later."""
    world = await begun(10, spent=(SPENT, BACK))
    world.clock.pass_by(after)
    found = await closed(world)
    rights = shown_rights(world.regions, AT_HOME)
    assert [closing.charged for closing in found.closings] == ([Decimal(2)] if is_over else [])
    assert rights.charged == (2 if is_over else 0)
    assert (2 in rights.grants) == (not is_over)
    assert rights.available == (98 if is_over else 90)
    assert found.rights == rights


async def test_over_is_what_the_regions_own_clock_says() -> None:
    """A machine that is ahead of it by 5 s at most waits 5 s longer."""
    world = await begun(10)
    world.regions.replicas[HOME].clock_offset = ClockOffset(0, 5)
    world.clock.pass_by(LATE - 1 + 5)
    assert not (await closed(world)).closings
    world.clock.pass_by(1)
    assert (await closed(world)).closings


async def test_what_regions_show_differently_waits() -> None:
    """Which of two grants one key was spent under is settled by the last writer, not by a guess."""
    world = await begun(10, spent=(SPENT,))
    world.regions.pause(HOME, SOUTH)
    world.regions.put(HOME, BACK)
    world.regions.deliver()
    world.clock.pass_by(LATE + 1)
    found = await closed(world)
    assert (found.closings, found.waiting, found.rights) == (
        (),
        1,
        shown_rights(world.regions, AT_HOME),
    )
    world.regions.heal()
    world.regions.deliver()
    assert [closing.charged for closing in (await closed(world)).closings] == [2]


def behind(world: World, decide: Callable[[str, FaultCall], Fault | None]) -> RegionViews:
    """Return regions of which each call is decided by its region."""
    stores = {
        region: FaultyStore(store, partial(decide, region), clock=world.clock)
        for region, store in world.regions.replicas.items()
    }
    regions = regions_of(world)
    return RegionViews(stores, regions.terms, regions.clock)


def without(world: World, away: str) -> RegionViews:
    """Return regions of which one cannot be read."""
    fault = Raises(Unreachable("gone"))
    return behind(world, lambda region, _call: fault if region == away else None)


async def test_a_region_that_cannot_be_read_does_not_agree() -> None:
    """Its own region must be read; without another the grant waits."""
    world = await begun(10, spent=(SPENT,))
    world.clock.pass_by(LATE + 1)
    found = await closed(world, without(world, WEST))
    assert (found.closings, found.waiting) == ((), 1)
    with pytest.raises(Unreachable):
        await closed(world, without(world, HOME))


async def test_of_many_that_wait_the_oldest_are_closed_by_their_own_region() -> None:
    """An item must not grow without bound while a region is away. Nothing is credited for it."""
    world = await begun(*[1] * (WAITING_MAX + 2))
    world.regions.isolate(SOUTH)
    world.regions.put(HOME, spend_item(-1, GrantName(AT_HOME, 2), at=START, suffix=99))
    for version in range(2, WAITING_MAX + 4):
        world.regions.put(
            HOME, spend_item(1, GrantName(AT_HOME, version), at=START, suffix=version)
        )
    world.regions.deliver()
    world.clock.pass_by(LATE + 1)
    found = await closed(world)
    assert [(closing.name.version, closing.is_agreed) for closing in found.closings] == [
        (2, False),
        (3, False),
    ]
    assert found.waiting == WAITING_MAX
    assert shown_rights(world.regions, AT_HOME).charged == 2


async def test_all_that_are_over_are_closed_in_one_write() -> None:
    """Each by its own entries; one that is not over stays open."""
    world = await begun(10, 20)
    later = take(
        shown_rights(world.regions, AT_HOME),
        Decimal(5),
        since=seconds(START) + LIFE,
        expires=seconds(START) + 2 * LIFE,
        token="later",
    )
    assert isinstance(later, Rights)
    put_rights(world.regions, later)
    world.regions.put(HOME, SPENT)
    world.regions.put(HOME, spend_item(7, GrantName(AT_HOME, 3), at=START, suffix=5))
    world.regions.deliver()
    world.clock.pass_by(LATE + 1)
    found = await closed(world)
    assert found.rights is not None
    assert found.rights.version == later.version + 1
    assert [closing.name.version for closing in found.closings] == [2, 3]
    assert whole(*(closing.charged for closing in found.closings)) == [3, 7]
    assert whole(found.rights.charged, *found.rights.grants) == [10, 4]


async def test_closing_again_changes_nothing() -> None:
    """What is closed is found closed."""
    world = await begun(10, spent=(SPENT,))
    world.clock.pass_by(LATE + 1)
    seen = shown_rights(world.regions, AT_HOME)
    await close_over(regions_of(world), "counter", seen)
    before = shown_rights(world.regions, AT_HOME)
    found = await close_over(regions_of(world), "counter", seen)
    assert (found.closings, found.rights) == ((), before)
    assert shown_rights(world.regions, AT_HOME) == before


async def test_a_reclaimer_that_froze_loses_by_the_version() -> None:
    """It read the entries before a hold was settled, or another closed the grant."""
    world = await begun(10, spent=(SPENT,))
    world.clock.pass_by(LATE + 1)

    async def another() -> None:
        world.regions.before_page = nothing
        await closed(world)

    world.regions.before_page = another
    found = await closed(world)
    rights = shown_rights(world.regions, AT_HOME)
    assert (found.rights, found.closings) == (None, ())
    assert whole(rights.version, rights.charged) == [3, 3]


async def test_entries_are_read_after_the_rights() -> None:
    """A request that lands between is seen: the item is read when none can land any more."""
    world = await begun(10)
    world.clock.pass_by(LATE + 1)
    calls: list[str] = []

    def note(region: str, call: FaultCall) -> None:
        if region == HOME:
            calls.append(call.operation)

    await closed(world, behind(world, note))
    assert calls == ["get", "query", "write"]


async def test_a_grant_that_was_used_twice_is_charged_and_told() -> None:
    """Two processes spent it: nothing is granted until that is paid off."""
    world = await begun(10, spent=(spend_item(15, GRANT, at=START),))
    world.clock.pass_by(LATE + 1)
    (closing,) = (await closed(world)).closings
    assert whole(closing.charged, closing.excess) == [15, 5]
    assert shown_rights(world.regions, AT_HOME).available == 85


async def test_a_grant_of_a_bundle_is_closed_by_the_narrow_counters_entries() -> None:
    """Where several limits pay for one entry it is in the counter of the narrowest."""
    world = World()
    put_rights(world.regions, granted(AT_HOME, 10, at=START, counter="counter"), "team")
    wide = GrantName(AT_HOME, 2, "team")
    world.regions.put(HOME, spend_item(4, GrantName(AT_HOME, 7), wide, at=START))
    world.regions.put(HOME, spend_item(5, GRANT, at=START, suffix=2, counter="team"))
    world.regions.deliver()
    world.clock.pass_by(LATE + 1)
    seen = shown_rights(world.regions, AT_HOME, counter="team")
    found = await close_over(regions_of(world), "team", seen)
    assert [closing.charged for closing in found.closings] == [4]


async def test_entries_of_every_shard_and_of_earlier_ids_are_found() -> None:
    """A change has its id before the grant that it is sent under, by the retry horizon at most."""
    early = spend_item(2, GRANT, at=START - timedelta(seconds=1), suffix=5)
    elsewhere = {**spend_item(4, GRANT, at=START, suffix=7), "pk": {"S": "~1~counter"}}
    world = await begun(10, spent=(SPENT, early, elsewhere))
    world.clock.pass_by(LATE + 1)
    regions = regions_of(world)
    sharded = replace(regions.terms, shards={"counter": (ShardRule(2),)})
    found = await closed(world, replace(regions, terms=sharded))
    assert [closing.charged for closing in found.closings] == [9]


async def test_entries_are_read_up_to_the_last_expiry_of_all_grants() -> None:
    """The one that was made last may be over first: the others were topped up."""
    world = await begun(10, 10)
    rights = shown_rights(world.regions, AT_HOME)
    longer = replace(rights.grants[2], expires=rights.grants[2].expires + LIFE)
    put_rights(world.regions, changed(rights, grants={**rights.grants, 2: longer}))
    late = spend_item(3, GRANT, at=START + timedelta(seconds=2 * LIFE))
    world.regions.put(HOME, late)
    world.regions.deliver()
    world.clock.pass_by(2 * LATE)
    assert [closing.charged for closing in (await closed(world)).closings] == [3, 0]


async def test_what_a_close_by_reading_charges_is_dated() -> None:
    """Of a rolling limit it comes back a window after that, not after the next write."""
    world = await begun(10, spent=(SPENT,))
    bucket = 3_600
    put_rights(world.regions, changed(shown_rights(world.regions, AT_HOME), bucket=bucket))
    world.clock.pass_by(LATE + 1)
    assert (await closed(world)).closings
    now = seconds(world.clock.now()) // bucket
    assert shown_rights(world.regions, AT_HOME).buckets == {now: 3}


async def test_an_entry_that_cannot_be_read_closes_nothing() -> None:
    """It may name the grant."""
    world = await begun(10, spent=({**SPENT, "grant": {"S": "nobody"}},))
    world.clock.pass_by(LATE + 1)
    with pytest.raises(DamagedItem, match="must name its grants"):
        await closed(world)


EXPIRY = seconds(START) + 30
HOLD = spend_item(6, GRANT, at=START, hold=EXPIRY)


async def resolved(world: World, item: Item = HOLD, *, on_expiry: str = "void") -> bool:
    """Resolve a hold if it is expired; return whether it was."""
    regions = regions_of(world, on_expiry=on_expiry)
    spend = spend_of(item)
    assert spend is not None
    assert is_own_open(regions, HOME, spend)
    return await resolve_expired(regions, key_of(item), spend) is not None


def shown(world: World) -> Item:
    """Return the hold as home shows it."""
    item = world.regions.replicas[HOME].table.get(key_of(HOLD))
    assert item is not None
    return item


async def test_a_hold_is_resolved_after_its_expiry_only() -> None:
    """By its region's clock; the skew counts where no offset is measured."""
    world = await begun(10, spent=(HOLD,))
    for after, is_resolved in ((31, False), (1, True)):
        world.clock.pass_by(after)
        assert await resolved(world) == is_resolved
        assert (RESOLVED in shown(world)) == is_resolved


@pytest.mark.parametrize(
    ("on_expiry", "change", "adjusted"), [("void", "0", -6), ("settle", "-6", 0)]
)
async def test_an_expired_hold_is_resolved_as_the_rule_says(
    on_expiry: str, change: str, adjusted: int
) -> None:
    """Void, or settled for what was held; the difference is kept apart while the grant is open."""
    world = await begun(10, spent=(HOLD,))
    world.clock.pass_by(40)
    assert await resolved(world, on_expiry=on_expiry)
    assert (shown(world)["change"], shown(world)[RESOLVED]) == ({"N": change}, {"S": "expired"})
    rights = shown_rights(world.regions, AT_HOME)
    assert rights.adjusted == {2: adjusted}
    assert rights.version == 3


async def test_an_expired_hold_is_voided_once() -> None:
    """However many saw it open, and whenever each comes."""
    world = await begun(10, spent=(HOLD,))
    world.clock.pass_by(40)
    assert [await resolved(world) for _ in range(3)] == [True, False, False]
    assert shown_rights(world.regions, AT_HOME).adjusted == {2: -6}


async def test_a_hold_of_a_closed_grant_is_credited_to_what_was_charged() -> None:
    """The close by reading charged it as held; then what was voided comes back."""
    world = await begun(10, spent=(HOLD,))
    world.clock.pass_by(LATE + 1)
    await closed(world)
    assert shown_rights(world.regions, AT_HOME).charged == 6
    assert await resolved(world)
    rights = shown_rights(world.regions, AT_HOME)
    assert whole(rights.charged, rights.available) == [0, 100]


async def test_a_hold_that_is_voided_before_the_close_is_not_credited_twice() -> None:
    """What was kept apart is not added to what the entries show."""
    world = await begun(10, spent=(HOLD,))
    world.clock.pass_by(LATE + 1)
    assert await resolved(world)
    world.regions.deliver()
    await closed(world)
    rights = shown_rights(world.regions, AT_HOME)
    assert whole(rights.charged, rights.available) == [0, 100]
    assert rights.adjusted == {}


@pytest.mark.parametrize(
    "change",
    [{"hold": {"N": str(EXPIRY + 999)}}, {RESOLVED: {"S": "settled"}, "change": {"N": "-1"}}, None],
    ids=["extended", "settled", "gone"],
)
async def test_a_hold_that_changed_since_is_left(change: Item | None) -> None:
    """Nothing of the transaction is applied."""
    world = await begun(10, spent=(HOLD,))
    world.clock.pass_by(40)
    now = None if change is None else {**HOLD, **change}
    world.regions.set(HOME, key_of(HOLD), now)
    before = shown_rights(world.regions, AT_HOME)
    assert not await resolved(world)
    assert shown_rights(world.regions, AT_HOME) == before
    assert world.regions.replicas[HOME].table.get(key_of(HOLD)) == now


async def test_a_hold_of_another_region_is_left_to_that() -> None:
    """Resolved through two regions it could be resolved twice."""
    world = await begun(10)
    other = spend_item(6, GrantName(AT_WEST, 2), at=START, hold=EXPIRY)
    spend = spend_of(other)
    assert spend is not None
    world.clock.pass_by(40)
    assert not is_own_open(regions_of(world), HOME, spend)
    assert is_own_open(regions_of(world), WEST, spend)
    over = regions_of(world)
    over = replace(over, terms=replace(over.terms, lost=(WEST,)))
    assert not is_own_open(over, WEST, spend)


def without_west(world: World) -> RegionViews:
    """Return the regions that remain once west is lost."""
    regions = regions_of(world)
    stores = {region: regions.stores[region] for region in (HOME, SOUTH)}
    terms = replace(regions.terms, regions=(HOME, SOUTH), lost=(WEST,))
    return RegionViews(stores, terms, regions.clock)


@pytest.mark.parametrize("is_reclaimed", [True, False])
async def test_a_hold_that_a_lost_region_left_is_charged_to_who_reclaimed_it(
    *, is_reclaimed: bool
) -> None:
    """Through home, and not before; it counted when the rights were minted again."""
    world = World()
    home = granted(AT_HOME, at=START)
    if is_reclaimed:
        home = changed(home, reclaimed={AT_WEST: Decimal(3)}, cut={AT_WEST: Decimal(0)})
    put_rights(world.regions, home)
    left = spend_item(6, GrantName(AT_WEST, 2), at=START, hold=EXPIRY)
    world.regions.put(HOME, left)
    world.clock.pass_by(40)
    regions = without_west(world)
    spend = spend_of(left)
    assert spend is not None
    assert is_left_open(regions, spend)
    assert not is_own_open(regions, HOME, spend)
    found = await resolve_expired(regions, key_of(left), spend)
    assert (found is not None) == is_reclaimed
    assert shown_rights(world.regions, AT_HOME).available == (106 if is_reclaimed else 100)


def minted_at_south(*, home: Rights | None = None, **fields: object) -> World:
    """Return a world in which south, no home, minted again what west had, and a hold of west."""
    world = World()
    reclaimed: dict[str, Any] = {"reclaimed": {AT_WEST: Decimal(3)}, "cut": {AT_WEST: Decimal(0)}}
    put_rights(world.regions, changed(granted(AT_SOUTH, at=START), **reclaimed, **fields))
    put_rights(world.regions, home or granted(AT_HOME, at=START))
    step = LimitStep.of(100, {AT_HOME: 1})
    world.regions.put(HOME, limit_item(BudgetLimit(1, (step,)), "counter"))
    world.regions.put(HOME, LEFT)
    world.regions.deliver()
    world.clock.pass_by(40)
    return world


LEFT = spend_item(6, GrantName(AT_WEST, 2), at=START, hold=EXPIRY)


async def test_whoever_minted_again_what_a_lost_region_had_its_holds_are_charged_at_home() -> None:
    """Home may have moved since, or have had no item then: nobody else resolves them."""
    world = minted_at_south()
    regions, spend = without_west(world), spend_of(LEFT)
    assert spend is not None
    assert await resolve_expired(regions, key_of(LEFT), spend)
    assert shown_rights(world.regions, AT_HOME).available == 106
    assert shown_rights(world.regions, AT_SOUTH).available == 100


async def test_holds_of_a_lost_region_are_charged_to_home_of_this_epoch() -> None:
    """Its earlier item is written by nobody."""
    world = minted_at_south()
    again = Holder(HOME, 2)
    put_rights(world.regions, granted(again, at=START))
    regions, spend = without_west(world), spend_of(LEFT)
    regions = replace(regions, terms=replace(regions.terms, lost=(HOME, WEST)))
    assert spend is not None
    assert await resolve_expired(regions, key_of(LEFT), spend)
    assert shown_rights(world.regions, again).available == 106


async def test_holds_of_a_lost_region_wait_until_home_s_share_is_decided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is written meanwhile, and nothing fails."""

    async def undecided(*_: object, **__: object) -> None:
        raise BudgetUndecided("a step of the limit is announced")

    world = minted_at_south()
    regions, spend = without_west(world), spend_of(LEFT)
    assert spend is not None
    monkeypatch.setattr("ledger.budgets.grant_closing.item_to_charge", undecided)
    assert await resolve_expired(regions, key_of(LEFT), spend) is None
    assert shown_rights(world.regions, AT_HOME).available == 100


async def test_home_s_item_is_made_for_the_holds_of_a_lost_region() -> None:
    """It never spent of the budget."""
    world = minted_at_south()
    world.regions.set(HOME, ("~budget~counter", AT_HOME.sort_key), None)
    regions, spend = without_west(world), spend_of(LEFT)
    assert spend is not None
    assert await resolve_expired(regions, key_of(LEFT), spend)
    made = shown_rights(world.regions, AT_HOME)
    assert whole(made.minted, made.charged, made.version) == [0, -6, 2]


@pytest.mark.parametrize("is_minted", [True, False])
async def test_what_a_region_minted_again_that_is_lost_since_counts_once_that_is(
    *, is_minted: bool
) -> None:
    """Until then what it had minted may be spent, and nobody has seen that."""
    home = granted(AT_HOME, at=START)
    if is_minted:
        home = changed(home, reclaimed={AT_SOUTH: Decimal(103)}, cut={AT_SOUTH: Decimal(0)})
    world = minted_at_south(home=home)
    regions, spend = without_west(world), spend_of(LEFT)
    terms = replace(regions.terms, regions=(HOME,), lost=(WEST, SOUTH))
    alone = RegionViews({HOME: regions.stores[HOME]}, terms, regions.clock)
    assert spend is not None
    found = await resolve_expired(alone, key_of(LEFT), spend)
    assert (found is not None) == is_minted


async def test_a_hold_that_a_region_lost_since_has_charged_is_not_charged_again() -> None:
    """Its item arrived, and the entry as it resolved it did not."""
    late = {LEFT["sk"]["S"]: LateCharge(Decimal(-6), 0)}
    world = minted_at_south(resolved=late)
    spend = spend_of(LEFT)
    assert spend is not None
    assert await resolve_expired(without_west(world), key_of(LEFT), spend) is None


@pytest.mark.parametrize("is_reclaimed", [True, False])
async def test_what_a_lost_region_let_through_is_charged_at_home(*, is_reclaimed: bool) -> None:
    """Reclaimed or not: it does not count when the rights are minted again."""
    world = World()
    home = granted(AT_HOME, at=START)
    if is_reclaimed:
        home = changed(home, reclaimed={AT_WEST: Decimal(3)}, cut={AT_WEST: Decimal(0)})
    put_rights(world.regions, home)
    left = spend_item(6, GrantName(AT_WEST, 0), at=START)
    world.regions.put(HOME, left)
    regions = without_west(world)
    spend = spend_of(left)
    assert spend is not None
    assert is_left_open(regions, spend)
    assert await charge_open(regions, {key_of(left): spend}) == 1
    assert await charge_open(regions, {key_of(left): spend}) == 0
    assert shown_rights(world.regions, AT_HOME).charged == 6


async def test_what_a_lost_region_let_through_is_charged_to_home_of_this_epoch() -> None:
    """One that was lost itself, and added again: its earlier item is written by nobody."""
    world = World()
    again = Holder(HOME, 2)
    put_rights(world.regions, granted(again, at=START))
    left = spend_item(6, GrantName(AT_WEST, 0), at=START)
    world.regions.put(HOME, left)
    regions = without_west(world)
    regions = replace(regions, terms=replace(regions.terms, lost=(HOME, WEST)))
    spend = spend_of(left)
    assert spend is not None
    assert await charge_open(regions, {key_of(left): spend}) == 1
    assert shown_rights(world.regions, again).charged == 6


async def test_a_hold_that_a_region_of_the_table_paid_for_too_is_not_left() -> None:
    """Resolved through home it would be charged there for what the other paid."""
    bundle = spend_item(6, GRANT, GrantName(AT_WEST, 2, "team"), at=START, hold=EXPIRY)
    spend = spend_of(bundle)
    assert spend is not None
    regions = regions_of(await begun(10))
    lost = replace(regions, terms=replace(regions.terms, lost=(WEST,)))
    assert not is_left_open(lost, spend)
    assert not is_own_open(lost, HOME, spend)


async def test_all_grants_of_a_hold_are_adjusted_together() -> None:
    """The key's and the team's, in one transaction with the entry."""
    world = await begun(10)
    put_rights(world.regions, granted(AT_HOME, 10, at=START, counter="counter"), "team")
    bundle = spend_item(6, GRANT, GrantName(AT_HOME, 2, "team"), at=START, hold=EXPIRY)
    world.regions.put(HOME, bundle)
    world.clock.pass_by(40)
    assert await resolved(world, bundle)
    for counter in ("counter", "team"):
        assert shown_rights(world.regions, AT_HOME, counter=counter).adjusted == {2: -6}


async def test_rights_that_change_meanwhile_leave_the_hold_open() -> None:
    """A reclaimer may have charged the hold as it was: the next call reads again."""
    world = await begun(10, spent=(HOLD,))
    world.clock.pass_by(40)
    regions = regions_of(world)
    spend = spend_of(HOLD)
    assert spend is not None
    plain = world.regions.replicas[HOME]
    read = plain.get

    async def racing(get: Get) -> Item | None:
        item = await read(get)
        put_rights(world.regions, changed(shown_rights(world.regions, AT_HOME)))
        return item

    plain.get = racing  # type: ignore[method-assign]
    assert await resolve_expired(regions, key_of(HOLD), spend) is None
    assert RESOLVED not in shown(world)


async def test_a_grant_of_another_budget_is_another_grant() -> None:
    """Both are named alike, each in the entries of its own counter."""
    world = await begun(10)
    rights = granted(AT_HOME, 10, 10, at=START)
    bundled = replace(rights.grants[3], counter="team")
    put_rights(world.regions, replace(rights, grants={**rights.grants, 3: bundled}))
    own, others = GrantName(AT_HOME, 2), GrantName(AT_HOME, 3, "counter")
    world.regions.put(HOME, spend_item(3, own, at=START))
    world.regions.put(HOME, spend_item(4, own, others, at=START, counter="team"))
    world.regions.deliver()
    world.clock.pass_by(LATE + 1)
    assert [closing.charged for closing in (await closed(world)).closings] == [3, 4]


@pytest.mark.parametrize("seconds_off", [-10_000, LIFE + 1])
async def test_entries_are_found_however_old_and_a_little_ahead(seconds_off: int) -> None:
    """Terms that allowed older ids may have changed; clocks may be set back before a request."""
    at = START + timedelta(seconds=seconds_off)
    world = await begun(10, spent=(spend_item(3, GRANT, at=at),))
    world.clock.pass_by(LATE + 1)
    assert [closing.charged for closing in (await closed(world)).closings] == [3]


async def test_what_was_let_through_is_charged_by_the_limit_that_home_shows() -> None:
    """Its region has none yet: it would be charged to none, for good."""
    world = World()
    put_rights(world.regions, granted(AT_HOME, at=START))
    limit = BudgetLimit(1, (LimitStep.of(100, {AT_HOME: 1}),))
    world.regions.put(HOME, limit_item(limit, "counter"))
    left = spend_item(6, GrantName(AT_WEST, 0), at=START)
    world.regions.put(WEST, left)
    spend = spend_of(left)
    assert spend is not None
    assert await charge_open(regions_of(world), {key_of(left): spend}) == 1
    assert shown_rights(world.regions, AT_WEST).charged == 6


async def test_entries_are_found_that_are_ahead_by_the_skew_of_two_clocks() -> None:
    """The id is by one that is ahead, and was sent by one that is behind."""
    at = START + timedelta(seconds=LIFE + 2)
    world = await begun(10, spent=(spend_item(3, GRANT, at=at),))
    world.clock.pass_by(LATE + 1)
    assert [closing.charged for closing in (await closed(world)).closings] == [3]


async def test_what_an_earlier_epoch_of_a_region_of_the_table_left_is_left_open() -> None:
    """The region was lost and added again: nobody writes its earlier items."""
    hold = spend_of(HOLD)
    assert hold is not None
    regions = regions_of(await begun(10))
    assert not is_left_open(regions, hold)
    again = replace(regions, terms=replace(regions.terms, lost=(HOME,)))
    assert is_left_open(again, hold)
    assert not is_own_open(again, HOME, hold)
