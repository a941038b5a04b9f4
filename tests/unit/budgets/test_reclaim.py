"""Rights of a lost region: nothing before its time, once, and never more than it had."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import anyio
import pytest
from support.budgets import (
    AT_HOME,
    AT_SOUTH,
    AT_WEST,
    changed,
    exactly,
    granted,
    put_rights,
    regions_of,
    shown_rights,
    spend_item,
    whole,
)
from support.compacting import World
from support.ledgers import HOME, SOUTH, WEST

from ledger.budgets.grant_closing import RegionViews
from ledger.budgets.lost_stake import ARRIVED_SECONDS, LostStake, cut_off, mint_again, stake_of
from ledger.budgets.reclaim import (
    is_all_reclaimed,
    lost_spends,
    reclaim_lost,
    stakes_of,
)
from ledger.budgets.rights import GrantName, Holder, Rights, rights_item, rights_of
from ledger.budgets.rights_plan import create, send, take_up
from ledger.budgets.rolling_limits import LASTING, roll_forward
from ledger.budgets.spend_record import SpendRecord
from ledger.core.budget_rules import BudgetRule
from ledger.core.contract import NO_HOME
from ledger.core.errors import ContractChangeRefused, InvalidInput, StoreError
from ledger.store.reads import Page, Query
from ledger.store.wrappers.forwarder import ForwardingStore
from ledger.store.writes import Outcome, Put, Write
from ledger.testing.clock import START

SENT = 30


def sent(rights: Rights, to: Holder, amount: int) -> Rights:
    """Return rights after an amount was sent."""
    found = send(rights, to, Decimal(amount))
    assert isinstance(found, Rights)
    return found


def took(rights: Rights, giver: Rights) -> Rights:
    """Return rights after what a giver shows was taken up."""
    found = take_up(rights, giver)
    assert found is not None
    return found


def world_of(*, arrived: bool = True) -> World:
    """Return a world in which home sent 30 to south, which granted 10 and spent 4 of them."""
    world = World()
    home = sent(granted(AT_HOME, at=START), AT_SOUTH, SENT)
    put_rights(world.regions, home)
    put_rights(world.regions, granted(AT_WEST, at=START, minted=0))
    world.regions.deliver()
    south = changed(granted(AT_SOUTH, 10, at=START, minted=SENT), taken={AT_HOME: Decimal(SENT)})
    south = replace(south, minted=Decimal(0))
    if not arrived:
        world.regions.isolate(SOUTH)
    put_rights(world.regions, south)
    world.regions.put(SOUTH, spend_item(4, GrantName(AT_SOUTH, 2), at=START))
    world.regions.deliver()
    world.regions.isolate(SOUTH)
    return world


def remaining(world: World, **terms: object) -> RegionViews:
    """Return the regions that remain, a day after south was given up."""
    world.clock.pass_by(ARRIVED_SECONDS + 3)
    regions = regions_of(world)
    stores = {region: regions.stores[region] for region in (HOME, WEST)}
    after = {
        "regions": (HOME, WEST),
        "lost": (SOUTH,),
        "given_up_at": START,
        "generation": 2,
        **terms,
    }
    return RegionViews(stores, replace(regions.terms, **after), regions.clock)  # type: ignore[arg-type]


async def reclaimed(world: World, regions: RegionViews, **options: Any) -> list[int]:
    """Reclaim what south had; return what was minted again, while replication delivers."""
    for _ in range(2):
        try:
            found = await reclaim_lost(regions, SOUTH, "counter", **options)
        except ContractChangeRefused:
            world.regions.deliver()
        else:
            world.regions.deliver()
            return whole(*(minted.amount for minted in found.values()))
    raise AssertionError("refused twice")


def spendable(world: World) -> int:
    """Return what home and west may still grant, with what they show as spent."""
    items = [shown_rights(world.regions, holder) for holder in (AT_HOME, AT_WEST)]
    entries = world.shown(HOME).entries.values()
    return sum(int(item.available) for item in items) - sum(map(int, entries))


async def test_what_a_lost_region_had_is_minted_again_once() -> None:
    """All that it did not spend, as far as anybody who remains can know; then never again."""
    world = world_of()
    regions = remaining(world)
    found = await stakes_of(regions, SOUTH, "counter")
    zero = Decimal(0)
    assert found == {
        AT_SOUTH: LostStake(
            minted=zero, sent=Decimal(30), taken=zero, charged=zero, entries=Decimal(4)
        )
    }
    assert AT_SOUTH not in shown_rights(world.regions, AT_HOME).cut
    assert await reclaimed(world, regions) == [26]
    assert spendable(world) == 100
    before = shown_rights(world.regions, AT_HOME)
    assert await reclaimed(world, regions) == []
    assert await stakes_of(regions, SOUTH, "counter") == {}
    assert shown_rights(world.regions, AT_HOME) == before
    assert before.reclaimed == {AT_SOUTH: Decimal(26)}


async def test_a_holder_that_nobody_ever_saw_had_what_was_sent_to_it() -> None:
    """Its item never arrived; nor did its entries."""
    world = world_of(arrived=False)
    assert await reclaimed(world, remaining(world)) == [SENT]
    assert spendable(world) == 100


async def test_a_holder_that_only_entries_name_owes_what_they_spent() -> None:
    """Of two regions that were lost: what the other had sent it nobody shows either."""
    world = World()
    put_rights(world.regions, granted(AT_HOME, at=START))
    world.regions.put(HOME, spend_item(60, GrantName(AT_SOUTH, 2), at=START))
    world.regions.deliver()
    regions = remaining(world)
    spends = await lost_spends(regions)
    assert not await is_all_reclaimed(regions, "counter", spends, None)
    assert (await stakes_of(regions, SOUTH, "counter"))[AT_SOUTH].amount == -60
    assert await reclaimed(world, regions) == [-60]
    assert shown_rights(world.regions, AT_HOME).available == 100 - 60
    assert await is_all_reclaimed(regions, "counter", spends, None)


async def test_a_holder_that_was_taken_from_owes_what_it_is_not_shown_to_have() -> None:
    """Its item never arrived: what it had is minted by the half of a change that did."""
    world = World()
    put_rights(world.regions, changed(granted(AT_HOME, at=START), taken={AT_SOUTH: Decimal(75)}))
    world.regions.deliver()
    regions = remaining(world)
    assert (await stakes_of(regions, SOUTH, "counter"))[AT_SOUTH].amount == -75
    assert await reclaimed(world, regions) == [-75]


async def test_a_share_of_a_window_may_have_been_made_unseen() -> None:
    """Made at most once, by the step in force, which all know."""
    world = world_of(arrived=False)
    found = await stakes_of(remaining(world), SOUTH, "counter", shares={AT_SOUTH: Decimal(7)})
    assert found[AT_SOUTH].amount == 37


@pytest.mark.parametrize("most", [0, 5])
async def test_less_is_reclaimed_if_more_is_owed(most: int) -> None:
    """What was acknowledged there and is owed all the same is not sold again: all of it, too."""
    world = world_of()
    assert await reclaimed(world, remaining(world), most=Decimal(most)) == [most]


async def test_no_more_is_reclaimed_than_there_was() -> None:
    """Whatever bound is said."""
    world = world_of()
    assert await reclaimed(world, remaining(world), most=Decimal(1_000)) == [SENT - 4]


async def test_nothing_is_minted_before_every_region_shows_the_cut() -> None:
    """Were another region lost then, what it had moved would be counted differently."""
    world = world_of()
    regions = remaining(world)
    world.regions.pause(HOME, WEST)
    for _ in range(2):
        with pytest.raises(ContractChangeRefused, match="does not show yet"):
            await reclaim_lost(regions, SOUTH, "counter")
        world.regions.deliver()
    assert not shown_rights(world.regions, AT_HOME).reclaimed
    world.regions.paused.discard((HOME, WEST))
    world.regions.deliver()
    assert await reclaimed(world, regions) == [26]


@pytest.mark.parametrize("knows", [HOME, WEST])
async def test_all_regions_show_the_newest_item_of_a_lost_one_in_the_end(knows: str) -> None:
    """What one alone had got is sent to the other by nobody else: limits would differ for good."""
    world = world_of()
    south = shown_rights(world.regions, AT_SOUTH)
    world.regions.heal()
    world.regions.pause(SOUTH, WEST if knows == HOME else HOME)
    put_rights(world.regions, changed(south, charged=Decimal(3)))
    world.regions.deliver()
    world.regions.isolate(SOUTH)
    assert await reclaimed(world, remaining(world)) == [23]
    shown = [shown_rights(world.regions, AT_SOUTH, by=region) for region in (HOME, WEST)]
    assert shown[0] == shown[1]
    assert [shown[0].version, shown[0].charged] == [south.version + 1, 3]


@pytest.mark.parametrize("knows", [HOME, WEST])
async def test_nothing_is_minted_before_every_region_shows_the_lost_item(knows: str) -> None:
    """Every region shows the cut, and one alone the newest item of the lost region."""
    world = world_of()
    for holder in (AT_HOME, AT_WEST):
        put_rights(world.regions, cut(shown_rights(world.regions, holder), AT_SOUTH))
    world.regions.deliver()
    world.regions.heal()
    world.regions.pause(SOUTH, WEST if knows == HOME else HOME)
    south = shown_rights(world.regions, AT_SOUTH)
    put_rights(world.regions, changed(south, charged=Decimal(3)))
    world.regions.deliver()
    world.regions.isolate(SOUTH)
    regions = remaining(world)
    with pytest.raises(ContractChangeRefused, match="not every region shows the last of"):
        await reclaim_lost(regions, SOUTH, "counter")
    assert not shown_rights(world.regions, AT_HOME).reclaimed
    world.regions.deliver()
    assert await reclaimed(world, regions) == [23]


async def test_nothing_is_minted_before_every_region_shows_the_item_that_cut() -> None:
    """A region that does not show it at all does not show the cut either."""
    world = World()
    world.regions.pause(HOME, WEST)
    put_rights(world.regions, sent(granted(AT_HOME, at=START), AT_SOUTH, SENT))
    put_rights(world.regions, granted(AT_WEST, at=START, minted=0))
    world.regions.deliver()
    world.regions.isolate(SOUTH)
    regions = remaining(world)
    for _ in range(3):
        with pytest.raises(ContractChangeRefused, match="does not show yet"):
            await reclaim_lost(regions, SOUTH, "counter")
        world.regions.deliver()
    assert not shown_rights(world.regions, AT_HOME).reclaimed


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"lost": (), "regions": (HOME, WEST, SOUTH)}, "must name ap-southeast-2 as lost"),
        ({"home": NO_HOME}, "must name ap-southeast-2 as lost"),
        ({"given_up_at": START + timedelta(seconds=2)}, "for a day after"),
        ({"given_up_at": None}, "does not say when"),
    ],
    ids=["not lost", "pending", "too early", "when is unknown"],
)
async def test_it_is_refused_before_its_time(terms: dict[str, object], message: str) -> None:
    """Nothing is written: what it had may still be spent, or arrive."""
    world = world_of()
    regions = remaining(world, **terms)
    before = shown_rights(world.regions, AT_HOME)
    for call in (stakes_of, reclaim_lost):
        with pytest.raises(ContractChangeRefused, match=message):
            await call(regions, SOUTH, "counter")
    assert shown_rights(world.regions, AT_HOME) == before


async def test_a_region_that_the_contract_does_not_know_is_no_lost_one() -> None:
    """Nor is there an advice for it."""
    with pytest.raises(InvalidInput, match=f"mars is not a region .* contract names {SOUTH}"):
        await stakes_of(remaining(world_of()), "mars", "counter")
    with pytest.raises(InvalidInput, match="the contract names none"):
        await stakes_of(remaining(world_of(), lost=()), "mars", "counter")


async def test_a_region_that_was_added_again_is_reclaimed_all_the_same() -> None:
    """Its holder of before is lost, its new one and the rights in it are not."""
    world = world_of()
    world.regions.heal()
    world.regions.deliver()
    again = Holder(SOUTH, 2)
    put_rights(world.regions, granted(again, at=START, minted=0))
    world.regions.deliver()
    regions = remaining(world, regions=(HOME, WEST, SOUTH))
    regions.stores[SOUTH] = regions_of(world).stores[SOUTH]  # type: ignore[index]
    world.regions.replicas[WEST].described = {SOUTH: "ACTIVE"}
    assert list(await stakes_of(regions, SOUTH, "counter")) == [AT_SOUTH]
    assert await reclaimed(world, regions) == [26]
    assert not shown_rights(world.regions, again).reclaimed


async def test_it_is_refused_while_a_region_lists_it() -> None:
    """What it still does would arrive."""
    world = world_of()
    world.regions.replicas[WEST].described = {SOUTH: "ACTIVE"}
    with pytest.raises(ContractChangeRefused, match=f"{WEST} still lists {SOUTH}"):
        await reclaim_lost(remaining(world), SOUTH, "counter")


async def test_entries_of_other_counters_count_where_a_bundle_paid() -> None:
    """The grant's own item need not have arrived: the table is searched for such entries."""
    world = World()
    put_rights(world.regions, sent(granted(AT_HOME, at=START), AT_SOUTH, SENT), "team")
    world.regions.put(
        WEST,
        spend_item(
            4, GrantName(AT_SOUTH, 9), GrantName(AT_SOUTH, 5, "team"), at=START, counter="key"
        ),
    )
    world.regions.deliver()
    world.regions.isolate(SOUTH)
    regions = remaining(world)
    assert (await stakes_of(regions, SOUTH, "team"))[AT_SOUTH].amount == SENT - 4


