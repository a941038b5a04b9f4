"""A counter's entries one by one: their order, their bounds, their pages."""

from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.ledgers import HOME, net

from ledger.core import keys
from ledger.core.entry import entry_id, entry_item
from ledger.core.errors import DamagedItem, InvalidEntry, RequestRefused
from ledger.core.values import Entry
from ledger.reads.history import Bound, HistoryRange, history
from ledger.store.memory import MemoryStore
from ledger.store.reads import Page, Query
from ledger.testing.clock import START

MICROSECOND = timedelta(microseconds=1)


class StrictStore(MemoryStore):
    """A store in memory that refuses the bounds that DynamoDB refuses, and counts queries."""

    queries = 0

    def __init__(self, region: str, *, page_items_max: int = 1000) -> None:
        super().__init__(region, page_items_max=page_items_max)
        self.limits = set[int | None]()

    async def query(self, query: Query) -> Page:
        """Read one page; BETWEEN wants its bounds in order, and no key value may be empty."""
        self.queries += 1
        self.limits.add(query.limit)
        first, last = query.first, query.last
        if "" in {first, last} or (first is not None and last is not None and first > last):
            raise RequestRefused(f"ValidationException: BETWEEN {first!r} AND {last!r}")
        return await super().query(query)


def store_of(*places: tuple[datetime, int], shards: int = 1) -> StrictStore:
    """Return a store of entries at these times and with these suffixes, in four items a page."""
    store = StrictStore(HOME, page_items_max=4)
    for at, suffix in places:
        entry = Entry("c", str(entry_id(at, suffix)), Decimal(suffix), HOME)
        item = entry_item(replace(entry, shard=keys.shard_of(suffix, shards)))
        store.table.set((item["pk"]["S"], entry.id), item)
    return store


async def read(
    store: StrictStore,
    *,
    shards: int = 1,
    after: Bound = None,
    before: Bound = None,
    page_size: int | None = None,
) -> list[Entry]:
    """Return a whole history."""
    entries = history(
        store,
        HistoryRange("c", shards, after, before),
        consistent=True,
        page_size=page_size,
    )
    return [entry async for entry in entries]


@given(
    places=st.sets(st.tuples(st.integers(0, 5), st.integers(0, 40)), max_size=40),
    page_size=st.integers(1, 5),
    bounds=st.tuples(st.integers(-1, 7), st.integers(-1, 7)),
)
async def test_property_order_and_bounds_over_shards(
    places: set[tuple[int, int]], page_size: int, bounds: tuple[int, int]
) -> None:
    """Over four shards and tiny pages entries come in order of ids, between both bounds, once."""
    moments = [(START + second * MICROSECOND, suffix) for second, suffix in places]
    store = store_of(*moments, shards=4)
    after, before = (START + bound * MICROSECOND for bound in bounds)

    entries = await read(store, shards=4, after=after, before=before, page_size=page_size)

    expected = sorted(str(entry_id(*moment)) for moment in moments if after < moment[0] < before)
    assert [entry.id for entry in entries] == expected


async def test_without_bounds_everything_comes() -> None:
    """A history without bounds yields every entry with all that was recorded of it."""
    store = StrictStore(HOME, page_items_max=2)
    at = str(entry_id(START, 5))
    whole = Entry("c", at, Decimal("2.50"), HOME, note="refund", effective=date(2026, 1, 2))
    store.table.set(("c", at), entry_item(whole))

    assert await read(store) == [whole]
    assert (await read(store))[0].at == START


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 12])
async def test_no_entry_is_lost_between_pages(count: int) -> None:
    """Whether the last page is full, part full or empty, each entry comes once."""
    store = store_of(*[(START + n * MICROSECOND, n) for n in range(count)])

    assert [int(entry.change) for entry in await read(store)] == list(range(count))


@pytest.mark.parametrize(("shards", "most"), [(1, 1_000), (4, 250), (100, 100)])
async def test_a_read_takes_a_thousand_items_of_all_shards(shards: int, most: int) -> None:
    """And of each a hundred at least, so that a page of small entries holds nobody up."""
    store = StrictStore(HOME)
    await read(store, shards=shards)
    assert store.limits == {most}


async def test_ids_as_bounds_are_left_out() -> None:
    """With the last id seen as `after` a reader goes on exactly behind it; `before` likewise."""
    store = store_of(*[(START, n) for n in range(6)])
    everything = await read(store)

    between = await read(store, after=everything[1].id, before=everything[4].id)

    assert between == everything[2:4]
    assert await read(store, after=everything[2].id, before=everything[2].id) == []


@pytest.mark.parametrize(
    ("after", "before"),
    [
        (START, START),
        (START, START + MICROSECOND),
        (START + timedelta(days=1), START),
        (str(entry_id(START, 9)), str(entry_id(START, 1))),
        (START + timedelta(days=1), str(entry_id(START, 1))),
    ],
)
async def test_nothing_lies_between_equal_adjacent_or_crossed_bounds(
    after: Bound, before: Bound
) -> None:
    """Bounds with nothing between them give nothing; DynamoDB, which would refuse, is not asked."""
    store = store_of(*[(START, n) for n in range(4)])

    assert await read(store, after=after, before=before) == []
    assert store.queries == 0


