"""What a call made once is found after moves and losses of home, and is never made again."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from support.archiving import ArchivedWorld
from support.ledgers import HOME, SOUTH

from ledger.contract.contract_writer import ContractWriter
from ledger.core.contract import REMEMBERED_SECONDS
from ledger.core.entry import Key, entry_item
from ledger.core.errors import RegionUnreadable, StateConflict
from ledger.core.values import Entry
from ledger.session.ledger import Ledger
from ledger.testing import MemoryGlobalTable
from ledger.testing.replicas import Transit

EAST, WEST = "us-east-1", "eu-west-1"
COMPACTOR = {"fold_min": 1, "prune_min": 1, "scan_every": 0, "scan_segments": 1}
RECORDS = ("~reverse~", "~reconcile")
Call = Callable[[Ledger, Entry], Awaitable[object]]


def made_table(*regions: str) -> MemoryGlobalTable:
    """Return a table whose items arrive when a test says so."""
    return MemoryGlobalTable(regions or (EAST, WEST), compactor=COMPACTOR)


def is_record(key: Key) -> bool:
    """Return whether a key is that of a record."""
    return key[0].startswith(RECORDS)


def is_entry(key: Key) -> bool:
    """Return whether a key is that of an entry of the counter under test."""
    return key[0] == "c"


def hold_back(table: MemoryGlobalTable, is_held: Callable[[Key], bool]) -> list[Transit]:
    """Take items off the way from home, deliver the rest, and return them."""
    queue = table._world.links[EAST, WEST]
    held = [transit for transit in queue if is_held(transit.key)]
    for transit in held:
        queue.remove(transit)
    table.replicate()
    return held


async def let_through(table: MemoryGlobalTable, held: list[Transit]) -> None:
    """Let what was held back arrive after all."""
    table.heal()
    table._world.links[EAST, WEST].extend(held)
    table.replicate()


async def move(table: MemoryGlobalTable, home: str) -> None:
    """Move home."""
    stores = {region: table.store(region) for region in table.settings.regions}
    writer = ContractWriter(stores, clock=table.clock, poll_seconds=5.0)
    await table._while_time_passes(lambda: writer.change(lambda one: replace(one.terms, home=home)))
    await table.pass_time(61)


async def lose(table: MemoryGlobalTable, home: str = WEST, lost: str = EAST) -> None:
    """Give a region up, home or not, and go on with another as home."""
    table.isolate(lost)
    stores = {region: table.store(region) for region in table.settings.regions if region != lost}
    writer = ContractWriter(stores, clock=table.clock, poll_seconds=5.0)
    await table._while_time_passes(lambda: writer.take_over(home, lost=[lost]))
    await table.pass_time(61)


async def value(ledger: Ledger) -> int:
    """Return the total of the counter under test."""
    return int((await ledger.total("c", max_age=0)).value)


async def reverse(ledger: Ledger, entry: Entry) -> Entry:
    """Reverse the entry under test."""
    return await ledger.reverse(entry)


async def reconcile(ledger: Ledger, _entry: Entry) -> object:
    """Correct the counter under test to 0, under one token."""
    return await ledger.reconcile("c", counted=0, token="count-1")


BOTH = pytest.mark.parametrize("call", [reverse, reconcile])


def repeated(made: object) -> bool:
    """Return whether what a call returned was made before."""
    return bool(getattr(made, "repeated"))  # noqa: B009 (of either kind)


@BOTH
@pytest.mark.parametrize("how", ["move", "lose"])
async def test_an_entry_that_arrived_without_its_record_is_not_made_again(
    call: Call, how: str
) -> None:
    """Any region's copy of it is the proof, also once the record has come after all."""
    table = made_table()
    async with table.ledger(EAST) as east, table.ledger(WEST) as west:
        entry = await east.record("c", 10)
        table.replicate()
        await call(east, entry)
        held = hold_back(table, is_record)
        assert held
        await (move(table, WEST) if how == "move" else lose(table))
        assert repeated(await call(west, entry))
        await let_through(table, held)
        assert repeated(await call(west, entry))
        assert await value(west) == 0