async def test_a_hold_whose_charge_did_not_arrive_counts() -> None:
    """It was settled for more, which the version of the item that arrived does not know."""
    world = World()
    put_rights(world.regions, sent(granted(AT_HOME, at=START), AT_SOUTH, SENT))
    south = changed(granted(AT_SOUTH, at=START, minted=SENT), charged=Decimal(4))
    put_rights(world.regions, replace(south, minted=Decimal(0), taken={AT_HOME: Decimal(SENT)}))
    hold = spend_item(9, GrantName(AT_SOUTH, 1), at=START, hold=1)
    later = {"L": [{"S": f"{AT_SOUTH}/{south.version + 1}"}]}
    world.regions.put(SOUTH, {**hold, "resolved": {"S": "settled"}, "adjusted": later})
    world.regions.deliver()
    world.regions.isolate(SOUTH)
    assert (await stakes_of(remaining(world), SOUTH, "counter"))[AT_SOUTH].entries == 9


@pytest.mark.parametrize("comes_to", [0, 1, 5])
async def test_a_hold_that_is_resolved_in_one_region_alone_is_waited_for(comes_to: int) -> None:
    """Charged as open, it would come to less by the entry that a pass brings to all."""
    world = world_of()
    hold = spend_item(5, GrantName(AT_SOUTH, 2), at=START, suffix=7, hold=1)
    world.regions.put(HOME, hold)  # as it arrived
    world.regions.deliver()
    resolved = {"change": {"N": str(-comes_to)}, "resolved": {"S": "settled"}}
    world.regions.put(HOME, {**hold, **resolved})  # it arrived at home alone
    regions = remaining(world)
    with pytest.raises(ContractChangeRefused, match="is resolved in one region and open in ano"):
        await reclaim_lost(regions, SOUTH, "counter")
    assert not shown_rights(world.regions, AT_HOME).cut
    world.regions.deliver()  # as a pass does
    assert await reclaimed(world, regions) == [SENT - 4 - comes_to]


