"""Budgets write nothing by a clock that is off, and date what they write by the region's time."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from support.budgets import (
    AT_HOME,
    AT_SOUTH,
    AT_WEST,
    LIFE,
    access_to,
    granted,
    put_rights,
    regions_of,
    seconds,
    shown_rights,
    spend_item,
)
from support.compacting import World
from support.ledgers import HOME, SOUTH, WEST, seeded
from support.off_clocks import MeasuringStore, OffClock
from support.tiers import few_fast

from ledger import Granted, Hold, Table
from ledger.budgets.calendar import whole_seconds
from ledger.budgets.control import time_in
from ledger.budgets.grant_closing import RegionViews, charge_open, close_over, resolve_expired
from ledger.budgets.limit_target import LimitTarget
from ledger.budgets.limit_windows import limit_of
from ledger.budgets.lost_stake import ARRIVED_SECONDS
from ledger.budgets.reclaim import reclaim_lost
from ledger.budgets.restore import restore_budget
from ledger.budgets.restore_plan import RestoredEntries
from ledger.budgets.rights import NO_GRANT, GrantName, LateCharge, Rights
from ledger.budgets.rights_mover import move_rights
from ledger.budgets.rights_plan import note_demand
from ledger.budgets.spend_record import SpendRecord, spend_of
from ledger.core.clock_offset import ClockOffset, RegionTime
from ledger.core.contract import Terms, seconds_to_wait, stricter
from ledger.core.entry import Item, key_of
from ledger.core.errors import ClockOff
from ledger.runtime.services import Services
from ledger.session.assembly import GivenConnections
from ledger.settings.live import LiveSettings
from ledger.testing import MemoryGlobalTable
from ledger.testing.clock import START

EAST, FAR = "us-east-1", "eu-west-1"
OFF_SECONDS = 840.0
RULES = {"key/*": {}, "day/*": {"window": "day"}, "rolling/*": {"rolling": 3_600}}


@asynccontextmanager
async def opened_by(
    world: MemoryGlobalTable, off_seconds: float, *, measured: float | None = None
) -> AsyncIterator[Table]:
    """Open home's table on a machine whose clock is off, as answers tell."""
    stores = {region: MeasuringStore(world.store(region)) for region in (EAST, FAR)}
    for store in stores.values():
        store.measure(off_seconds if measured is None else measured)
    own = stores.pop(EAST)
    table = Table(
        world.settings,
        region=EAST,
        registry=CollectorRegistry(),
        given=GivenConnections(store=own, others=stores),
        services=Services.of(
            clock=OffClock(world.clock, off_seconds),
            randomness=seeded(),
            registry=CollectorRegistry(),
        ),
    )
    async with table:
        yield table


def written(world: MemoryGlobalTable) -> dict[str, Any]:
    """Return all that the regions have, as it is now."""
    return {region: deepcopy(world.store(region).table.partitions) for region in (EAST, FAR)}  # type: ignore[attr-defined]


CALLS: dict[str, Callable[[Table, Hold], Awaitable[object]]] = {
    "create": lambda table, _: table.budget("key/new").create(5),
    "raise": lambda table, _: table.budget("key/1").raise_limit(5, id="more"),
    "lower": lambda table, _: table.budget("key/1").lower_limit(to=5),
    "raise of windows": lambda table, _: table.budget("day/1").raise_limit(5, id="more"),
    "go on": lambda table, _: table.budget("day/2").go_on(),
    "spend": lambda table, _: table.budget("key/1").spend(1),
    "more than there is": lambda table, _: table.budget("key/1").spend(99),
    "spend of a rolling limit": lambda table, _: table.budget("rolling/1").spend(1),
    "spend of both": lambda table, _: table.budgets(["key/1", "rolling/1"]).spend(1),
    "hold": lambda table, _: table.budget("key/1").hold(1, expires=60),
    "light hold": lambda table, _: table.budget("key/1").hold(1, expires=60, light=True),
    "settle": lambda table, hold: table.budget("key/1").held(hold.entry).settle(1),
    "settle for more": lambda table, hold: table.budget("key/1").held(hold.entry).settle(3),
    "void": lambda table, hold: table.budget("key/1").held(hold.entry).void(),
    "extend": lambda table, hold: table.budget("key/1").held(hold.entry).extend(5_000),
}


