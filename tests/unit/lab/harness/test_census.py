"""A census of a region's table."""

from support.ledgers import HOME, net

from ledger.core.entry import Item
from ledger.core.ids import parse
from ledger.lab.harness.census import take_census
from ledger.store.memory import MemoryStore
from ledger.store.writes import Put

ID = "2026-11-21T06:50:01.123456Z#4f1d2c3b5a697887"


def entry(partition: str, sort_key: str) -> Item:
    """Return an entry."""
    return {"pk": {"S": partition}, "sk": {"S": sort_key}, "change": {"N": "1"}}


async def test_entries_and_nets_are_counted_by_collection() -> None:
    """Shards are collections of their own; leases, cursors and the like are none."""
    merged = parse(ID)
    assert merged is not None
    store = MemoryStore(HOME)
    for item in (
        entry("a", ID),
        entry("a", "foreign"),
        net("a", 5, [merged]),
        entry("~1~a", ID),
        entry("~lease", "compactor"),
    ):
        await store.write(Put(item))
    census = await take_census(store)
    assert census.entries == {"a": 2, "~1~a": 1}
    assert census.nets == {"a": 1}
    assert census.merged == 1
    assert census.partitions == {"a", "~1~a"}