async def test_a_hold_of_another_region_that_is_resolved_just_now_is_not_waited_for() -> None:
    """It is on its way, and of nothing that is minted again."""
    world = world_of()
    hold = spend_item(5, GrantName(AT_WEST, 2), at=START, suffix=7, hold=1)
    world.regions.put(HOME, hold)
    world.regions.deliver()
    world.regions.put(HOME, {**hold, "resolved": {"S": "void"}, "change": {"N": "0"}})
    assert await reclaimed(world, remaining(world)) == [SENT - 4]


async def test_a_hold_of_other_holders_is_not_waited_for() -> None:
    """Of a region that is lost, too, it is resolved before that one is reclaimed."""
    world = world_of()
    hold = SpendRecord("id", Decimal(5), (GrantName(AT_WEST, 2),), hold=1)
    spends = {"counter": [hold, replace(hold, resolved="void", amount=Decimal(0))]}
    assert await reclaimed(world, remaining(world), spends=spends) == [SENT]


async def test_an_item_that_its_region_writes_meanwhile_is_read_again() -> None:
    """The home region goes on spending."""
    world = world_of()
    regions = remaining(world)
    plain = world.regions.replicas[HOME]
    read, races = plain.get, 2

    async def racing(get: object) -> object:
        nonlocal races
        item = await read(get)  # type: ignore[arg-type]
        if races:
            races -= 1
            put_rights(world.regions, changed(shown_rights(world.regions, AT_HOME)))
        return item

    plain.get = racing  # type: ignore[method-assign, assignment]
    assert await reclaimed(world, regions) == [26]
    assert shown_rights(world.regions, AT_HOME).cut == {AT_SOUTH: Decimal(0)}


