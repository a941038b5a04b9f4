import asyncio
import random
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from ledger.local.engines.memory.engine import MemoryEngine
from ledger.local.engines.port import ApiError, ItemChange, TableKey
from ledger.local.replication.journal import Journal
from ledger.local.replication.links import LinkHold
from ledger.local.replication.replicator import LinkDelays, Replicator
from ledger.local.replication.stamps import Shipment

EAST, WEST, ASIA = REGIONS = ("us-east-1", "eu-west-1", "ap-southeast-1")
TABLE = "ledger"
KEY = TableKey(("pk",), ("S",))
WAIT_SECONDS = 20.0


class Tables:
    """One table with a replica in every region, of one group."""

    def __init__(self) -> None:
        self.number = 1
        self.made_again: dict[str, int] = {}

    def replicas(self, region: str, name: str) -> Iterable[str]:
        """Return all regions."""
        del region, name
        return REGIONS

    def key(self, region: str, name: str) -> TableKey:
        """Return the key schema."""
        del region, name
        return KEY

    def group(self, region: str, name: str) -> int:
        """Return the number of the table that a region has now."""
        del name
        return self.made_again.get(region, self.number)


class World:
    """A replicator over the embedded engine, without lag."""

    def __init__(self, *, tombstones_max: int, journal: Journal | None = None) -> None:
        self.engine = MemoryEngine()
        self.tables = Tables()
        self.replicator = Replicator(
            REGIONS,
            self.engine,
            tables=self.tables,
            delays=LinkDelays.seeded(0.0, 0.0, 7),
            tombstones_max=tombstones_max,
            journal=journal,
        )

    async def put(self, region: str, pk: str, value: int = 0) -> None:
        """Put an item in a region."""
        async with self.replicator.locks[region]:
            await self.put_locked(region, pk, value)

    async def put_locked(self, region: str, pk: str, value: int = 0) -> None:
        """Put an item in a region whose lock is held."""
        item = {"pk": {"S": pk}, "n": {"N": str(value)}}
        await self._call(region, "PutItem", {"Item": item})

    async def delete_locked(self, region: str, pk: str, *, anyway: int | None = None) -> None:
        """Delete an item in a region whose lock is held; first put it with a number, if given."""
        if anyway is not None:
            await self.put_locked(region, pk, anyway)
        await self._call(region, "DeleteItem", {"Key": {"pk": {"S": pk}}})

    async def _call(self, region: str, operation: str, request: dict[str, Any]) -> None:
        answer = await self.engine.call(region, operation, {"TableName": TABLE, **request})
        self.replicator.committed(region, answer.changes)

    async def shown(self, region: str) -> dict[str, str]:
        """Return the numbers of the items that a region has, by their keys."""
        items = await self.engine.dump(region, TABLE)
        return {change.key["pk"]["S"]: change.image["n"]["N"] for change in items if change.image}

    async def settle(self) -> None:
        """Wait until nothing is on its way."""
        async with asyncio.timeout(WAIT_SECONDS):
            await self.replicator.wait_replicated()


