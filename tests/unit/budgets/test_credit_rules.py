"""When a credit may be taken in, and when its grant is closed by reading, after a loss too."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from support.budgets import (
    AT_HOME,
    AT_SOUTH,
    AT_WEST,
    LIFE,
    changed,
    granted,
    limited_settings,
    put_rights,
    regions_of,
    shown_rights,
    spend_item,
)
from support.compacting import World
from support.ledgers import HOME, SOUTH, WEST

from ledger.budgets import credit_rules
from ledger.budgets.grant_closing import RegionViews, close_over
from ledger.budgets.lost_stake import ARRIVED_SECONDS
from ledger.budgets.reclaim import reclaim_lost
from ledger.budgets.rights import GrantName, Rights
from ledger.budgets.rights_plan import create
from ledger.budgets.spend_record import WAITING_MAX, SpendRecord
from ledger.core.entry import entry_id
from ledger.core.errors import ContractChangeRefused
from ledger.testing.clock import START

NAME = GrantName(AT_HOME, 2)
CREDIT = SpendRecord("id", Decimal(-5), (NAME,))
OVER = LIFE + 1 + 1 + 2
"""After which a grant is over: its life, a signature's, the skew, and a second more."""


def test_what_is_taken_in_twice_is_free_once() -> None:
    """The write is repeated if its answer was lost."""
    rights = granted(AT_HOME, 0, at=START, minted=0)
    once = credit_rules.take_in(rights, 2, Decimal(5))
    assert once is not None
    assert [once.available, once.version] == [5, 3]
    assert credit_rules.take_in(once, 2, Decimal(5)) is None
    more = credit_rules.take_in(once, 2, Decimal(7))
    assert more is not None
    assert more.available == 7
    closed = credit_rules.close_credits(more, 2)
    assert closed is not None
    assert [closed.available, closed.charged, closed.grants] == [7, -7, {}]
    assert credit_rules.take_in(closed, 2, Decimal(9)) is None
    assert credit_rules.close_credits(closed, 2) is None


@pytest.mark.parametrize(
    ("shown", "is_shown"),
    [
        ([CREDIT], True),
        ([], False),
        ([replace(CREDIT, grants=(GrantName(AT_WEST, 2),))], False),
        ([replace(CREDIT, amount=Decimal(-6))], False),
        ([replace(CREDIT, id="other"), CREDIT], True),
    ],
)
def test_a_region_must_show_the_same_copy(shown: list[SpendRecord], *, is_shown: bool) -> None:
    """Under its key another may have been put in another region."""
    assert credit_rules.shows(CREDIT, shown) is is_shown


def test_every_region_of_the_contract_must_show_it() -> None:
    """While one is added, or goes, those of before and after."""
    terms = limited_settings().terms
    assert not credit_rules.is_everywhere(frozenset({HOME, WEST}), terms)
    assert credit_rules.is_everywhere(frozenset({HOME, WEST, SOUTH, "more"}), terms)


@pytest.mark.parametrize(
    ("made", "passed", "may"),
    [
        (-3_600, 60, True),
        (3, 60, True),
        (4, 60, False),
        (-3_600, ARRIVED_SECONDS + 1, True),
        (-3_600, ARRIVED_SECONDS + 2, False),
    ],
)
def test_a_copy_of_a_region_that_is_gone_may_arrive_for_a_day(
    made: int, passed: float, *, may: bool
) -> None:
    """One whose id is later than the loss has none, by three times the skew of a second."""
    entry = str(entry_id(START + timedelta(seconds=made), 1))
    terms = limited_settings().terms
    assert not credit_rules.may_have_twin(entry, terms, START.timestamp() + passed)
    gone = replace(terms, lost=(SOUTH,), given_up_at=START)
    assert credit_rules.may_have_twin(entry, gone, START.timestamp() + passed) is may


