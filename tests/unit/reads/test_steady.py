"""Steady totals: of one moment, whatever comes between the pages and shards of a read."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from decimal import Decimal
from itertools import count

import pytest
from support.ledgers import HOME, make_settings, net, seeded

from ledger.core.amounts import total_wide
from ledger.core.entry import entry_id, entry_item
from ledger.core.errors import InvalidInput, ReadTooSlow
from ledger.core.values import Entry
from ledger.runtime.services import Services
from ledger.session.assembly import GivenConnections
from ledger.session.ledger import Ledger
from ledger.store.memory import MemoryStore
from ledger.store.reads import Page, Query
from ledger.testing.clock import START, ManualClock

READ_SECONDS = 0.05


class Adversary(MemoryStore):
    """A store in which something happens behind the reader's back after each page."""

    def __init__(self, clock: ManualClock, *, page_items_max: int = 2) -> None:
        super().__init__(HOME, page_items_max=page_items_max)
        self.clock = clock
        self.after_page: Callable[[int, Query], Awaitable[None]] | None = None
        self._pages = count(1)
        self._numbers = count(1)

    async def query(self, query: Query) -> Page:
        """Read a page, and let it happen."""
        await self.clock.sleep(READ_SECONDS)
        page = await super().query(query)
        if self.after_page is not None:
            await self.after_page(next(self._pages), query)
        return page

    def add(self, counter: str, change: int, *, shard: int = 0, at: float = 0.0) -> None:
        """Write an entry into a shard of a counter."""
        one = entry_id(START + timedelta(seconds=at), next(self._numbers))
        item = entry_item(Entry(counter, str(one), Decimal(change), shard=shard))
        self.table.set((item["pk"]["S"], str(one)), item)


def opened(store: Adversary, **overrides: object) -> Ledger:
    """Return a ledger over the store."""
    settings = make_settings(**overrides)
    return Ledger(
        settings,
        region=HOME,
        given=GivenConnections(store=store),
        services=Services.of(clock=store.clock, randomness=seeded()),
    )


async def test_a_balance_that_is_never_negative_reads_so_only_when_steady() -> None:
    """Between two shards of a look a deposit comes, then a withdrawal: -100 is no state."""
    store = Adversary(ManualClock(instant=True))

    async def spend(page: int, query: Query) -> None:
        if page in {1, 3} and query.partition == "c":
            store.add("c", 100, at=page)
            store.add("c", -100, shard=1, at=page)

    store.after_page = spend
    async with opened(store, shards={"c": 2}) as book:
        seen = await book.total("c", max_age=0)
        steady = await book.total("c", steady=True)
    assert (seen.value, seen.steady) == (Decimal(-100), False)
    assert (steady.value, steady.steady, steady.cached) == (Decimal(0), True, False)


async def test_pages_of_one_shard_are_no_moment_either() -> None:
    """A late withdrawal with an early id is missed, the deposit after it is not."""
    store = Adversary(ManualClock(instant=True))
    for place in range(4):
        store.add("c", 1, at=10 + place)

    async def spend(page: int, _query: Query) -> None:
        if page == 1:
            store.add("c", 100, at=1)
            store.add("c", -100, at=20)

    store.after_page = spend
    async with opened(store) as book:
        seen = await book.total("c", max_age=0)
        assert seen.value == -96
        store.after_page = None
        assert (await book.total("c", steady=True)).value == 4


async def test_steady_totals_of_many_counters_are_of_one_moment() -> None:
    """Money that moves between accounts while they are read is in one of them."""
    store = Adversary(ManualClock(instant=True))
    store.add("a", 100)

    async def move(page: int, _query: Query) -> None:
        if page in {1, 2, 4}:
            store.add("a", -10, at=page)
            store.add("b", 10, at=page)

    store.after_page = move
    async with opened(store) as book:
        found = await book.totals(["a", "b", "a"], steady=True)
    assert list(found) == ["a", "b"]
    assert total_wide(total.value for total in found.values()) == 100
    first, second = found.values()
    assert (first.as_of, first.ended) == (second.as_of, second.ended)
    async with opened(store) as book:
        assert await book.totals([], steady=True) == {}


async def test_merging_does_not_disturb_a_steady_read() -> None:
    """Looks that differ by a fold alone count the same changes."""
    store = Adversary(ManualClock(instant=True))
    for place in range(4):
        store.add("c", 5, at=place)
    ids = [entry_id(START + timedelta(seconds=place), place + 1) for place in range(4)]
    looks = 0

    async def fold(_page: int, query: Query) -> None:
        nonlocal looks
        looks += query.after is None
        store.table.set(("c", "~net#0001"), net("c", 20, ids))

    store.after_page = fold
    async with opened(store) as book:
        total = await book.total("c", steady=True)
    assert (total.value, total.entries, total.merged) == (Decimal(20), 0, 4)
    assert looks == 2


async def test_the_window_of_a_total() -> None:
    """A total says when it was read; a steady one between which moments it held."""
    store = Adversary(ManualClock(instant=True))
    store.add("c", 1)
    async with opened(store) as book:
        total = await book.total("c", max_age=0)
        assert total.ended - total.as_of == timedelta(seconds=READ_SECONDS)
        began = store.clock.now()
        steady = await book.total("c", steady=True)
    assert steady.as_of == steady.ended == began + timedelta(seconds=READ_SECONDS)


async def test_a_counter_that_is_written_all_the_time_has_no_steady_total() -> None:
    """The read ends by its deadline with an error that names counters, region and bound."""
    store = Adversary(ManualClock(instant=True), page_items_max=1000)

    async def write(page: int, _query: Query) -> None:
        store.add("c", 1, at=page)

    store.after_page = write
    async with opened(store, read_deadline=2, observation_delay=10) as book:
        started = store.clock.now()
        with pytest.raises(ReadTooSlow, match=rf"looks at 'c' in {HOME} .*read_deadline \(2 s\)"):
            await book.total("c", steady=True)
        assert timedelta(seconds=2) <= store.clock.now() - started < timedelta(seconds=5)
        with pytest.raises(ReadTooSlow, match="'c', 'c1', 'c2' and 2 more"):
            await book.totals(["c", "c1", "c2", "c3", "c4"], steady=True)


@pytest.mark.parametrize("call", ["total", "totals"])
async def test_a_steady_total_is_never_cached(call: str) -> None:
    """An age makes no sense with it, and is refused; the cache is left alone."""
    store = Adversary(ManualClock(instant=True))
    store.add("c", 1)
    async with opened(store) as book:
        with pytest.raises(InvalidInput, match="leave out max_age, got 5"):
            await getattr(book, call)("c" if call == "total" else ["c"], max_age=5, steady=True)
        assert (await book.total("c", max_age=0, steady=True)).value == 1
        assert not (await book.total("c", max_age=60)).cached