@asynccontextmanager
async def open_world(
    *, tombstones_max: int = 100, journal: Journal | None = None
) -> AsyncIterator[World]:
    """Run a world of three regions with one table."""
    world = World(tombstones_max=tombstones_max, journal=journal)
    await world.engine.start(REGIONS)
    for region in REGIONS:
        await world.engine.create(region, TABLE, KEY)
    running = asyncio.ensure_future(world.replicator.run())
    try:
        yield world
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def until_handed_over(world: World, source: str, target: str) -> None:
    """Wait until a link has taken what it carries out of its queue, and wants the lock."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not world.replicator.link(source, target)._handing:  # noqa: ASYNC110 (a link says nothing)
            await asyncio.sleep(0)


async def test_a_deleted_item_stays_deleted_while_an_older_put_waits_for_a_lock() -> None:
    """Tombstones are kept as long as a batch that was taken from its queue is not applied."""
    async with open_world(tombstones_max=0) as world:
        async with world.replicator.locks[WEST]:
            await world.put(EAST, "a", 1)
            await until_handed_over(world, EAST, WEST)
            await world.put_locked(WEST, "a", 2)
            await world.delete_locked(WEST, "a")
            async with asyncio.timeout(WAIT_SECONDS):
                for source in (EAST, WEST):
                    for target in {EAST, ASIA} - {source}:
                        await world.replicator.link(source, target).until_idle()
        await world.settle()
        assert [await world.shown(region) for region in REGIONS] == [{}] * 3


async def test_tombstones_are_forgotten_once_nothing_is_on_its_way() -> None:
    """More tombstones than the bound are gone as soon as every region has all."""
    async with open_world(tombstones_max=1) as world:
        for pk in "abc":
            await world.put(EAST, pk)
            async with world.replicator.locks[EAST]:
                await world.delete_locked(EAST, pk)
        await world.settle()
        assert world.replicator._versions.tombstones == 0


async def test_an_item_of_a_table_that_is_gone_reaches_no_table_of_its_name() -> None:
    """What is on its way when its table is deleted and made again is dropped on arrival."""
    async with open_world() as world:
        async with world.replicator.locks[WEST]:
            await world.put(EAST, "old")
            await until_handed_over(world, EAST, WEST)
            world.tables.number = 2
        await world.put(EAST, "new")
        await world.settle()
        assert await world.shown(WEST) == {"new": "0"}
        assert world.replicator.dropped > 0


@pytest.mark.parametrize("region", [EAST, WEST])
async def test_an_item_needs_its_table_in_both_regions(region: str) -> None:
    """A table that was made again in one of them only gets nothing of the one before."""
    async with open_world() as world:
        async with world.replicator.locks[WEST]:
            await world.put(EAST, "old")
            await until_handed_over(world, EAST, WEST)
            world.tables.made_again[region] = 2
        await world.settle()
        assert await world.shown(WEST) == {}


async def test_an_item_that_could_not_be_applied_is_applied_later() -> None:
    """After an error the item is still newer than what the region has."""
    async with open_world() as world:
        apply = world.engine.apply
        failing = [WEST, WEST, WEST]

        async def unreliable(region: str, changes: list[ItemChange]) -> None:
            if region in failing:
                failing.remove(region)
                raise OSError("the engine is away")
            await apply(region, changes)

        world.engine.apply = unreliable  # type: ignore[method-assign, assignment]
        await world.put(EAST, "a", 1)
        await world.settle()
        assert not failing
        assert [await world.shown(region) for region in REGIONS] == [{"a": "1"}] * 3


async def test_what_cannot_be_kept_on_disk_replicates_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write whose keeping fails is answered with an error, but is in every region."""
    journal = Journal.open(tmp_path)
    keep, failing = journal.keep, [True]

    def full(region: str, shipments: list[Shipment]) -> None:
        if failing and failing.pop():
            raise ApiError("InternalServerError", "the disk is full", status=500)
        keep(region, shipments)

    monkeypatch.setattr(journal, "keep", full)
    async with open_world(journal=journal) as world:
        with pytest.raises(ApiError, match="the disk is full"):
            await world.put(EAST, "a", 1)
        async with world.replicator.locks[EAST]:
            request = {"TableName": TABLE, "Item": {"pk": {"S": "b"}, "n": {"N": "2"}}}
            answer = await world.engine.call(EAST, "PutItem", request)
            failing.append(True)
            with pytest.raises(ApiError, match="the disk is full"):
                world.replicator.committed(EAST, answer.changes, keep_too=lambda: full(EAST, []))
        await world.settle()
        assert [await world.shown(region) for region in REGIONS] == [{"a": "1", "b": "2"}] * 3
    journal.close()


