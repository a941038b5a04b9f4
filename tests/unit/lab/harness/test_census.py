"""A census of a region's table."""

from collections import Counter

from support.ledgers import HOME, net

from ledger.core.entry import Item
from ledger.core.ids import parse
from ledger.demo.harness.census import (
    MERGE_POLL_SECONDS,
    STILL_SECONDS_MAX,
    Census,
    take_census,
    wait_merged,
)
from ledger.store.memory import MemoryStore
from ledger.store.writes import Put
from ledger.testing.clock import ManualClock

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


async def test_merging_ends_with_the_last_entry_or_with_no_progress() -> None:
    """Waited for while a census differs from the one before, and a bounded time if not."""
    clock = ManualClock(instant=True)
    left = [Census(+Counter(a=number)) for number in range(200)]
    started = clock.monotonic()

    async def merging() -> list[Census]:
        return [left.pop()]

    async def stuck() -> list[Census]:
        return [Census(Counter(a=1))]

    await wait_merged(merging, clock)
    assert left == []
    assert clock.monotonic() - started > STILL_SECONDS_MAX
    started = clock.monotonic()
    await wait_merged(stuck, clock)
    waited = clock.monotonic() - started
    assert STILL_SECONDS_MAX <= waited <= STILL_SECONDS_MAX + MERGE_POLL_SECONDS
