"""The feed while items are late, reordered, merged and deleted, and its readers restart."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.combined import combined
from support.ledgers import seeded
from support.tiers import few_fast

from ledger.core.entry import entry_item
from ledger.core.parts import expanded
from ledger.reads.feed.memory import MemoryStream
from ledger.reads.feed.reader import Feed
from ledger.reads.feed.stream_access import SharedStream
from ledger.session.feed import wanted_of
from ledger.session.ledger import Ledger
from ledger.testing import MemoryGlobalTable

REGIONS = ("us-east-1", "eu-west-1")
STEPS = 40
Read = Callable[["Reader"], Awaitable[None]]


@dataclass
class Reader:
    """A follower of one region that keeps its cursor, and may die before it has."""

    ledger: Ledger
    feed: Feed
    random: Random
    cursor: str | None = None
    kept: list[tuple[str, str]] = field(default_factory=list)
    has_more: bool = False

    async def page(self) -> None:
        """Deal with a page; now and then die before cursor and entries are kept together."""
        page = await self.feed.page(
            wanted_of("a", None),
            after=self.cursor,
            since=None,
            limit=self.random.choice([1, 7]),
        )
        self.has_more = page.more
        if self.random.random() < 0.2:
            return
        self.kept += [(entry.counter, entry.id) for entry in page.entries]
        self.cursor = page.cursor

    async def by_id(self) -> None:
        """Read as one would without streams: up to now, from the last id on (a mutant)."""
        for counter in ("a1", "a2"):
            last = max((id_ for name, id_ in self.kept if name == counter), default=None)
            async for entry in self.ledger.history(counter, after=last):
                self.kept.append((entry.counter, entry.id))

    async def whole(self) -> None:
        """Read all that is shown, and leave out what was had (a mutant that polls)."""
        for counter in ("a1", "a2"):
            async for entry in self.ledger.history(counter):
                if (entry.counter, entry.id) not in self.kept:
                    self.kept.append((entry.counter, entry.id))


async def followed(seed: int, read: Read) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Run a small world; return what was written, and what a follower in Europe had at the end."""
    random = seeded(seed)
    table = MemoryGlobalTable(
        REGIONS,
        seed=seed,
        page_items_max=3,
        observation_delay=1,
        compactor={"fold_min": 1, "scan_every": 0},
    )
    stream = MemoryStream(
        "eu-west-1/test", clock=table.clock, shard_records_max=5, page_records_max=2
    )
    table._world.streams["eu-west-1"] = stream
    feed = Feed(SharedStream(stream, table.clock), clock=table.clock)
    written: list[tuple[str, str]] = []
    async with table.ledger("us-east-1") as home, table.ledger("eu-west-1") as away:
        reader = Reader(away, feed, random)
        for _ in range(STEPS):
            match random.randrange(8):
                case 0 | 1 | 2:
                    writer = random.choice([home, away])
                    entry = await writer.record(random.choice(["a1", "a2", "b"]), 1)
                    if entry.counter != "b":
                        written.append((entry.counter, entry.id))
                case 3 if random.random() < 0.5:
                    now, suffix = table.clock.now(), random.getrandbits(64)
                    whole = combined(
                        now, *[1] * random.randrange(1, 5), counter="a1", suffix=suffix
                    )
                    table._world.put(random.choice(REGIONS), entry_item(whole))
                    written += [(part.counter, part.id) for part in expanded(whole)]
                case 3:
                    table.replicate(random.randrange(4))
                case 4:
                    await table.pass_time(random.choice([1, 15]))
                case 5 if random.random() < 0.3:
                    await table.settle()
                    await table.merge()
                case _:
                    await read(reader)
        table.replicate()
        table.clock.pass_by(1)
        left = 5
        while left:
            before = len(reader.kept)
            await read(reader)
            left = 5 if reader.has_more or len(reader.kept) > before else left - 1
    return written, reader.kept


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32))
async def test_each_entry_is_passed_once(seed: int) -> None:
    """To whoever keeps entries and cursor together, however late, reordered or merged it is."""
    written, had = await followed(seed, Reader.page)
    assert sorted(had) == sorted(written)


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(st.integers(0, 2**32))
async def test_each_entry_is_passed_once_in_many_worlds(seed: int) -> None:
    """The same."""
    written, had = await followed(seed, Reader.page)
    assert sorted(had) == sorted(written)


@pytest.mark.parametrize("mutant", few_fast([Reader.by_id, Reader.whole], fast=1))
async def test_a_feed_that_reads_collections_misses_some(mutant: Read) -> None:
    """By the last id it passes over what is late; by polling, what was merged meanwhile."""
    wrong = 0
    for seed in range(8):
        written, had = await followed(seed, mutant)
        wrong += sorted(had) != sorted(written)
    assert wrong >= 2