def cut(rights: Rights, lost: Holder) -> Rights:
    """Return rights that have cut a holder off."""
    found = cut_off(rights, lost)
    assert found is not None
    return found


def minted_for(rights: Rights, lost: Rights, others: Iterable[Rights]) -> Rights:
    """Return rights in which what a lost holder had is minted again."""
    found = mint_again(rights, lost.holder, stake_of(lost, others, ()).amount)
    assert found is not None
    return found


def moved_about() -> tuple[Rights, Rights, Rights]:
    """Return home, west and south of a limit of 100: south sent west 8, of which it took 5."""
    home = create(AT_HOME, Decimal(60))
    west, south = create(AT_WEST, Decimal(0)), sent(create(AT_SOUTH, Decimal(40)), AT_WEST, 5)
    west = took(west, south)
    return home, west, sent(south, AT_WEST, 3)


@pytest.mark.parametrize(
    "moves",
    [
        pytest.param(lambda home, west, south: (home, west, south), id="to the one lost later"),
        pytest.param(
            lambda home, west, south: (
                home,
                replace(south, holder=AT_WEST, sent={AT_SOUTH: Decimal(8)}),
                replace(west, holder=AT_SOUTH, taken={AT_WEST: Decimal(5)}),
            ),
            id="from the one lost later",
        ),
    ],
)
@pytest.mark.parametrize("order", ["one by one", "both before", "cut before, reclaimed after"])
def test_of_two_lost_regions_nothing_is_minted_twice(
    moves: Callable[[Rights, Rights, Rights], tuple[Rights, Rights, Rights]], order: str
) -> None:
    """What moved between them counts in both stakes, or in neither."""
    home, west, south = moves(*moved_about())
    if order == "one by one":
        home, west = cut(home, AT_SOUTH), cut(west, AT_SOUTH)
        home = minted_for(home, south, [home, west])
        home = minted_for(cut(home, AT_WEST), west, [cut(home, AT_WEST)])
    else:
        if order == "cut before, reclaimed after":
            home, west = cut(home, AT_SOUTH), cut(west, AT_SOUTH)
            home = cut(home, AT_WEST)
            home = minted_for(home, south, [home, west])
        else:
            home = cut(cut(home, AT_SOUTH), AT_WEST)
            home = minted_for(home, south, [home])
        home = minted_for(home, west, [home])
    assert home.available == 100
    assert home.minted == 100


