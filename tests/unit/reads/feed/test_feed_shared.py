"""Many followers of one process read the stream as one."""

from decimal import Decimal

import pytest

from ledger.core.values import Entry
from ledger.reads.feed import stream_access
from ledger.reads.feed.memory import MemoryStream
from ledger.reads.feed.port import FIRST, OLDEST, ShardListing, ShardRead
from ledger.reads.feed.stream_access import LISTING_SECONDS, SharedStream
from ledger.testing import ManualClock


class Counted:
    """A stream that counts what is asked of it."""

    def __init__(self, clock: ManualClock) -> None:
        self.behind = MemoryStream("s", clock=clock, lineages=1, page_records_max=3)
        self.reads = 0
        self.listings = 0

    async def listing(self, *, is_fresh: bool = False) -> ShardListing:
        """List."""
        self.listings += 1
        return await self.behind.listing(is_fresh=is_fresh)

    async def read(self, shard: str, after: int) -> ShardRead:
        """Read."""
        self.reads += 1
        return await self.behind.read(shard, after)

    def put(self, number: int) -> None:
        """Put an entry."""
        id_ = f"2026-11-21T06:50:01.{number:06d}Z#4f1d2c3b5a697887"
        item = {"pk": {"S": "a"}, "sk": {"S": id_}, "change": {"N": "1"}}
        self.behind.changed(("a", id_), None, item)


async def numbers(stream: SharedStream, shard: str, after: int) -> list[int]:
    """Return the numbers of the entries of a read."""
    return [arrival.number for arrival in (await stream.read(shard, after)).arrivals]


async def test_a_page_is_read_once() -> None:
    """A follower in the middle of it takes its rest; at the end one look a second is enough."""
    clock = ManualClock()
    counted = Counted(clock)
    stream = SharedStream(counted, clock)
    for number in range(4):
        counted.put(number)
    (shard,) = (await stream.listing()).shards
    assert await numbers(stream, shard.id, FIRST) == [1, 2, 3]
    assert await numbers(stream, shard.id, FIRST) == [1, 2, 3]
    assert await numbers(stream, shard.id, 1) == [2, 3]
    assert counted.reads == 1
    assert await numbers(stream, shard.id, 3) == [4]
    assert await numbers(stream, shard.id, 4) == []
    counted.put(9)
    assert await numbers(stream, shard.id, 4) == []
    assert counted.reads == 3
    await clock.advance(1)
    assert await numbers(stream, shard.id, 4) == [5]
    assert counted.reads == 4


async def test_the_oldest_records_are_read_anew() -> None:
    """They pass out of the stream; nor is what another found left the first record."""
    clock = ManualClock()
    counted = Counted(clock)
    stream = SharedStream(counted, clock)
    counted.put(1)
    (shard,) = (await stream.listing()).shards
    for after, reads in ((OLDEST, 1), (OLDEST, 2), (FIRST, 3), (FIRST, 3), (OLDEST, 4)):
        assert await numbers(stream, shard.id, after) == [1]
        assert counted.reads == reads


async def test_a_listing_holds_for_a_while() -> None:
    """Unless it is to be fresh."""
    clock = ManualClock()
    counted = Counted(clock)
    stream = SharedStream(counted, clock)
    await stream.listing()
    await stream.listing()
    assert counted.listings == 1
    await stream.listing(is_fresh=True)
    await clock.advance(LISTING_SECONDS)
    await stream.listing()
    assert counted.listings == 3


async def test_what_is_dropped_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest page goes, and those after it stay for as long as there is room."""
    monkeypatch.setattr(stream_access, "KEPT_MAX", 6)
    clock = ManualClock()
    counted = Counted(clock)
    stream = SharedStream(counted, clock)
    for number in range(12):
        counted.put(number)
    (shard,) = (await stream.listing()).shards
    for after in (OLDEST, 3, 6, 9):
        await stream.read(shard.id, after)
    assert counted.reads == 4
    assert await numbers(stream, shard.id, 6) == [7, 8, 9]
    assert await numbers(stream, shard.id, 9) == [10, 11, 12]
    assert counted.reads == 4
    assert await numbers(stream, shard.id, OLDEST) == [1, 2, 3]
    assert counted.reads == 5


def test_an_entry_is_small_in_memory() -> None:
    """What is kept is entries, not whole images."""
    assert not hasattr(Entry("a", "b", Decimal(1)), "__dict__")