async def test_tombstones_that_cannot_be_forgotten_on_disk_are_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They stay, and replication goes on."""
    journal = Journal.open(tmp_path)

    def full() -> None:
        raise ApiError("InternalServerError", "the disk is full", status=500)

    monkeypatch.setattr(journal, "forget_tombstones", full)
    async with open_world(tombstones_max=0, journal=journal) as world:
        async with world.replicator.locks[EAST]:
            await world.delete_locked(EAST, "a", anyway=1)
        await world.settle()
        await world.put(WEST, "b")
        await world.settle()
        assert [await world.shown(region) for region in REGIONS] == [{"b": "0"}] * 3
    journal.close()


async def test_a_region_that_lost_its_tables_is_filled_again() -> None:
    """It gets what others have, at once, and its own writes that are still on their way."""
    async with open_world() as world:
        await world.put(EAST, "everywhere")
        await world.settle()
        for target in (EAST, ASIA):
            await world.replicator.link(WEST, target).hold(LinkHold.PAUSED)
        await world.put(WEST, "own")
        await world.engine.restart(WEST)
        got = await world.replicator.refill(WEST, TABLE, [EAST, ASIA])
        assert got.present == {("everywhere",), ("own",)}
        assert await world.shown(WEST) == {"everywhere": "0", "own": "0"}
        for target in (EAST, ASIA):
            world.replicator.link(WEST, target).release(LinkHold.PAUSED)
        await world.settle()
        assert await world.shown(EAST) == {"everywhere": "0", "own": "0"}


async def test_a_region_that_is_cut_off_is_filled_once_it_is_reached() -> None:
    """A partition holds for the filling too: what lies behind it is on its way, and not lost."""
    async with open_world() as world:
        await world.put(EAST, "a")
        await world.settle()
        for source in (EAST, ASIA):
            await world.replicator.link(source, WEST).hold(LinkHold.PAUSED)
        await world.engine.restart(WEST)
        got = await world.replicator.refill(WEST, TABLE, [EAST, ASIA])
        assert not got.present
        assert got.known == {("a",)}
        assert await world.shown(WEST) == {}
        world.replicator.link(EAST, WEST).release(LinkHold.PAUSED)
        world.replicator.link(ASIA, WEST).release(LinkHold.PAUSED)
        await world.settle()
        assert await world.shown(WEST) == {"a": "0"}


async def test_a_region_whose_items_were_kept_loses_none(tmp_path: Path) -> None:
    """What no other region has comes back from the journal, and what was deleted does not."""
    journal = Journal.open(tmp_path)
    async with open_world(journal=journal) as world:
        for target in (EAST, ASIA):
            await world.replicator.link(WEST, target).hold(LinkHold.PAUSED)
        await world.put(WEST, "own", 1)
        await world.put(WEST, "gone")
        async with world.replicator.locks[WEST]:
            await world.delete_locked(WEST, "gone")
        world.replicator.clear()
        await world.engine.restart(WEST)
        got = await world.replicator.refill(WEST, TABLE, [])
        assert got.present == {("own",)}
        assert await world.shown(WEST) == {"own": "1"}
    journal.close()


@pytest.mark.parametrize(("origin", "other"), [(EAST, ASIA), (ASIA, EAST)])
async def test_what_others_have_newer_is_sent_again(
    tmp_path: Path, origin: str, other: str
) -> None:
    """After a start each item goes from where it was written last to those that lack it."""
    journal = Journal.open(tmp_path)
    async with open_world(journal=journal) as world:
        await world.put(origin, "everywhere")
        await world.settle()
        await world.replicator.link(origin, WEST).hold(LinkHold.PAUSED)
        await world.put(origin, "new")
        await world.put(origin, "everywhere", 1)
        async with asyncio.timeout(WAIT_SECONDS):
            await world.replicator.link(origin, other).until_idle()
    async with open_world(journal=journal) as world:
        for region in REGIONS:
            await world.replicator.restore(region, TABLE)
        assert await world.shown(WEST) == {"everywhere": "0"}
        world.replicator.resend(TABLE, REGIONS)
        waiting = {(link.source, link.target): link.waiting for link in world.replicator.links}
        assert {pair for pair, count in waiting.items() if count} == {(origin, WEST)}
        await world.settle()
        assert await world.shown(WEST) == {"everywhere": "1", "new": "0"}
    journal.close()


@pytest.mark.parametrize("seed", range(6))
async def test_the_last_write_of_each_item_is_everywhere_whatever_fails(seed: int) -> None:
    """Deliveries that fail, partitions, regions that lose all and tombstones forgotten early."""
    chosen = random.Random(seed)  # noqa: S311 (a repeatable plan)
    async with open_world(tombstones_max=0) as world:
        apply = world.engine.apply

        async def unreliable(region: str, changes: list[ItemChange]) -> None:
            if chosen.random() < 0.2:
                await apply(region, changes[: len(changes) // 2])
                raise OSError("the engine is away")
            await apply(region, changes)

        world.engine.apply = unreliable  # type: ignore[method-assign, assignment]
        expected: dict[str, str] = {}
        for number in range(60):
            region, pk = chosen.choice(REGIONS), chosen.choice("abcd")
            match chosen.randrange(8):
                case 0:
                    await world.replicator.link(*chosen.sample(REGIONS, 2)).hold(LinkHold.PAUSED)
                case 1:
                    heal(world)
                case 2:
                    await lose(world, region)
                case 3 | 4:
                    async with world.replicator.locks[region]:
                        await world.delete_locked(region, pk, anyway=number)
                    expected.pop(pk, None)
                case _:
                    await world.put(region, pk, number)
                    expected[pk] = str(number)
            for _ in range(chosen.randrange(4)):
                await asyncio.sleep(0)
        heal(world)
        await world.settle()
        assert [await world.shown(region) for region in REGIONS] == [expected] * 3


def heal(world: World) -> None:
    """Release all links."""
    for link in world.replicator.links:
        link.release(LinkHold.PAUSED)


async def lose(world: World, region: str) -> None:
    """Let a region lose all that it has, and fill it again, as the supervisor does."""
    links = [link for link in world.replicator.links if link.target == region]
    for link in links:
        await link.hold(LinkHold.UNAVAILABLE)
    filled = False
    while not filled:
        await world.engine.restart(region)
        with suppress(OSError):
            await world.replicator.refill(region, TABLE, [r for r in REGIONS if r != region])
            filled = True
    for link in links:
        link.release(LinkHold.UNAVAILABLE)
