"""Moving the home: a change of the table's contract, while compactors of both homes run."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

import anyio
import pytest
from support.compacting import Instance, World, compactor_settings
from support.contracts import put_contract
from support.ledgers import HOME, LOCAL, SOUTH, WEST
from support.tiers import few_fast

from compactor.report import CompactorReport
from ledger.administration.contract_changes import refined
from ledger.contract.contract_writer import ContractWriter
from ledger.core.contract import Terms
from ledger.core.contract_item import CONTRACT_PARTITION, Contract
from ledger.core.errors import ContractConflict, DamagedItem, SettingsError
from ledger.primitives.leases.lease_rules import lease_key
from ledger.settings import Settings

REGIONS = (HOME, WEST, SOUTH)
LIFE = 12.0
"""Of a view of the contract: twice as long as an observation is held, and more."""
FIRST = Contract(terms=compactor_settings().replace(contract_life=LIFE).terms)


def file_of(*regions: str) -> Settings:
    """Return the settings of a process that says how to reach the table, and no more."""
    compactor = compactor_settings().compactor
    return Settings(
        regions=dict.fromkeys(regions, LOCAL),
        request_timeout=1,
        write_deadline=1,
        compactor=compactor,
    )


class Moving(World):
    """A world whose table carries its contract."""

    async def begin(self) -> None:
        """Give every region the first contract."""
        await put_contract(self.regions.replicas.values(), FIRST)

    def process(self, owner: str, *regions: str) -> Instance:
        """Start a process whose file names these regions first."""
        others = (region for region in REGIONS if region not in regions)
        return Instance(self, owner, file_of(*regions, *others), contract=True)

    def operator(self) -> ContractWriter:
        """Return what an operator changes the contract with."""
        return ContractWriter(self.regions.replicas, clock=self.clock, poll_seconds=1.0)

    async def move(self, target: str = WEST) -> Contract:
        """Move the home, from announcement to force."""
        return await self.operator().change(wanted(target))

    def nets_homes(self) -> set[str]:
        """Return the homes of all nets, as every region shows them."""
        shown = [self.shown(region, counter).net for region in REGIONS for counter in self.sum]
        return {net.home for net in shown if net is not None}


def wanted(target: str) -> Callable[[Contract], Terms]:
    """Return the change of the home that an operator asks for."""
    settings = file_of(*REGIONS)
    return partial(refined, name="home", value=target, settings=settings, now=World().clock.now())


def after(seconds: float, world: World, do: Callable[[], None]) -> Callable[[], Awaitable[None]]:
    """Return a work that does something after a time."""

    async def later() -> None:
        await world.clock.sleep(seconds)
        do()

    return later


async def a_world() -> Moving:
    """Return a world in which four collections were merged by the first home."""
    world = Moving()
    await world.begin()
    for number in range(4):
        await world.settled(counter=f"c{number}")
    for _ in range(2):
        assert (await world.run_once(world.process("one", HOME))).is_success
    assert world.nets_homes() == {HOME}
    return world


@pytest.mark.parametrize("first", REGIONS)
async def test_the_new_home_merges(first: str) -> None:
    """Once that is in force, wherever it reads the contract; the move touches no collection."""
    world = await a_world()
    writes = len(world.writes)
    await world.drive(world.move)
    assert len(world.writes) == writes
    two = world.process("two", first)
    for number in range(4):
        await world.settled(counter=f"c{number}")
    for _ in range(4):
        assert (await world.run_once(two)).is_success
        assert world.is_right()
    for number in range(4):
        shown = world.shown(HOME, f"c{number}")
        assert not shown.entries
        assert shown.net is not None
        assert shown.net.count == 10
    assert world.nets_homes() == {WEST}


async def test_nothing_is_merged_while_the_home_moves() -> None:
    """A pass says so, by its report, its status and a metric, and looks at nothing."""
    world = await a_world()
    await world.settled(entries=6)
    coming = replace(FIRST.terms, home=WEST)
    pending = replace(FIRST, revision=1, coming=coming)
    await put_contract(world.regions.replicas.values(), pending)
    one = world.process("one", HOME)
    report = await world.run_once(one)
    assert not report.is_success
    assert "the table's home region is being moved" in report.sentence()
    assert report.collections == report.due == 0
    assert one.metric("compactor_waiting", reason="home") == 1
    assert world.shown(HOME).net is None
    await put_contract(world.regions.replicas.values(), replace(FIRST, revision=2))  # taken back
    assert (await world.run_once(one)).merged == 6
    assert one.metric("compactor_waiting", reason="home") == 0


async def test_a_move_that_is_taken_back_leaves_the_home() -> None:
    """It is withdrawn through the old home, at once, and the compactor there merges on."""
    world = await a_world()
    await world.settled(entries=6)
    pending = replace(FIRST, revision=1, coming=replace(FIRST.terms, home=WEST))
    await put_contract(world.regions.replicas.values(), pending)
    one, two = world.process("one", HOME), world.process("two", WEST)
    for process in (one, two):
        assert (await world.run_once(process)).folds == 0
    began = world.clock.monotonic()

    async def take_back() -> Contract:
        operator = world.operator()
        return await operator.withdraw(await operator.newest())

    (done,) = await world.drive(take_back)
    assert done == replace(FIRST, revision=2)
    assert world.clock.monotonic() - began < LIFE
    for _ in range(3):
        await world.run_once(two)
        await world.run_once(one)
    assert world.is_right()
    assert not world.shown(HOME).entries
    assert world.nets_homes() == {HOME}


async def test_settings_that_name_the_old_home_are_refused() -> None:
    """A file that was not corrected after a move stops its process, in one line."""
    world = await a_world()
    await world.drive(world.move)
    old = file_of(*REGIONS).replace(home=HOME)
    with pytest.raises(ContractConflict, match=HOME):
        await world.run_once(Instance(world, "old", old, contract=True))


async def test_a_service_follows_the_home() -> None:
    """A compactor that runs on leads at the old home, waits, and leads at the new one."""
    world = await a_world()
    one, stop = world.process("one", HOME), anyio.Event()
    reports: list[CompactorReport] = []
    errors: list[Exception] = []

    async def serve() -> None:
        await one.compactor.run_every(
            5, stop=stop, on_report=reports.append, on_error=errors.append
        )

    async def operate() -> None:
        await world.clock.sleep(12)
        await world.move()
        world.write(entries=6)
        await world.clock.sleep(60)
        stop.set()

    await world.drive(serve, operate)
    assert any(report.waits for report in reports)
    assert reports[-1].is_success
    assert [str(error) for error in errors if "another home" in str(error)]
    assert world.is_right()
    assert world.shown(SOUTH).net is not None
    assert world.lease(WEST, home=WEST).released
    assert world.lease(HOME, home=HOME).released


async def test_a_fold_that_has_not_arrived_is_waited_for() -> None:
    """The new home folds on nothing before it shows the old home's last net."""
    world = await a_world()
    await world.settled(entries=6)
    world.regions.pause(HOME, WEST)
    for _ in range(2):
        await world.run_once(world.process("one", HOME))
    assert world.shown(WEST).net is None

    async def deliver_contract() -> None:
        for _ in range(300):
            await world.clock.sleep(0.25)
            world.regions.deliver_only(lambda _, key: key[0] == CONTRACT_PARTITION)

    await world.drive(world.move, deliver_contract)
    two = world.process("two", WEST)
    assert (await world.run_once(two)).folds == 0
    assert world.is_right()
    world.regions.heal()
    await world.settled(entries=6)
    assert (await world.run_once(two)).folds == 1
    assert world.is_right()


