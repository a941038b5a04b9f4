"""Listing by prefix: order, pages, shards, exact totals, unmerged counters; the top of a prefix."""

from collections.abc import Iterable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from prometheus_client import CollectorRegistry
from support.ledgers import HOME, make_ledger

from ledger.core.capacity import item_size
from ledger.core.entry import Item
from ledger.core.errors import DamagedItem, InvalidCounter, InvalidInput
from ledger.core.index import TOP_MAX, IndexState, Listed, attributes_of, index_key
from ledger.runtime.metrics import Metrics
from ledger.session.ledger import Ledger
from ledger.session.listings import PAGE_COUNTERS, PAGE_ITEMS_MAX
from ledger.store.memory import MemoryStore
from ledger.store.reads import Page, Query
from ledger.store.wrappers.forwarder import ForwardingStore
from ledger.store.wrappers.meter import MeteredStore
from ledger.testing.clock import START, ManualClock

UNICODE = ["Z", "a", "a b", "a/1", "a/10", "a/2", "aé", "b", "é", "\ue000", "\U0001f600"]
"""In bytes order; in the order of UTF-16, in which some languages sort, the last two change."""


def put(store: MemoryStore, counter: str, value: int, *, shard: int = 0, count: int = 1) -> None:
    """Let the index of a store say what a collection came to."""
    key = index_key(f"~{shard}~{counter}" if shard else counter, 1)
    assert key is not None
    state = IndexState(1 if count else 0, count, Decimal(value))
    item: Item = {"pk": {"S": key[0]}, "sk": {"S": key[1]}, **attributes_of(state, START)}
    store.table.set(key, item)


def store_of(values: dict[str, int], *, page_items_max: int = 1000) -> MemoryStore:
    """Return a store whose index has these counters."""
    store = MemoryStore(HOME, page_items_max=page_items_max)
    for counter, value in values.items():
        put(store, counter, value)
    return store


class Counted(ForwardingStore):
    """A store that counts the items and bytes that queries return."""

    read_bytes = 0
    items = 0

    async def query(self, query: Query) -> Page:
        """Read a page."""
        page = await super().query(query)
        self.items += len(page.items)
        self.read_bytes += sum(map(item_size, page.items))
        return page


def ledger_over(store: Any, **overrides: Any) -> Ledger:
    """Return a ledger of a table whose index is of all counters."""
    return make_ledger(store, **{"index": ("*",), **overrides})