@pytest.mark.parametrize(
    ("bounds", "named"),
    [
        ({"after": datetime(2026, 1, 1)}, "without a zone"),  # noqa: DTZ001
        ({"before": datetime(2026, 1, 1)}, "without a zone"),  # noqa: DTZ001
        ({"after": datetime.max.replace(tzinfo=START.tzinfo)}, "9999"),
        ({"before": datetime.min.replace(tzinfo=START.tzinfo)}, "1970 to 9999"),
        ({"after": ""}, "must be a time with a zone or the id of an entry"),
        ({"before": date(2026, 1, 1)}, "must be a time with a zone or the id of an entry"),
        ({"after": 5}, "bound must be .*, got 5"),
        ({"after": "x" * 1_025}, "bound must be .*, got 'xxx"),
        ({"before": "é" * 513}, "bound must be .*, got 'ééé"),
        ({"before": "\ud800"}, "bound must be .*, got '.ud800'"),
    ],
)
async def test_bad_bound_is_named(bounds: dict[str, Any], named: str) -> None:
    """A bound that is no aware time and no id is refused before anything is read."""
    store = store_of((START, 1))

    with pytest.raises(InvalidEntry, match=named):
        await read(store, **bounds)
    assert store.queries == 0


async def test_foreign_items_are_shown_and_nets_are_not() -> None:
    """Another tool's item with a `change` is an entry without a time; the net is none."""
    store = store_of((START, 1))
    foreign = Entry("c", "a458fc3d", Decimal(7))
    store.table.set(("c", "a458fc3d"), entry_item(foreign))
    store.table.set(("c", "other"), {"pk": {"S": "c"}, "sk": {"S": "other"}})
    store.table.set(("c", "~net#0001"), net("c", 5, [entry_id(START, 9)]))

    entries = await read(store)

    assert entries[1] == foreign
    assert entries[1].at is None
    assert [entry.id for entry in entries] == [str(entry_id(START, 1)), "a458fc3d"]


@pytest.mark.parametrize("bound", ["junk", "2026-11-21", "2026-11-21T06:50:00Z", "~net#0001"])
@pytest.mark.parametrize("name", ["after", "before"])
async def test_text_that_is_no_entry_is_no_bound(name: str, bound: str) -> None:
    """Text in no id's form is refused: compared with ids it would cut the history anywhere."""
    store = store_of(*[(START, n) for n in range(6)], shards=4)

    with pytest.raises(InvalidEntry, match=f"no entry of counter 'c' has the id {bound!r}"):
        await read(store, shards=4, **{name: bound})  # type: ignore[arg-type]
    assert store.queries == 0


@pytest.mark.parametrize("bound", ["", "x" * 1025, "\ud800", 7])
async def test_what_no_entry_can_have_as_its_id_is_no_bound(bound: Any) -> None:
    """DynamoDB, which would refuse it as a key, is not asked."""
    with pytest.raises(InvalidEntry, match="the id of an entry of up to 1,024 bytes, got"):
        await read(store_of((START, 1)), after=bound)


async def test_an_id_of_another_writer_is_a_bound() -> None:
    """A history goes on behind an entry of another tool as behind any other."""
    store = store_of((START, 1))
    for name in ("a458fc3d", "b0"):
        store.table.set(("c", name), entry_item(Entry("c", name, Decimal(7))))

    assert [entry.id for entry in await read(store, after="a458fc3d")] == ["b0"]
    assert [entry.id for entry in await read(store, before="a458fc3d")] == [str(entry_id(START, 1))]


async def test_merged_and_deleted_entries_are_gone() -> None:
    """A history shows what is there one by one: what was merged and deleted is not."""
    store = store_of((START, 1), (START + MICROSECOND, 2))
    gone = entry_id(START, 1)
    store.table.set(("c", "~net#0001"), net("c", 1, [gone]))
    store.table.set(("c", str(gone)), None)

    assert [entry.change for entry in await read(store)] == [Decimal(2)]


async def test_damaged_entry_is_named() -> None:
    """An entry that cannot be read ends the history with an error that names it."""
    store = store_of((START, 1))
    key = ("c", str(entry_id(START, 1)))
    store.table.set(key, {**(store.table.get(key) or {}), "note": {"N": "5"}})

    with pytest.raises(DamagedItem, match="note must be a string"):
        await read(store)


async def test_pages_are_read_as_they_are_needed() -> None:
    """Who takes one entry pays for one page."""
    store = store_of(*[(START, n) for n in range(20)])
    entries = history(store, HistoryRange("c"), consistent=True)

    await anext(entries)

    assert store.queries == 1