async def credited(*, of: int = 1) -> World:
    """Return a world in which home credited 5 under each of so many grants of 0."""
    world = World()
    put_rights(world.regions, granted(AT_HOME, *[0] * of, at=START, minted=0))
    for version in range(2, of + 2):
        name = GrantName(AT_HOME, version)
        world.regions.put(HOME, spend_item(-5, name, at=START, suffix=version))
    world.regions.deliver()
    return world


def without_south(world: World) -> RegionViews:
    """Return the regions that remain after south was given up at the start."""
    regions = regions_of(world)
    stores = {region: regions.stores[region] for region in (HOME, WEST)}
    gone = {"regions": (HOME, WEST), "lost": (SOUTH,), "given_up_at": START, "generation": 2}
    terms = replace(regions.terms, **gone)  # type: ignore[arg-type]
    return RegionViews(stores, terms, regions.clock)


async def close(world: World, regions: RegionViews) -> Rights:
    """Close what is over of home's budget; return its item."""
    await close_over(regions, "counter", shown_rights(world.regions, AT_HOME))
    return shown_rights(world.regions, AT_HOME)


async def test_the_close_by_reading_takes_in_what_its_owner_left() -> None:
    """Once all regions agree, and nothing that names the grant can land."""
    world = await credited()
    world.clock.pass_by(OVER)
    rights = await close(world, regions_of(world))
    assert [rights.available, rights.charged, rights.grants] == [5, -5, {}]


async def test_the_close_waits_for_a_day_where_a_copy_may_arrive() -> None:
    """It would be credited here, and again where the other copy wins."""
    world = await credited()
    world.clock.pass_by(OVER)
    assert len((await close(world, without_south(world))).grants) == 1
    world.clock.pass_by(ARRIVED_SECONDS)
    assert (await close(world, without_south(world))).available == 5


async def test_grants_of_credits_wait_for_all_regions_however_many_there_are() -> None:
    """Closed by what one region shows their credits would never be free."""
    world = await credited(of=WAITING_MAX + 3)
    world.regions.isolate(SOUTH)
    late = GrantName(AT_HOME, 2)
    world.regions.put(HOME, spend_item(-1, late, at=START, suffix=99))
    for version in range(3, WAITING_MAX + 5):
        name = GrantName(AT_HOME, version)
        world.regions.put(HOME, spend_item(-1, name, at=START, suffix=100 + version))
    world.clock.pass_by(OVER)
    assert len((await close(world, regions_of(world))).grants) == WAITING_MAX + 3
    world.regions.heal()
    world.regions.deliver()
    assert (await close(world, regions_of(world))).available == 6 * (WAITING_MAX + 3)


@pytest.mark.parametrize("is_known", [False, True])
async def test_a_lost_region_is_reclaimed_once_all_show_its_credits(*, is_known: bool) -> None:
    """Under its key another copy may stay, which is taken in elsewhere: both would be free.

    What the newest item that arrived has closed is counted by that.
    """
    world = World()
    put_rights(world.regions, create(AT_HOME, Decimal(0)))
    put_rights(world.regions, create(AT_WEST, Decimal(0)))
    south = granted(AT_SOUTH, 0, at=START, minted=0)
    if is_known:
        south = changed(south, grants={}, charged=Decimal(-5))
    put_rights(world.regions, south)
    world.regions.deliver()
    world.regions.put(WEST, spend_item(-5, GrantName(AT_SOUTH, 2), at=START))
    world.regions.isolate(SOUTH)
    world.clock.pass_by(ARRIVED_SECONDS + 3)

    if not is_known:
        with pytest.raises(ContractChangeRefused, match="not shown alike by every region"):
            await reclaim_lost(without_south(world), SOUTH, "counter")
        assert not shown_rights(world.regions, AT_HOME).cut
        world.regions.deliver()
    with pytest.raises(ContractChangeRefused, match="run this again"):
        await reclaim_lost(without_south(world), SOUTH, "counter")
    world.regions.deliver()
    found = await reclaim_lost(without_south(world), SOUTH, "counter")
    assert [one.amount for one in found.values()] == [5]
