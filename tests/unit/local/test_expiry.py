import asyncio
from typing import Any

import pytest

from ledger.local.engines.memory.engine import MemoryEngine
from ledger.local.engines.port import TableKey
from ledger.local.expiry import OLDEST_SECONDS, Expiry, is_expired
from ledger.local.front.catalog import FULL_STREAM, Catalog, CatalogTable
from ledger.local.replication.regions import Regions
from ledger.local.replication.replicator import LinkDelays, Replicator

EAST, WEST = REGIONS = ("us-east-1", "eu-west-1")
TABLE = "ledger"
NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"N": "1799999999"}, True),
        ({"N": "1799999999.5"}, True),
        ({"N": "1800000000"}, False),
        ({"N": "1800000001"}, False),
        ({"N": str(int(NOW) - OLDEST_SECONDS)}, True),
        ({"N": str(int(NOW) - OLDEST_SECONDS - 1)}, False),
        ({"N": "0"}, False),
        ({"S": "1799999999"}, False),
        ({"L": [{"N": "1799999999"}]}, False),
        (None, False),
    ],
)
def test_what_expires(value: dict[str, Any] | None, expected: bool) -> None:  # noqa: FBT001
    """A number of seconds that has passed, and that by less than five years."""
    assert is_expired(value, now=NOW) is expected


class World:
    """Two regions with one table on the embedded engine; clocks are set by hand."""

    def __init__(self) -> None:
        self.engine = MemoryEngine()
        self.tables = Catalog(REGIONS)
        self.regions = Regions(REGIONS)
        parts = self.tables, self.engine
        self.replicator = Replicator(
            REGIONS, self.engine, tables=self.tables, delays=LinkDelays.seeded(0, 0, 1)
        )
        self.clocks = dict.fromkeys(REGIONS, NOW)
        self.expiry = Expiry(self.regions, *parts, self.replicator, clock=self.clocks.__getitem__)

    async def open(self, attribute: str | None = "expires") -> "World":
        """Make the table with a replica in each region, its time to live by `attribute`."""
        await self.engine.start(REGIONS)
        first: CatalogTable | None = None
        for region in REGIONS:
            table = CatalogTable(
                name=TABLE,
                region=region,
                key=TableKey(("pk",), ("S",)),
                billing="PAY_PER_REQUEST",
                throughput={},
                warm={},
                stream=FULL_STREAM,
                protected=False,
                created_at=0,
                active_at=0,
                time_to_live=attribute,
            )
            self.tables.add(table, replica_of=first)
            await self.engine.create(region, TABLE, table.key)
            first = first or table
        return self

    async def put(self, pk: str, **attributes: Any) -> None:
        """Put an item into the first region."""
        item = {"pk": {"S": pk}, **attributes}
        answer = await self.engine.call(EAST, "PutItem", {"TableName": TABLE, "Item": item})
        self.replicator.committed(EAST, answer.changes)

    async def keys(self, region: str) -> list[str]:
        """Give the keys of the items of a region."""
        return sorted(change.key["pk"]["S"] for change in await self.engine.dump(region, TABLE))


async def test_only_what_has_expired_is_deleted() -> None:
    """A sweep deletes by the attribute that the table names, and sends the deletes on."""
    world = await World().open()
    await world.put("past", expires={"N": "1799999999"})
    await world.put("future", expires={"N": "1800000001"})
    await world.put("other", until={"N": "1799999999"})
    link = world.replicator.link(EAST, WEST)
    before = link.waiting
    await world.expiry.sweep(EAST)
    assert await world.keys(EAST) == ["future", "other"]
    assert [(it.change.key, it.change.image) for it in link.shipments[before:]] == [
        ({"pk": {"S": "past"}}, None)
    ]
    assert world.expiry.deleted == 1


async def test_each_region_goes_by_its_own_clock() -> None:
    """What has not expired by a region's clock stays there."""
    world = await World().open()
    await world.put("a", expires={"N": "1800000001"})
    world.clocks[WEST] = NOW + 60
    await world.expiry.sweep(EAST)
    assert await world.keys(EAST) == ["a"]
    world.clocks[EAST] = NOW + 60
    await world.expiry.sweep(EAST)
    assert await world.keys(EAST) == []


async def test_without_time_to_live_nothing_is_deleted() -> None:
    """The attribute alone means nothing."""
    world = await World().open(None)
    await world.put("a", expires={"N": "1799999999"})
    await world.expiry.sweep(EAST)
    assert await world.keys(EAST) == ["a"]


async def test_an_item_whose_time_has_changed_meanwhile_stays() -> None:
    """A write between the look and the delete gives the item more time."""
    world = await World().open()
    await world.put("a", expires={"N": "1799999999"})
    await world.put("b", expires={"N": "1799999999"})
    lock = world.replicator.locks[EAST]
    async with lock:
        sweep = asyncio.create_task(world.expiry.sweep(EAST))
        while not lock._waiters:  # noqa: ASYNC110 (no event for it)
            await asyncio.sleep(0)
        for pk in ("a", "b"):
            await world.put(pk, expires={"N": "1800000009"})
    await sweep
    assert await world.keys(EAST) == ["a", "b"]


async def test_a_region_with_an_outage_is_not_swept() -> None:
    """While a region is out nothing happens there; then it catches up."""
    world = await World().open()
    await world.put("a", expires={"N": "1799999999"})
    world.regions.outages.add(EAST)
    await world.expiry.sweep(EAST)
    assert await world.keys(EAST) == ["a"]
    world.regions.outages.clear()
    await world.expiry.sweep(EAST)
    assert await world.keys(EAST) == []
