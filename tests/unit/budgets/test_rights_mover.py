"""Rights are moved by what each region shows: what was sent is taken up, a surplus is sent."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import pytest
from support.budgets import (
    AT_HOME,
    AT_SOUTH,
    AT_WEST,
    changed,
    granted,
    put_rights,
    regions_of,
    shown_rights,
    whole,
)
from support.compacting import World

from ledger.budgets.balance import quantum_of
from ledger.budgets.grant_closing import RegionViews
from ledger.budgets.rights import Holder, Rights
from ledger.budgets.rights_mover import RightsMoved, move_rights, planned
from ledger.budgets.rights_plan import limit_of
from ledger.testing.clock import START

HOLDERS = (AT_HOME, AT_WEST, AT_SOUTH)


def world_of(*minted: int) -> World:
    """Return a world in which home, west and south minted these amounts, nothing granted."""
    world = World()
    for holder, amount in zip(HOLDERS, minted, strict=True):
        put_rights(world.regions, granted(holder, at=START, minted=amount))
    world.regions.deliver()
    return world


def seen(world: World, by: Holder) -> dict[Holder, Rights]:
    """Return what the region of a holder shows of all."""
    shown = (shown_rights(world.regions, holder, by=by.region) for holder in HOLDERS)
    return {rights.holder: rights for rights in shown if rights.version}


async def moved(world: World, holder: Holder, regions: RegionViews | None = None) -> RightsMoved:
    """Move what is to be moved of a holder."""
    rights = shown_rights(world.regions, holder)
    return await move_rights(regions or regions_of(world), "counter", rights, seen(world, holder))


def available(world: World) -> list[int]:
    """Return what is available in home, west and south, as each has it."""
    return whole(*(shown_rights(world.regions, holder).available for holder in HOLDERS))


def limit(world: World) -> Decimal:
    """Return the limit that all have."""
    return limit_of(tuple(shown_rights(world.regions, holder) for holder in HOLDERS))


async def rounds(world: World, order: Sequence[Holder] = HOLDERS) -> None:
    """Let each holder move what it has to, and replication deliver."""
    for holder in order:
        await moved(world, holder)
    world.regions.deliver()


async def test_a_surplus_is_sent_and_taken_up() -> None:
    """In two rounds: sent, then taken up once the taker's region shows it; nothing is lost."""
    world = world_of(90, 0, 0)
    await rounds(world)
    assert available(world) == [32, 0, 0]
    await rounds(world)
    assert available(world) == [32, 29, 29]
    assert limit(world) == 90


async def test_at_rest_nothing_is_written() -> None:
    """Hysteresis: what is fairly even stays as it is."""
    world = world_of(90, 0, 0)
    for _ in range(2):
        await rounds(world)
    before = [shown_rights(world.regions, holder) for holder in HOLDERS]
    await rounds(world)
    assert [shown_rights(world.regions, holder) for holder in HOLDERS] == before


async def test_transfers_conserve_rights_whatever_is_seen_late() -> None:
    """What is available, and on its way, adds up to the limit at every moment."""
    world = world_of(90, 7, 0)
    for number in range(6):
        for holder in HOLDERS:
            await moved(world, holder)
            world.regions.deliver(most=number)
            items = [shown_rights(world.regions, each) for each in HOLDERS]
            sent = sum(int(one) for item in items for one in item.sent.values())
            taken = sum(int(one) for item in items for one in item.taken.values())
            assert sum(available(world)) + sent - taken == 97
            assert taken <= sent


async def test_a_lost_race_moves_nothing() -> None:
    """The item was written by its region meanwhile."""
    world = world_of(90, 0, 0)
    old, shown = shown_rights(world.regions, AT_HOME), seen(world, AT_HOME)
    put_rights(world.regions, changed(old))
    assert await move_rights(regions_of(world), "counter", old, shown) == RightsMoved()
    assert shown_rights(world.regions, AT_HOME) == changed(old)


async def test_a_region_that_leaves_gets_nothing_and_sends_nothing_here() -> None:
    """What it still has it sends as it leaves; what it sent is taken up."""
    world = world_of(90, 0, 0)
    regions = regions_of(world)
    leaving = replace(regions, terms=replace(regions.terms, closed=(AT_SOUTH.region,)))
    assert set((await moved(world, AT_HOME, leaving)).sent) == {AT_WEST}
    leaving = replace(regions, terms=replace(regions.terms, closed=(AT_HOME.region,)))
    assert await moved(world, AT_HOME, leaving) == RightsMoved()
    world.regions.deliver()
    assert set((await moved(world, AT_WEST, leaving)).taken) == {AT_HOME}


@pytest.mark.parametrize("how", ["cut", "lost"])
async def test_from_a_lost_region_nothing_is_taken_up(how: str) -> None:
    """Its rights may have been minted again; nor is anything sent to it."""
    world = world_of(90, 0, 0)
    await moved(world, AT_HOME)
    world.regions.deliver()
    regions = regions_of(world)
    west = shown_rights(world.regions, AT_WEST)
    if how == "cut":
        west = changed(west, cut={AT_HOME: Decimal(0)})
    else:
        terms = replace(regions.terms, regions=(AT_WEST.region, AT_SOUTH.region))
        regions = replace(regions, terms=terms)
    after, found = planned(regions, west, seen(world, AT_WEST))
    assert found.taken == {}
    assert AT_HOME not in after.sent


async def test_nothing_is_sent_to_what_a_region_was_before_it_was_added_again() -> None:
    """Its item is still shown: what it got nobody could spend."""
    world = world_of(90, 0, 0)
    regions = regions_of(world)
    regions = replace(regions, terms=replace(regions.terms, lost=(AT_SOUTH.region,)))
    assert set((await moved(world, AT_HOME, regions)).sent) == {AT_WEST}


def test_the_smallest_piece_is_that_of_what_was_spent() -> None:
    """A region is not left with a part of a cent, and a budget of whole numbers stays whole."""
    rights = granted(AT_HOME, 5, at=START)
    assert quantum_of([rights]) == 1
    assert quantum_of([rights, replace(rights, charged=Decimal("0.37"))]) == Decimal("0.01")
    assert quantum_of([replace(rights, minted=Decimal("1E+3"))]) == 1
    assert quantum_of([]) == 1


async def test_a_surplus_is_not_sent_to_a_holder_that_was_cut_off() -> None:
    """What it had is minted again by then: others get the surplus."""
    world = world_of(0, 90, 0)
    west = changed(shown_rights(world.regions, AT_WEST), cut={AT_HOME: Decimal(0)})
    after, found = planned(regions_of(world), west, seen(world, AT_WEST))
    assert set(found.sent) == {AT_SOUTH}
    assert AT_HOME not in after.sent