@pytest.mark.parametrize("off", few_fast([-OFF_SECONDS, OFF_SECONDS, 400_000.0], fast=1))
@pytest.mark.parametrize("call", CALLS)
async def test_no_call_writes_by_a_clock_that_is_off(call: str, off: float) -> None:
    """Each is refused, and no region has anything that it had not before."""
    world = MemoryGlobalTable([EAST, FAR], budgets=RULES)
    async with world.table(EAST) as right:
        for name in ("key/1", "day/1", "day/2", "rolling/1"):
            assert await right.budget(name).create(10)
        hold = await right.budget("key/1").hold(2, expires=3_000)
        assert isinstance(hold, Hold)
        world.replicate()
        await right.budget("day/2").lower_limit(to=5)
        world.replicate()
    before = written(world)
    async with opened_by(world, off) as wrong:
        with pytest.raises(ClockOff):
            await CALLS[call](wrong, hold)
    assert written(world) == before


async def open_hold(*, is_over: bool = False) -> tuple[World, Item]:
    """Return a world with a grant that is over and an entry that is open: a hold that expired."""
    world = World()
    name = GrantName(AT_HOME, NO_GRANT if is_over else 2)
    hold = None if is_over else seconds(START) + 5
    entry = spend_item(3, name, at=START, hold=hold)
    put_rights(world.regions, granted(AT_HOME, 10, at=START))
    for holder in (AT_WEST, AT_SOUTH):
        put_rights(world.regions, granted(holder, at=START, minted=0))
    world.regions.put(HOME, entry)
    world.regions.deliver()
    world.clock.pass_by(ARRIVED_SECONDS + LIFE + OFF_SECONDS)
    return world, entry


def lost_south(regions: RegionViews) -> RegionViews:
    """Return the regions that remain once the south was lost."""
    terms = replace(regions.terms, regions=(HOME, WEST), lost=(SOUTH,), given_up_at=START)
    stores = {region: regions.stores[region] for region in (HOME, WEST)}
    return RegionViews(stores, terms, regions.clock)


def spend_in(entry: Item) -> SpendRecord:
    """Return what an entry says of its grants."""
    spend = spend_of(entry)
    assert spend is not None
    return spend


PASSES: dict[str, Callable[[RegionViews, Rights, Item], Awaitable[object]]] = {
    "close": lambda regions, home, _: close_over(regions, "counter", home),
    "expire": lambda regions, _, entry: resolve_expired(regions, key_of(entry), spend_in(entry)),
    "move": lambda regions, home, _: move_rights(
        regions,
        "counter",
        home,
        {AT_HOME: home, AT_WEST: replace(home, holder=AT_WEST, minted=Decimal(0))},
    ),
    "reclaim": lambda regions, _, __: reclaim_lost(lost_south(regions), SOUTH, "counter"),
    "recount": lambda regions, _, entry: restore_budget(
        regions,
        "counter",
        RestoredEntries([replace(spend_in(entry), grants=(GrantName(AT_HOME, 9, "counter"),))]),
        {},
    ),
}


@pytest.mark.parametrize("what", PASSES)
async def test_no_pass_and_no_operator_writes_rights_by_a_clock_that_is_off(what: str) -> None:
    """Closing, expiring, moving, reclaiming, recounting: by the answers of the region it is in."""
    world, entry = await open_hold()
    home = shown_rights(world.regions, AT_HOME)
    for replica in world.regions.replicas.values():
        replica.clock_offset = ClockOffset(OFF_SECONDS - 1, OFF_SECONDS)
    before = {
        region: deepcopy(one.table.partitions) for region, one in world.regions.replicas.items()
    }
    with pytest.raises(ClockOff):
        await PASSES[what](regions_of(world), home, entry)
    after = {region: one.table.partitions for region, one in world.regions.replicas.items()}
    assert after == before