BAD_ITEMS = [
    {"pk": {"S": "bad"}, "sk": {"S": "zzz"}, "change": {"S": "oops"}},
    {"pk": {"S": "c1"}, "sk": {"S": "zzz"}, "change": {"S": "oops"}},
    {"pk": {"S": "bad"}, "sk": {"S": "~net#0001"}, "change": {"N": "1"}},
]


@pytest.mark.parametrize("item", few_fast(BAD_ITEMS, fast=1))
async def test_damaged_collections_stop_no_move(item: dict[str, dict[str, str]]) -> None:
    """The new home merges the rest, names the bad one, and merges it once it is mended."""
    world = await a_world()
    key = (item["pk"]["S"], item["sk"]["S"])
    await world.settled(entries=4, counter=key[0])
    for other in REGIONS:
        world.regions.replicas[other].table.set(key, item)
    await world.drive(world.move)
    two = world.process("two", WEST)
    for number in range(4):
        await world.settled(counter=f"c{number}")
    for _ in range(4):
        report = await world.run_once(two)
        assert (report.is_success, list(report.quarantined)) == (True, [key[0]])
    healthy = {"c0", "c1", "c2", "c3"} - {key[0]}
    assert not any(world.shown(region, name).entries for name in healthy for region in REGIONS)

    for other in REGIONS:
        world.regions.replicas[other].table.set(key, None)
    await world.settled(entries=6, counter=key[0])
    for _ in range(4):
        assert (await world.run_once(two)).damaged == 0
        assert world.is_right()
    assert not world.shown(SOUTH, key[0]).entries


async def test_a_home_that_was_moved_away_moves_back() -> None:
    """Each home goes on with its own lease, under its next epoch."""
    world = await a_world()
    await world.drive(world.move)
    await world.run_once(world.process("two", WEST))
    before = world.lease(HOME, home=HOME).epoch
    await world.drive(partial(world.move, HOME))
    await world.settled()
    for _ in range(4):
        await world.run_once(world.process("three", SOUTH))
    assert not world.shown(SOUTH).entries
    assert world.is_right()
    assert world.lease(HOME, home=HOME).epoch > before
    assert world.lease(HOME, home=WEST).released


async def test_a_move_to_the_home_that_is_changes_nothing() -> None:
    """So the command can be run again when it is not known whether it ended."""
    world = await a_world()
    (contract,) = await world.drive(partial(world.move, HOME))
    assert contract == FIRST


async def test_a_move_needs_a_region_of_the_contract() -> None:
    """Another is refused before anything is announced."""
    world = await a_world()
    with pytest.raises(SettingsError, match="eu-north-1"):
        await world.drive(partial(world.move, "eu-north-1"))
    assert await world.operator().newest() == FIRST


async def test_damaged_lease_is_waited_out_by_the_service() -> None:
    """A service outlives a lease item that somebody damages and mends; a single pass says so."""
    world = World()
    await world.settled(entries=6)
    one, stop = world.instance(), anyio.Event()
    errors: list[Exception] = []
    table = world.regions.replicas[HOME].table
    key = lease_key(f"compactor@{HOME}")
    table.set(key, {"pk": {"S": key[0]}, "sk": {"S": key[1]}, "owner": {"N": "1"}})
    with pytest.raises(DamagedItem):
        await world.run_once(world.instance("two"))

    async def serve() -> None:
        await one.compactor.run_every(8, stop=stop, on_error=errors.append)

    mend = after(10, world, lambda: table.set(key, None))
    await world.drive(serve, mend, after(40, world, stop.set))
    assert {type(error) for error in errors} == {DamagedItem}
    assert world.shown(HOME).net is not None