class Asked(ForwardingStore):
    """A store that notes how many items each query asks for."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self.limits = set[int | None]()

    async def query(self, query: Query) -> Page:
        """Read a page."""
        self.limits.add(query.limit)
        return await super().query(query)


async def names(ledger: Ledger, prefix: str = "", **options: Any) -> list[str]:
    """Return the counters that are listed."""
    return [counter.counter async for counter in ledger.counters(prefix, **options)]


def named(found: Iterable[Listed]) -> list[tuple[str, int]]:
    """Return names and values."""
    return [(listed.counter, int(listed.value)) for listed in found]


@pytest.mark.parametrize("page_items_max", [1, 2, 1000])
async def test_counters_are_listed_in_bytes_order_whatever_the_pages(page_items_max: int) -> None:
    """All partitions are merged as they are read."""
    store = store_of(dict.fromkeys(reversed(UNICODE), 1), page_items_max=page_items_max)
    async with ledger_over(store) as ledger:
        assert await names(ledger) == UNICODE
        assert await names(ledger, "a") == ["a", "a b", "a/1", "a/10", "a/2", "aé"]
        assert await names(ledger, "a/1") == ["a/1", "a/10"]
        assert await names(ledger, "x") == []


@pytest.mark.parametrize("limit", [1, 2, 3, 11, 12])
async def test_page_after_page_is_the_whole_list(limit: int) -> None:
    """The last of a page is the cursor of the next; nothing is left out or twice, shards too."""
    store = store_of(dict.fromkeys(UNICODE, 1), page_items_max=2)
    for shard in range(1, 5):
        put(store, "a", 1, shard=shard)
    found: list[str] = []
    async with ledger_over(store) as ledger:
        for _ in range(len(UNICODE) + 1):
            page = await names(ledger, limit=limit, after=found[-1] if found else None)
            found += page
            if len(page) < limit:
                break
    assert found == UNICODE


async def test_the_cursor_need_not_be_listed() -> None:
    """It is a place in the order."""
    async with ledger_over(store_of({"b/1": 1, "b/2": 2, "b/3": 3})) as ledger:
        assert await names(ledger, "b/", after="b/15") == ["b/2", "b/3"]


@pytest.mark.parametrize("after", ["a", "c/1"])
async def test_the_cursor_of_another_prefix_is_refused(after: str) -> None:
    """After `c/1` there is nothing of `b/`: all of it would be skipped in silence."""
    async with ledger_over(store_of({"b/1": 1, "c/1": 1})) as ledger:
        with pytest.raises(InvalidCounter, match=f"begin with the prefix 'b/', .* got '{after}'"):
            await names(ledger, "b/", after=after)


@pytest.mark.parametrize("page_items_max", [1, 3, 1000])
async def test_shards_are_one_counter(page_items_max: int) -> None:
    """Their values and counts are summed, across pages."""
    store = store_of({"votes": 5, "votes/x": 1}, page_items_max=page_items_max)
    for shard in range(1, 8):
        put(store, "votes", -1, shard=shard, count=2)
    async with ledger_over(store) as ledger:
        found = [counter async for counter in ledger.counters()]
    assert named(found) == [("votes", -2), ("votes/x", 1)]
    assert (found[0].count, found[0].as_of) == (15, START)


async def test_values_are_frozen() -> None:
    """What was listed cannot be changed by hand."""
    async with ledger_over(store_of({"a": 1})) as ledger:
        (one,) = [counter async for counter in ledger.counters()]
    with pytest.raises(AttributeError):
        one.value = Decimal(2)  # type: ignore[misc]
    assert not one.is_exact


async def test_exact_reads_the_totals_of_a_page() -> None:
    """As `totals` does: what the index does not know yet is in them."""
    async with ledger_over(store_of({"a": 1, "b": 2, "c": 3})) as ledger:
        await ledger.record("b", 40)
        found = [counter async for counter in ledger.counters(exact=True)]
        assert named(found) == [("a", 0), ("b", 40), ("c", 0)]
        assert [listed.count for listed in found] == [0, 1, 0]
        assert all(listed.is_exact and listed.as_of > START - timedelta(1) for listed in found)
        assert named([counter async for counter in ledger.counters()]) == [
            ("a", 1),
            ("b", 2),
            ("c", 3),
        ]


async def test_an_unmerged_counter_is_read_in_any_case() -> None:
    """The index has its name alone."""
    store = store_of({"a": 1})
    put(store, "audit", 0, count=0)
    async with ledger_over(store, unmerged=("audit",)) as ledger:
        await ledger.record("audit", 9)
        found = [counter async for counter in ledger.counters()]
        assert named(found) == [("a", 1), ("audit", 9)]
        assert [listed.is_exact for listed in found] == [False, True]
        assert named(await ledger.top("")) == [("audit", 9), ("a", 1)]


async def test_descriptions_are_attached_where_they_are_asked_for() -> None:
    """One without any has an empty one; not asked for, there is none."""
    async with ledger_over(store_of({"a": 1, "b": 2})) as ledger:
        await ledger.describe("b", {"owner": "team-7"})
        found = [counter async for counter in ledger.counters(described=True)]
        assert [listed.description for listed in found] == [{}, {"owner": "team-7"}]
        assert [counter.description async for counter in ledger.counters()] == [None, None]


async def test_a_prefix_that_is_not_indexed_is_an_error() -> None:
    """It names the prefix and the patterns; nothing is read."""
    async with ledger_over(store_of({"a": 1}), index=("votes/*",)) as ledger:
        for call in (names(ledger, "a"), ledger.top("a")):
            with pytest.raises(InvalidInput, match=r"'a' are not indexed: .* has 'votes/\*'"):
                await call
        assert await names(ledger, "votes/") == []


@pytest.mark.parametrize("limit", [0, -1, True, 2.5, "3"])
async def test_a_limit_is_a_whole_number(limit: object) -> None:
    """And at least 1."""
    async with ledger_over(store_of({"a": 1})) as ledger:
        with pytest.raises(InvalidInput, match="limit must be 1 or more"):
            await names(ledger, limit=limit)


async def test_the_cursor_follows_the_rules_of_counters() -> None:
    """An error calls it `after`."""
    async with ledger_over(store_of({"a": 1})) as ledger:
        with pytest.raises(InvalidCounter, match="after must not begin"):
            await names(ledger, after="~a")


async def test_an_edited_item_is_named() -> None:
    """The list does not pass it over in silence."""
    store = store_of({"a": 1})
    key = index_key("a", 1)
    assert key is not None
    store.table.set(key, {"pk": {"S": key[0]}, "sk": {"S": key[1]}})
    async with ledger_over(store) as ledger:
        with pytest.raises(DamagedItem, match="item 'a'"):
            await names(ledger)


VALUES = {"a": 3, "b": -5, "c": 0, "d": 10, "e": -1, "f": 3}


async def test_the_top_of_a_prefix() -> None:
    """The largest first; of equal ones the id that comes first; or the smallest."""
    store = store_of({f"p/{counter}": value for counter, value in VALUES.items()} | {"q": 99})
    async with ledger_over(store) as ledger:
        assert named(await ledger.top("p/", 3)) == [("p/d", 10), ("p/a", 3), ("p/f", 3)]
        assert named(await ledger.top("p/", 2, smallest=True)) == [("p/b", -5), ("p/e", -1)]
        assert len(await ledger.top("")) == 7
        assert await ledger.top("x") == []


async def test_others_go_on_while_a_long_list_is_ranked() -> None:
    """A page of the index may have thousands of counters."""
    turns, is_over = 0, anyio.Event()

    async def count() -> None:
        nonlocal turns
        while not is_over.is_set():
            await anyio.lowlevel.checkpoint()
            turns += 1

    store = store_of({f"p/{number}": number for number in range(10 * PAGE_COUNTERS)})
    async with ledger_over(store) as ledger, anyio.create_task_group() as tasks:
        await ledger.top("p/")
        tasks.start_soon(count)
        await ledger.top("p/")
        is_over.set()
    assert turns >= 10


async def test_an_exact_top_is_that_of_all_totals() -> None:
    """The largest too that the index ranks last, since its changes are not merged yet."""
    many = {f"p/{number:03}": 500 - number for number in range(250)}
    async with ledger_over(store_of(many)) as ledger:
        for number, change in ((249, 100), (248, 99), (0, 1)):
            await ledger.record(f"p/{number:03}", change)
        top = await ledger.top("p/", 2, exact=True)
        assert named(top) == [("p/249", 100), ("p/248", 99)]
        assert all(one.is_exact for one in top)
        assert named(await ledger.top("p/", 1)) == [("p/000", 500)]


async def test_an_exact_top_of_many_counters_is_refused() -> None:
    """Before a total is read; by merged changes it can be had."""
    store = Counted(store_of({f"p/{number:04}": number for number in range(TOP_MAX + 1)}))
    async with ledger_over(store) as ledger:
        with pytest.raises(InvalidInput, match="over 1,000 counters begin with 'p/'"):
            await ledger.top("p/", exact=True)
        assert store.items == TOP_MAX + 1
        assert named(await ledger.top("p/", 1)) == [("p/1000", 1000)]
        assert len(await ledger.top("p/0", 1_000, exact=True)) == 1_000


@pytest.mark.parametrize("count", [0, 1001, True, "3"])
async def test_the_number_of_the_top_is_bounded(count: Any) -> None:
    """1 to 1,000."""
    async with ledger_over(store_of({"a": 1})) as ledger:
        with pytest.raises(InvalidInput, match="n must be 1 to 1,000"):
            await ledger.top("", count)


async def units_of_listing(counters: int, **options: Any) -> tuple[float, int, int]:
    """Return the read units of listing so many counters, and the items and bytes read."""
    inner = store_of({f"usage/customer-{number:08d}": number for number in range(counters)})
    store, registry = Counted(inner), CollectorRegistry()
    metered = MeteredStore(
        store, metrics=(metrics := Metrics.of(registry)), clock=ManualClock(instant=True)
    )
    async with ledger_over(metered) as ledger:
        found = await names(ledger, **options)
    assert len(found) == options.get("limit", counters)
    units = metrics.consumed_units.labels(HOME, "query", "read")._value.get()
    return units, store.items, store.read_bytes


async def test_listing_costs_half_a_unit_for_each_4_kb_of_the_index() -> None:
    """10,000 counters: 1.3 MB, which is 163 units and no more than a page's rounding beyond."""
    units, items, read_bytes = await units_of_listing(10_000)
    assert items == 10_000
    assert read_bytes / 10_000 < 140
    pages = 4 * 3
    assert read_bytes / 8192 <= units <= read_bytes / 8192 + pages / 2


async def test_a_page_of_a_list_does_not_read_the_whole() -> None:
    """50 of 10,000: what each partition holds of them, and some to spare."""
    units, items, _ = await units_of_listing(10_000, limit=50)
    assert items < 200
    assert units <= 4


async def test_a_page_of_the_index_has_few_items() -> None:
    """Whatever is asked for: a megabyte of them would hold up all others."""
    store = Asked(store_of({f"c{number}": number for number in range(10)}))
    async with ledger_over(store) as ledger:
        await ledger.top("", 3)
        assert len(await names(ledger, limit=100_000)) == 10
        assert store.limits == {PAGE_ITEMS_MAX}
