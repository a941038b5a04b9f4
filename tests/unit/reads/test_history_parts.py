"""A history of items that several changes share: each change once, between any bounds."""

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.archiving import ArchivedWorld
from support.combined import combined
from support.ledgers import HOME, WEST

from ledger.core import keys
from ledger.core.entry import entry_id, entry_item
from ledger.core.errors import DamagedItem, InvalidEntry
from ledger.core.ids import part_id
from ledger.core.parts import expanded
from ledger.core.values import Entry
from ledger.reads.history import Bound, HistoryRange, history
from ledger.store.memory import MemoryStore
from ledger.testing.clock import START

MICROSECOND = timedelta(microseconds=1)
SHARDS = 3
Place = tuple[int, int]


def moment(place: Place) -> datetime:
    """Return the time of a place."""
    return START + place[0] * MICROSECOND


def item(place: Place, parts: int) -> Entry:
    """Return the item of so many changes at a time, with a suffix; of none an entry without."""
    (second, suffix), at = place, moment(place)
    if not parts:
        return Entry("c", str(entry_id(at, suffix)), Decimal(second), HOME)
    changes = range(1, parts + 1)
    shard = keys.shard_of(suffix, SHARDS)
    return combined(at, *changes, counter="c", suffix=suffix, shard=shard)


def store_of(*items: Entry) -> MemoryStore:
    """Return a store with these items, in four to a page."""
    store = MemoryStore(HOME, page_items_max=4)
    for entry in items:
        found = entry_item(entry)
        store.table.set((found["pk"]["S"], entry.id), found)
    return store


async def read(
    store: MemoryStore, after: Bound = None, before: Bound = None, *, page_size: int | None = None
) -> list[Entry]:
    """Return a whole history."""
    asked = HistoryRange("c", SHARDS, after, before)
    entries = history(store, asked, consistent=True, page_size=page_size)
    return [entry async for entry in entries]


PLACES = st.tuples(st.integers(0, 3), st.integers(0, 5))


def bounds() -> st.SearchStrategy[Bound]:
    """Any time, any id of an item or of a part, whether it is there or not."""
    named = PLACES.map(lambda place: str(entry_id(moment(place), place[1])))
    parts = st.builds(part_id, named, st.integers(0, 4))
    return st.one_of(st.none(), PLACES.map(moment), named, parts)


def side(entry: Entry, bound: Bound, other: int) -> int:
    """Return whether an entry lies before (-1), at or behind a bound; `other` if there is none."""
    if bound is None:
        return other
    if isinstance(bound, datetime):
        assert entry.at is not None
        return (entry.at > bound) - (entry.at < bound)
    return (entry.id > bound) - (entry.id < bound)


@given(
    held=st.dictionaries(PLACES, st.integers(0, 3), max_size=20),
    page_size=st.integers(1, 5),
    after=bounds(),
    before=bounds(),
)
async def test_property_each_change_between_two_bounds_comes_once_in_order(
    held: dict[Place, int], page_size: int, after: Bound, before: Bound
) -> None:
    """Over three shards, in tiny pages, between times, ids of items and ids of their parts."""
    items = [item(place, parts) for place, parts in held.items()]

    found = await read(store_of(*items), after, before, page_size=page_size)

    everything = sorted((part for each in items for part in expanded(each)), key=lambda one: one.id)
    assert found == [
        entry for entry in everything if side(entry, after, 1) > 0 > side(entry, before, -1)
    ]


async def test_a_history_goes_on_behind_each_entry() -> None:
    """From whichever it ended with; the id of the item alone lies before its first change."""
    items = [item((0, 1), 0), item((1, 2), 3), item((1, 3), 1), item((2, 1), 0)]
    store = store_of(*items)
    everything = await read(store)
    assert [entry.id for entry in everything] == [
        items[0].id,
        *(part_id(items[1].id, place) for place in range(3)),
        part_id(items[2].id, 0),
        items[3].id,
    ]
    for place, entry in enumerate(everything):
        assert await read(store, after=entry.id) == everything[place + 1 :]
        assert await read(store, before=entry.id) == everything[:place]
    assert await read(store, after=items[1].id) == everything[1:]
    assert await read(store, before=items[1].id) == everything[:1]
    assert await read(store, after=part_id(items[1].id, 999)) == everything[4:]


async def test_an_entry_of_another_writer_is_a_bound_beside_parts() -> None:
    """Ids are compared as DynamoDB compares sort keys."""
    item_ = item((0, 1), 2)
    foreign = [Entry("c", name, Decimal(7)) for name in ("2026-11", "x.007")]
    store = store_of(item_, *foreign)
    shown = [foreign[0], *expanded(item_), foreign[1]]
    assert await read(store) == shown
    assert await read(store, after="2026-11") == shown[1:]
    assert await read(store, before="x.007") == shown[:-1]
    assert await read(store, after=shown[1].id, before="x.007") == shown[2:3]


@pytest.mark.parametrize("place", [".7", ".1000", ".", "#000", ".000 "])
async def test_what_is_no_place_is_no_bound(place: str) -> None:
    """Compared as text it would cut the history anywhere."""
    one = item((0, 1), 2)
    with pytest.raises(InvalidEntry, match=r"no entry of counter 'c' has the id"):
        await read(store_of(one), after=one.id + place)


async def test_an_item_that_does_not_add_up_ends_the_history() -> None:
    """With an error that names it, as any entry that cannot be read."""
    wrong = replace(item((0, 1), 2), change=Decimal(99))
    with pytest.raises(DamagedItem, match=f"{wrong.id}.* 2 amounts that add up to 99, got '1 2'"):
        await read(store_of(wrong))


@pytest.mark.parametrize("merged", [0, 1, 3])
async def test_with_an_archive_a_history_is_whole(merged: int) -> None:
    """Merged, deleted, or in the table still: each change once, from each bound, in each region."""
    world = ArchivedWorld(shards={"counter": 2})
    shown: list[Entry] = []
    for number in range(4):
        now = world.world.clock.now()
        for suffix, changes in ((number, [1, -2, 3]), (number + 1, ["0.5"])):
            made = combined(now, *changes, suffix=suffix, shard=suffix % 2)
            world.world.regions.put((HOME, WEST)[number % 2], entry_item(made))
            shown += expanded(made)
        await world.world.clock.advance(1)
        if number == 1 and merged:
            await world.merge(passes=merged)
    world.replicate()
    for region in (HOME, WEST):
        async with world.ledger(region) as ledger:
            assert [one async for one in ledger.history("counter")] == shown
            for place, entry in enumerate(shown):
                behind = [one async for one in ledger.history("counter", after=entry.id)]
                before = [one async for one in ledger.history("counter", before=entry.id)]
                assert [*before, entry, *behind] == shown
                assert len(behind) == len(shown) - place - 1