async def test_two_regions_are_reclaimed_one_after_the_other() -> None:
    """The one lost later had cut the first off, and taken from it."""
    world = World()
    home, west, south = moved_about()
    for rights in (home, west, south):
        put_rights(world.regions, rights)
    world.regions.deliver()
    world.regions.isolate(SOUTH)
    assert await reclaimed(world, remaining(world)) == [35]
    world.regions.isolate(WEST)
    regions = remaining(world, regions=(HOME,), lost=(SOUTH, WEST), generation=3)
    alone = replace(regions, stores={HOME: regions.stores[HOME]})
    found = await reclaim_lost(alone, WEST, "counter")
    assert whole(*(minted.amount for minted in found.values())) == [5]
    assert shown_rights(world.regions, AT_HOME).available == 100


@pytest.mark.parametrize("order", [(SOUTH, HOME), (HOME, SOUTH)])
async def test_what_a_home_reclaimed_that_is_lost_by_now_is_not_minted_again(
    order: tuple[str, str],
) -> None:
    """It is in the stake of that home, whichever is reclaimed first."""
    world = world_of()
    assert await reclaimed(world, remaining(world)) == [26]
    world.regions.isolate(HOME)
    regions = remaining(world, home=WEST, regions=(WEST,), lost=(SOUTH, HOME), generation=3)
    alone = replace(regions, stores={WEST: regions_of(world).stores[WEST]})
    for lost in order:
        found = await reclaim_lost(alone, lost, "counter")
        assert whole(*(minted.amount for minted in found.values())) == [96] * (lost == HOME)
    assert shown_rights(world.regions, AT_WEST).available == 96


async def test_what_was_cut_off_by_a_region_lost_since_is_compared_with_its_last_item() -> None:
    """South was cut off by west, and not reclaimed, when west was lost, too."""
    world = World()
    home, west, south = moved_about()
    for rights in (home, cut(west, AT_SOUTH), south):
        put_rights(world.regions, rights)
    world.regions.deliver()
    regions = remaining(world, regions=(HOME,), lost=(SOUTH, WEST), generation=3)
    alone = replace(regions, stores={HOME: regions.stores[HOME]})
    for lost, amount in ((SOUTH, 35), (WEST, 5)):
        found = await reclaim_lost(alone, lost, "counter")
        assert whole(*(minted.amount for minted in found.values())) == [amount]
    assert shown_rights(world.regions, AT_HOME).available == 100


async def test_a_region_that_is_gone_is_reclaimed_a_day_later() -> None:
    """It had all that it did not spend: a day after it was given up that is minted again."""
    world = world_of()
    early = remaining(world, given_up_at=world.clock.now() + timedelta(days=1))
    with pytest.raises(ContractChangeRefused, match="for a day after it was given up, or taken"):
        await stakes_of(early, SOUTH, "counter")
    assert not await is_all_reclaimed(early, "counter", await lost_spends(early), None)
    assert await reclaimed(world, remaining(world)) == [26]
    assert spendable(world) == 100


async def test_what_of_two_losses_is_owed_is_charged_first() -> None:
    """West spent 30 of what home had sent it: minted at home before that, it was spent twice."""
    world = World()
    put_rights(world.regions, sent(granted(AT_HOME, at=START), AT_SOUTH, SENT))
    put_rights(world.regions, granted(AT_WEST, at=START, minted=0))
    spent = replace(granted(AT_SOUTH, at=START, minted=0), taken={AT_HOME: Decimal(SENT)})
    put_rights(world.regions, replace(spent, charged=Decimal(SENT)))
    world.regions.deliver()
    both = {"home": WEST, "regions": (WEST,), "lost": (HOME, SOUTH), "generation": 3}
    regions = remaining(world, **both)
    alone = replace(regions, stores={WEST: regions.stores[WEST]})
    with pytest.raises(
        ContractChangeRefused, match=rf"{SOUTH}.* spent 30 .* --lost {SOUTH}` first"
    ):
        await reclaim_lost(alone, HOME, "counter")
    assert not shown_rights(world.regions, AT_WEST).reclaimed
    for lost in (SOUTH, HOME):
        await reclaim_lost(alone, lost, "counter")
    assert shown_rights(world.regions, AT_WEST).available == 100 - SENT


async def test_regions_of_which_each_owes_in_one_epoch_do_not_wait_for_each_other() -> None:
    """What a region owes is charged at once, and what it had is minted after the other's debt."""
    world = World()
    put_rights(world.regions, granted(AT_WEST, at=START, minted=0))
    for region, rest in ((HOME, 5), (SOUTH, 2)):
        first, second = Holder(region), Holder(region, 2)
        put_rights(world.regions, granted(first, at=START, minted=50))
        put_rights(world.regions, replace(create(second, Decimal(0)), charged=Decimal(rest)))
    world.regions.deliver()
    gone = (HOME, SOUTH, HOME, SOUTH)
    regions = remaining(world, home=WEST, regions=(WEST,), lost=gone, generation=5)
    alone = replace(regions, stores={WEST: regions.stores[WEST]})
    with pytest.raises(ContractChangeRefused, match=f"{HOME}.2/0 .* spent 5 more"):
        await reclaim_lost(alone, SOUTH, "counter")
    assert shown_rights(world.regions, AT_WEST).available == -2
    for lost in (HOME, SOUTH):
        await reclaim_lost(alone, lost, "counter")
    assert shown_rights(world.regions, AT_WEST).available == 100 - 7