async def test_what_was_let_through_is_not_charged_by_a_clock_that_is_off() -> None:
    """It waits for a machine whose clock is right."""
    world, entry = await open_hold(is_over=True)
    world.regions.replicas[HOME].clock_offset = ClockOffset(OFF_SECONDS - 1, OFF_SECONDS)
    with pytest.raises(ClockOff):
        await charge_open(regions_of(world), {key_of(entry): spend_in(entry)})
    world.regions.replicas[HOME].clock_offset = ClockOffset(0, 1)
    assert await charge_open(regions_of(world), {key_of(entry): spend_in(entry)}) == 1


def test_the_time_of_a_region_is_known_by_its_answers() -> None:
    """Without any this machine's clock counts, and it may be off by the skew."""
    now = START.timestamp()
    assert RegionTime.of(START, ClockOffset(4, 5), skew=60) == RegionTime(now - 5, now - 4)
    assert RegionTime.of(START, None, skew=60) == RegionTime(now - 60, now + 60)
    assert (RegionTime(0.5, 1.5).earliest, RegionTime(0.5, 1.5).latest) == (0, 2)


LONG = {"retry_horizon": 500.0, "clock_skew": 90.0, "contract_life": 400.0}


@pytest.mark.parametrize("longer_first", [True, False])
def test_while_a_change_is_pending_others_may_go_by_the_longer_duration(
    *, longer_first: bool
) -> None:
    """One obeys the shorter, and expects the longer of others; in force it is the one there is."""
    terms = regions_of(World()).terms
    longer = replace(terms, **LONG)  # type: ignore[arg-type]
    pending = stricter(longer, terms) if longer_first else stricter(terms, longer)
    assert (pending.retry_horizon, pending.clock_skew) == (1.0, 1.0)
    found = [pending.longest(name) for name in ("retry_horizon", "clock_skew", "contract_life")]
    assert found == [*LONG.values()]
    assert terms.longest("clock_skew") == terms.clock_skew


class Pending:
    """Live settings while a change of the contract is pending."""

    validity = None

    def __init__(self, world: MemoryGlobalTable, terms: Terms) -> None:
        self.current = world.settings.under(terms, home=terms.home)

    async def renew(self) -> None:
        """There is nothing to renew."""


async def test_the_wait_of_a_step_is_that_of_both_contracts() -> None:
    """A process that has not heard of a change acts on its view for the longer life."""
    world = MemoryGlobalTable([EAST, FAR], budgets=RULES)
    old = world.settings.terms
    pending = stricter(replace(old, contract_life=900.0, clock_skew=90.0), old)
    live: LiveSettings = Pending(world, pending)

    access = access_to(world.store(EAST), live, world.store(FAR), clock=world.clock)
    place = await LimitTarget.of(access, "day/1")
    assert place.wait == seconds_to_wait(old, old) + (900 - old.contract_life) + 30 + 2 * 90


async def test_a_step_waits_whatever_two_clocks_say() -> None:
    """One machine, behind as far as may be, notes that all show it; one that is ahead confirms."""
    world = MemoryGlobalTable([EAST, FAR], budgets=RULES)
    skew = world.settings.terms.clock_skew
    async with world.table(EAST) as right:
        await right.budget("day/1").create(10)
        world.replicate()
        await right.budget("day/1").lower_limit(to=5)
        world.replicate()
    began = whole_seconds(world.clock.now())
    async with opened_by(world, -skew) as behind:
        await behind.budget("day/1").go_on()
    [item] = [
        item
        for key, item in world.store(EAST).table.partitions["~budget~day/1"].items()  # type: ignore[attr-defined]
        if key.startswith("limit#")
    ]
    shown = limit_of(item).shown
    assert shown is not None
    assert shown >= began
    wait = seconds_to_wait(world.settings.terms, world.settings.terms)
    await world.clock.advance(wait + 2 * skew - 1)
    async with opened_by(world, skew) as ahead:
        assert not (await ahead.budget("day/1").go_on()).is_confirmed
        await world.clock.advance(5)
        assert (await ahead.budget("day/1").go_on()).is_confirmed