@BOTH
async def test_an_entry_that_is_in_the_former_home_alone_is_not_made_again(call: Call) -> None:
    """However far replication is behind: every region is looked at."""
    table = made_table()
    async with table.ledger(EAST) as east, table.ledger(WEST) as west:
        entry = await east.record("c", 10)
        table.replicate()
        await call(east, entry)
        held = hold_back(table, lambda _: True)
        await move(table, WEST)
        assert repeated(await call(west, entry))
        await let_through(table, held)
        assert await value(west) == 0


@BOTH
async def test_of_a_lost_home_nothing_is_made_again_while_it_may_arrive(call: Call) -> None:
    """A record is not believed; the call is refused for a day, and then made."""
    table = made_table()
    async with table.ledger(EAST) as east, table.ledger(WEST) as west:
        entry = await east.record("c", 10)
        table.replicate()
        await call(east, entry)
        hold_back(table, is_entry)
        await lose(table)
        with pytest.raises(StateConflict, match="may be on its way from a region") as refused:
            await call(west, entry)
        assert (refused.value.outcome, refused.value.retryable) == ("unknown", True)
        assert await value(west) == 10
        await table.pass_time(REMEMBERED_SECONDS)
        assert not repeated(await call(west, entry))
        assert repeated(await call(west, entry))
        assert await value(west) == 0


@BOTH
async def test_what_arrives_late_from_a_lost_home_is_found(call: Call) -> None:
    """It is no reason to make it a second time, that it was refused before."""
    table = made_table()
    async with table.ledger(EAST) as east, table.ledger(WEST) as west:
        entry = await east.record("c", 10)
        table.replicate()
        await call(east, entry)
        held = hold_back(table, lambda key: is_entry(key) or is_record(key))
        await lose(table)
        with pytest.raises(StateConflict, match="may be on its way"):
            await call(west, entry)
        await let_through(table, held)
        assert repeated(await call(west, entry))
        assert await value(west) == 0


async def test_what_is_newer_than_a_loss_waits_for_nothing() -> None:
    """A lost region cannot have reversed it, nor counted by a token of now."""
    table = made_table()
    async with table.ledger(WEST) as west:
        await lose(table)
        await table.pass_time(61)
        entry = await west.record("c", 10)
        assert (await west.reverse(entry)).change == -10
        table.clock.pass_by(1)
        assert (await west.reconcile("c", counted=4)).change == 4
        table.clock.pass_by(1)
        at = table.clock.now()
        table.clock.pass_by(1)
        assert (await west.reconcile("c", counted=5, at=at)).change == 1


async def test_a_later_count_is_known_after_a_move() -> None:
    """An earlier one is refused, though what home kept of the later one is on its way."""
    table = made_table()
    async with table.ledger(EAST) as east, table.ledger(WEST) as west:
        await east.record("c", 10)
        table.replicate()
        early = table.clock.now()
        await table.pass_time(1)
        await east.reconcile("c", counted=7)
        hold_back(table, is_record)
        await move(table, WEST)
        with pytest.raises(ValueError, match="is not later"):
            await west.reconcile("c", counted=9, at=early)
        assert await value(west) == 7


@BOTH
async def test_a_region_that_cannot_be_read_is_waited_for(call: Call) -> None:
    """What only it shows would be made again."""
    table = made_table()
    async with table.ledger(EAST) as east:
        entry = await east.record("c", 10)
        table.replicate()
        table.isolate(WEST)
        with pytest.raises(RegionUnreadable, match=WEST):
            await call(east, entry)
        table.heal()
        await call(east, entry)
        assert await value(east) == 0