async def reclaimed_of_two(
    left: dict[Holder, int], *, lost: tuple[str, ...] = (HOME, SOUTH), **options: Any
) -> dict[Holder, int]:
    """Reclaim home, of which other regions are gone; return what was minted at west.

    Of 20 that each holder had it has so much left, below 0 if it spent more.
    """
    world = World()
    put_rights(world.regions, granted(AT_WEST, at=START, minted=0))
    for holder, amount in left.items():
        had = replace(create(holder, Decimal(20)), charged=Decimal(20 - amount))
        world.regions.put(WEST, rights_item(had, "counter"))
    world.regions.deliver()
    regions = remaining(world, home=WEST, regions=(WEST,), lost=lost, generation=3)
    alone = replace(regions, stores={WEST: regions.stores[WEST]})
    found = await reclaim_lost(alone, HOME, "counter", **options)
    return {holder: int(minted.amount) for holder, minted in found.items()}


@pytest.mark.parametrize(("home", "south"), [(-5, -7), (0, -7), (9, 0)])
async def test_a_region_waits_for_no_other_unless_it_had_something_and_that_owes(
    home: int, south: int
) -> None:
    """Of two that owe either may be the first: else none could be reclaimed."""
    left = {AT_HOME: home, AT_SOUTH: south}
    assert await reclaimed_of_two(left) == {AT_HOME: home}


async def test_what_a_region_owed_before_it_was_added_again_is_reclaimed_with_the_rest() -> None:
    """It was lost twice: both holders are minted at once, while no other region owes."""
    again = Holder(HOME, 2)
    left = {AT_HOME: -7, again: 9}
    lost = (HOME, HOME, SOUTH)
    assert await reclaimed_of_two(left, lost=lost) == {AT_HOME: -7, again: 9}
    with pytest.raises(ContractChangeRefused, match=rf"--lost {SOUTH}` first"):
        await reclaimed_of_two({**left, AT_SOUTH: -5}, lost=lost)


@pytest.mark.parametrize("share", [0, 4])
async def test_a_region_that_only_entries_name_owes_what_is_above_its_share(share: int) -> None:
    """It made its part of the window, unseen, and spent 4 of it."""
    spend = SpendRecord("id", Decimal(4), (GrantName(AT_SOUTH, 2, "counter"),))
    options: Any = {"spends": {"counter": [spend]}, "shares": {AT_SOUTH: Decimal(share)}}
    if share:
        assert await reclaimed_of_two({AT_HOME: 9}, **options) == {AT_HOME: 9}
    else:
        with pytest.raises(ContractChangeRefused, match=r"spent 4 more than it had"):
            await reclaimed_of_two({AT_HOME: 9}, **options)
        with pytest.raises(ContractChangeRefused, match=r"spent 4 more than it had"):
            await reclaimed_of_two({AT_HOME: 9}, **{**options, "shares": None})


async def test_what_came_from_a_region_that_left_is_minted_for_that() -> None:
    """What moved between regions that are gone is in neither stake."""
    world = World()
    put_rights(world.regions, granted(AT_HOME, at=START))
    left = Holder("sa-east-1")
    gone = sent(create(left, Decimal(9)), AT_SOUTH, 9)
    put_rights(world.regions, took(granted(AT_SOUTH, at=START, minted=0), gone))
    world.regions.put(HOME, rights_item(gone, "counter"))
    world.regions.deliver()
    regions = remaining(world, lost=("sa-east-1", SOUTH))
    assert (await stakes_of(regions, SOUTH, "counter"))[AT_SOUTH].amount == 0
    assert (await stakes_of(regions, "sa-east-1", "counter"))[left].amount == 9


async def test_what_only_a_lost_region_had_is_minted_at_home() -> None:
    """No region that remains has an item: home's is made, with its share of the window."""
    world = World()
    world.regions.deliver()
    world.regions.isolate(SOUTH)
    shares = {AT_SOUTH: Decimal(7), AT_HOME: Decimal(3)}
    assert await reclaimed(world, remaining(world), shares=shares) == [7]
    at_home = shown_rights(world.regions, AT_HOME)
    assert at_home.minted == 10
    assert at_home.reclaimed == {AT_SOUTH: 7}