@pytest.mark.parametrize("off", [-50.0, 0.0, 50.0])
async def test_a_rolling_limit_comes_back_by_the_regions_time(off: float) -> None:
    """A machine within the skew gives back neither earlier, nor later than its measure allows."""
    world = MemoryGlobalTable([EAST, FAR], budgets=RULES)
    margin = 300 + 4 * 60
    async with world.table(EAST) as right:
        await right.budget("rolling/1").create(10)
        assert await right.budget("rolling/1").spend(10)
    bucket = 3_600 // 24
    over = (START.timestamp() // bucket + 1 + 24) * bucket + margin - START.timestamp()
    async with opened_by(world, off) as table:
        await world.clock.advance(over - 2)
        assert not await table.budget("rolling/1").spend(1)
        await world.clock.advance(4)
        assert isinstance(await table.budget("rolling/1").spend(1), Granted)


@pytest.mark.parametrize("off", [-50.0, 50.0])
async def test_a_hold_lasts_as_long_as_was_asked_for(off: float) -> None:
    """Its expiry is told by its region's time: by a clock that is behind it would end at once."""
    world = MemoryGlobalTable([EAST, FAR], budgets=RULES)
    async with world.table(EAST) as right:
        await right.budget("key/1").create(10)
    async with opened_by(world, off) as table:
        hold = await table.budget("key/1").hold(1, expires=30)
        assert isinstance(hold, Hold)
        now = whole_seconds(world.clock.now())
        assert hold.entry.spending is not None
        assert hold.entry.spending.hold is not None
        assert now + 30 <= hold.entry.spending.hold <= now + 32
        later = await hold.extend(timedelta(seconds=90))
        assert later.entry.spending is not None
        assert later.entry.spending.hold is not None
        assert now + 90 <= later.entry.spending.hold <= now + 92


@pytest.mark.parametrize(("age", "kept"), [(59, True), (61, False)])
async def test_a_write_forgets_what_was_resolved_long_ago(age: int, *, kept: bool) -> None:
    """What is rewritten costs by its size; the region's time counts, whose ever clock wrote it."""
    world = MemoryGlobalTable([EAST, FAR], budgets=RULES)
    store = MeasuringStore(world.store(EAST))
    store.measure(50.0)
    live: LiveSettings = Pending(world, world.settings.terms)
    clock = OffClock(world.clock, 50.0)
    items = access_to(store, live, clock=clock).here
    resolved = {"hold": LateCharge(Decimal(1), whole_seconds(world.clock.now()) - age)}

    def planned(rights: Rights) -> Rights:
        made = replace(rights, version=1, minted=Decimal(5), resolved=resolved)
        return note_demand(made, rate=Decimal(1), want=Decimal(0))

    after = await items.change("key/1", AT_HOME, planned, seconds=1)
    assert isinstance(after, Rights)
    assert after.resolved == (resolved if kept else {})
    assert time_in(store, clock, world.settings.terms).least < world.clock.now().timestamp()


async def test_a_refusal_by_a_clock_that_its_own_read_shows_to_be_off_is_none() -> None:
    """Nothing was known of the clock when the call began."""
    world = MemoryGlobalTable([EAST, FAR], budgets=RULES)
    async with world.table(EAST) as right:
        await right.budget("rolling/1").create(1)
    store = world.store(EAST)
    async with world.table(EAST) as table:
        read = store.query

        async def measured(query: Any) -> Any:
            store.clock_offset = ClockOffset(OFF_SECONDS - 1, OFF_SECONDS)  # type: ignore[misc]
            return await read(query)

        store.query = measured  # type: ignore[method-assign]
        with pytest.raises(ClockOff):
            await table.budget("rolling/1").spend(5)