@BOTH
async def test_merged_it_is_found_by_the_net_and_then_not_known(call: Call) -> None:
    """A net proves what it names; without an archive nothing proves more, and nothing is made."""
    table = MemoryGlobalTable([EAST, WEST], compactor={**COMPACTOR, "prune_min": 100})
    async with table.ledger(EAST) as east:
        entry = await east.record("c", 10)
        table.replicate()
        await call(east, entry)
        assert await table.merge() == 2
        assert repeated(await call(east, entry))
        await east.record("c", 1)
        assert await table.merge() == 1
        with pytest.raises(StateConflict, match="in neither table nor archive") as unknown:
            await call(east, entry)
        assert unknown.value.outcome == "unknown"
        assert await value(east) == 1


@BOTH
async def test_it_is_merged_once_every_region_shows_its_record(call: Call) -> None:
    """So it is found in the archive, though its record came from the lost home to no region."""
    world = ArchivedWorld()
    async with world.ledger(HOME) as ledger:
        entry = await ledger.record("c", 10)
        world.replicate()
        await call(ledger, entry)
        world.replicate()
        for replica in world.world.regions.replicas.values():
            for partition in [name for name in replica.table.partitions if is_record((name, ""))]:
                del replica.table.partitions[partition]
        await world.merge(passes=4)
        assert not world.world.shown(HOME).entries
        for replica in world.world.regions.replicas.values():
            assert {"~reverse~c", "~reconcile~c"} & replica.table.partitions.keys()
        assert repeated(await call(ledger, entry))
        assert (await ledger.total("c", max_age=0)).value == 0


async def test_a_record_that_one_region_lacks_is_put_once_more() -> None:
    """Replication brings the write of home, which has it, to the region that never got it."""
    world = ArchivedWorld()
    async with world.ledger(HOME) as ledger:
        entry = await ledger.record("c", 10)
        world.replicate()
        await ledger.reverse(entry)
        world.replicate()
        del world.world.regions.replicas[SOUTH].table.partitions["~reverse~c"]
        await world.merge(passes=4)
        assert not world.world.shown(HOME).entries
        assert "~reverse~c" in world.world.regions.replicas[SOUTH].table.partitions


async def test_a_forged_record_is_replaced() -> None:
    """It leads to no entry that the call could have made; one that does leads to none that is."""
    table = made_table()
    async with table.ledger(EAST) as east:
        first, second = await east.record("c", 10), await east.record("c", 20)
        table.replicate()
        await east.reverse(first)
        items = table.store(EAST).table.partitions["~reverse~c"]  # type: ignore[attr-defined]
        forged = {**items[first.id], "sk": {"S": second.id}, "reverses": {"S": second.id}}
        for record in (forged, {"pk": {"S": "~reverse~c"}, "sk": {"S": second.id}}):
            items[second.id] = record
            made = await east.reverse(second)
            assert not made.repeated
            assert items[second.id]["entry"] == {"S": made.id}
            assert (await east.reverse(second)).repeated
            del table.store(EAST).table.partitions["c"][made.id]  # type: ignore[attr-defined]


async def test_what_came_since_a_merge_is_not_taken_for_what_was_merged() -> None:
    """A lost region's change under the same key may arrive after the other was merged."""
    table = MemoryGlobalTable([EAST, WEST], compactor={**COMPACTOR, "prune_min": 100})
    async with table.ledger(EAST) as east, table.ledger(WEST) as west:
        entry = await east.record("c", 20)
        assert await table.merge() == 1
        await east.record("c", 1)
        table.replicate()
        await lose(table)
        late = {**entry_item(entry), "change": {"N": "10"}}
        table.store(WEST).table.set(("c", entry.id), late)  # type: ignore[attr-defined]
        await table.pass_time(REMEMBERED_SECONDS)
        with pytest.raises(StateConflict, match="may have come since from a region that is gone"):
            await west.reverse(entry)
        assert await value(west) == 21