@pytest.mark.parametrize("is_late", [False, True], ids=["stood still", "request is late"])
@pytest.mark.parametrize("has_item", [False, True], ids=["home has no item", "home has one"])
async def test_of_two_calls_one_mints_whatever_item_is_made_in_between(
    *, has_item: bool, is_late: bool
) -> None:
    """One item is home's, for both: minted in west's by the first, it would be at home again.

    The first call stands still before it mints, or ends without an answer and its request is late.
    Meanwhile home makes its item, as any spend there does, and the second call ends.
    """
    world = World()
    put_rights(world.regions, granted(AT_WEST, at=START, minted=60))
    put_rights(world.regions, granted(AT_SOUTH, at=START, minted=30))
    if has_item:
        put_rights(world.regions, granted(AT_HOME, at=START, minted=10))
    world.regions.deliver()
    world.regions.isolate(SOUTH)
    regions = remaining(world)
    reached, go_on = anyio.Event(), anyio.Event()
    shares = {AT_SOUTH: Decimal(30), AT_HOME: Decimal(10)}

    class Stalled(ForwardingStore):
        async def write(self, write: Write) -> Outcome:
            if isinstance(write, Put) and "reclaimed" in write.item and not reached.is_set():
                reached.set()
                await go_on.wait()
                if is_late:
                    await super().write(write)
                    raise StoreError("no answer")
            return await super().write(write)

    stalled = {region: Stalled(store) for region, store in regions.stores.items()}

    async def first() -> None:
        with suppress(StoreError):
            await reclaimed(world, replace(regions, stores=stalled), shares=shares)

    async with anyio.create_task_group() as calls:
        calls.start_soon(first)
        await reached.wait()
        if shown_rights(world.regions, AT_HOME).version == 0:
            put_rights(world.regions, create(AT_HOME, Decimal(10)))
        world.regions.deliver()
        assert await reclaimed(world, regions, shares=shares) == [30]
        go_on.set()
    world.regions.deliver()
    items = [shown_rights(world.regions, holder) for holder in (AT_HOME, AT_WEST)]
    assert sum(int(item.minted) for item in items) == 100
    assert [AT_SOUTH in item.reclaimed for item in items] == [True, False]


@pytest.mark.parametrize("is_read", [False, True], ids=["seen by home alone", "seen by both"])
async def test_an_item_that_is_made_meanwhile_is_waited_for(*, is_read: bool) -> None:
    """It has not cut the lost one off, or its own region was read before it was made."""
    world = World()
    put_rights(world.regions, granted(AT_HOME, at=START, minted=70))
    put_rights(world.regions, granted(AT_SOUTH, at=START, minted=30))
    world.regions.deliver()
    world.regions.isolate(SOUTH)
    regions = remaining(world)

    class Making(ForwardingStore):
        async def query(self, query: Query) -> Page:
            if AT_SOUTH not in shown_rights(world.regions, AT_HOME).cut:
                return await super().query(query)
            world.regions.deliver()
            before = None if is_read else await super().query(query)
            if shown_rights(world.regions, AT_WEST).version == 0:
                put_rights(world.regions, create(AT_WEST, Decimal(0)))
            world.regions.deliver()
            return before or await super().query(query)

    stores = {WEST: Making(regions.stores[WEST]), HOME: regions.stores[HOME]}
    with pytest.raises(ContractChangeRefused, match="made meanwhile: run this again"):
        await reclaim_lost(replace(regions, stores=stores), SOUTH, "counter")
    assert await reclaimed(world, regions) == [30]


async def test_home_s_share_must_be_decided() -> None:
    """While its step is announced it is not; of a budget without windows it is nothing."""
    world = World()
    put_rights(world.regions, granted(AT_SOUTH, at=START, minted=7))
    world.regions.deliver()
    regions = remaining(world)
    with pytest.raises(ContractChangeRefused, match="share of budget 'counter' is not decided yet"):
        await reclaim_lost(regions, SOUTH, "counter", shares={})
    assert await reclaimed(world, regions) == [7]
    assert shown_rights(world.regions, AT_HOME).minted == 7


async def test_nothing_is_made_where_nothing_was_lost() -> None:
    """A budget that nobody has rights of stays so."""
    world = World()
    assert await reclaimed(world, remaining(world)) == []
    assert shown_rights(world.regions, AT_HOME).version == 0


@pytest.mark.parametrize(("after", "is_allowed"), [(2, False), (3, True)])
async def test_a_day_is_waited_for_by_the_clock_that_is_ahead(
    after: int, *, is_allowed: bool
) -> None:
    """A day and twice the skew: when the region was given up was told by another clock.

    That may have been behind, and this one may be ahead.
    """
    world = world_of()
    regions = remaining(world, given_up_at=START + timedelta(seconds=3 - after))
    if is_allowed:
        assert await reclaimed(world, regions) == [26]
    else:
        with pytest.raises(ContractChangeRefused, match="for a day after"):
            await reclaim_lost(regions, SOUTH, "counter")


async def test_all_is_reclaimed_once_every_lost_region_is() -> None:
    """The one that was lost last is not all of them."""
    world = world_of()
    regions = remaining(world, regions=(HOME,), lost=(SOUTH, WEST), generation=3)
    alone = replace(regions, stores={HOME: regions.stores[HOME]})
    for lost in (WEST, SOUTH):
        assert not await is_all_reclaimed(alone, "counter", {}, None)
        await reclaim_lost(alone, lost, "counter")
    assert await is_all_reclaimed(alone, "counter", {}, None)


@pytest.mark.parametrize("knows", [AT_SOUTH, None])
async def test_of_a_rolling_limit_home_s_item_is_made_a_rolling_one(knows: Holder | None) -> None:
    """Else what is charged to it never comes back: no item may be there that says so."""
    world = World()
    if knows is not None:
        south = replace(granted(AT_SOUTH, at=START, minted=7), bucket=3_600)
        put_rights(world.regions, south)
    world.regions.deliver()
    regions = remaining(world, budgets={"counter": BudgetRule(rolling=86_400.0)})
    await reclaimed(world, regions, shares={AT_SOUTH: Decimal(0), AT_HOME: Decimal(0)})
    assert shown_rights(world.regions, AT_HOME).bucket == 3_600


@pytest.mark.parametrize("spent", [0, 3])
async def test_of_a_rolling_limit_what_was_passed_on_lasts(spent: int) -> None:
    """It was not spent there: what a lost region had spent comes back, a window after now."""
    world = World()
    put_rights(world.regions, replace(granted(AT_HOME, at=START), bucket=3_600))
    now = int(START.timestamp() + ARRIVED_SECONDS) // 3_600
    south = replace(granted(AT_SOUTH, at=START, minted=0), bucket=3_600, sent={AT_HOME: Decimal(5)})
    if spent:
        south = replace(south, charged=Decimal(spent), buckets={now: Decimal(spent)})
    put_rights(world.regions, south)
    home = shown_rights(world.regions, AT_HOME)
    put_rights(world.regions, changed(home, taken={AT_SOUTH: Decimal(5)}))
    world.regions.deliver()
    assert await reclaimed(world, remaining(world)) == [-5 - spent]
    minted = shown_rights(world.regions, AT_HOME)
    assert minted.buckets == {LASTING: 5, **({now: spent} if spent else {})}
    later = roll_forward(minted, exactly(world.clock.now().timestamp() + 10**9), margin=0)
    assert later.buckets == {LASTING: 5}
    assert later.returned == spent
    assert rights_of(rights_item(later, "counter")) == later


def test_what_lasts_of_a_home_that_is_lost_later_is_no_debt_twice() -> None:
    """It is charged in the lost item, and what it had is compared with it."""
    home = replace(granted(AT_HOME, at=START, minted=0), bucket=3_600)
    home = changed(home, charged=Decimal(5), cut={AT_SOUTH: Decimal(0)})
    home = replace(home, buckets={LASTING: Decimal(5)})
    west = changed(granted(AT_WEST, at=START), cut={AT_HOME: Decimal(0)}, taken={})
    stake = stake_of(home, [west], [])
    assert whole(stake.lasting, stake.amount, stake.passed_on) == [5, -5, 5]
    again = mint_again(replace(west, bucket=3_600), AT_HOME, stake.amount, passed_on=Decimal(5))
    assert again is not None
    assert again.buckets == {LASTING: 5}
    less = mint_again(replace(west, bucket=3_600), AT_HOME, Decimal(-3), passed_on=Decimal(5))
    assert less is not None
    assert less.buckets == {LASTING: 3}, "no more lasts than is charged"
    whole_again = mint_again(west, AT_HOME, stake.amount, passed_on=Decimal(5))
    assert whole_again is not None
    assert not whole_again.buckets


async def test_of_a_rolling_limit_what_came_back_by_now_is_not_charged_again() -> None:
    """An entry of a lost grant counts for as long as it would have, had it been charged."""
    world = World()
    put_rights(world.regions, sent(granted(AT_HOME, at=START), AT_SOUTH, SENT))
    south = granted(AT_SOUTH, 10, at=START, minted=SENT)
    put_rights(
        world.regions,
        replace(south, minted=Decimal(0), taken={AT_HOME: Decimal(SENT)}, bucket=3_600),
    )
    world.regions.put(SOUTH, spend_item(4, GrantName(AT_SOUTH, 2), at=START))
    world.regions.deliver()
    world.regions.isolate(SOUTH)
    regions = remaining(world)
    assert (await stakes_of(regions, SOUTH, "counter"))[AT_SOUTH].entries == 4
    world.clock.pass_by(2 * 86_400)
    assert (await stakes_of(regions, SOUTH, "counter"))[AT_SOUTH].entries == 0


async def test_what_came_from_a_region_that_left_and_was_lost_later_counts_once() -> None:
    """It was added again in between: what its first item sent is in its own stake."""
    world = World()
    again = "sa-east-1"
    put_rights(world.regions, granted(AT_HOME, at=START))
    gone = sent(create(Holder(again), Decimal(9)), AT_SOUTH, 9)
    put_rights(world.regions, took(granted(AT_SOUTH, at=START, minted=0), gone))
    world.regions.put(HOME, rights_item(gone, "counter"))
    world.regions.deliver()
    regions = remaining(world, lost=(again, again, SOUTH))
    found = {
        **await stakes_of(regions, SOUTH, "counter"),
        **await stakes_of(regions, again, "counter"),
    }
    assert {holder: int(stake.amount) for holder, stake in found.items()} == {
        AT_SOUTH: 0,
        gone.holder: 9,
    }
