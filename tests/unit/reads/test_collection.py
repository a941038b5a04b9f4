"""Reading long collections: sums are kept instead of sort keys, and only where that is the same."""

from collections.abc import Callable, Sequence
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.ledgers import HOME, net

from ledger.core import books, fold
from ledger.core.entry import Item, entry_id, entry_item, net_item
from ledger.core.errors import ReadTooSlow
from ledger.core.fold import LEGS_PORTION, Collection, at_once
from ledger.core.ids import EntryId
from ledger.core.values import Entry, Leg, NetChange
from ledger.reads.collection import (
    RESTARTS_MAX,
    Base,
    CollectionRead,
    ReadBounds,
    ReadProgress,
    read_collection,
    read_net,
)
from ledger.runtime.clock import ElapsedTime
from ledger.store.memory import MemoryStore
from ledger.store.reads import Page, Query
from ledger.testing.clock import START, ManualClock

PAGE_ITEMS = 4
NET = ("c", "~net#0001")


class Watched(MemoryStore):
    """A store of four items a page that notes what is asked for, and lets things happen before."""

    def __init__(self) -> None:
        super().__init__(HOME, page_items_max=PAGE_ITEMS)
        self.firsts: list[str | None] = []
        self.consistent: list[bool] = []
        self.before: dict[int, Callable[[], None]] = {}

    async def query(self, query: Query) -> Page:
        """Let happen what is to happen before this query, then read."""
        if happens := self.before.get(len(self.firsts)):
            happens()
        self.firsts.append(query.first)
        self.consistent.append(query.consistent)
        return await super().query(query)

    def put(self, entry: EntryId, change: int) -> None:
        """Put an entry of the collection."""
        self.table.set(("c", str(entry)), entry_item(Entry("c", str(entry), Decimal(change))))


def made(count: int) -> list[EntryId]:
    """Return the ids of so many entries, a second apart."""
    first = entry_id(START, 0).microseconds
    return [EntryId(first + number * 1_000_000, number) for number in range(count)]


def filled(count: int) -> tuple[Watched, list[EntryId]]:
    """Return a store of so many entries, number n of which adds 1 << n."""
    store, entries = Watched(), made(count)
    for number, entry in enumerate(entries):
        store.put(entry, 1 << number)
    return store, entries


async def read(
    store: Watched, keys_max: int, *, base: Base | None = None, border: str | None = None
) -> CollectionRead:
    """Read the collection on a clock that stands still."""
    return await read_collection(
        store,
        "c",
        ElapsedTime(ManualClock(instant=True)),
        ReadBounds(15, keys_max),
        consistent=True,
        base=base,
        border=border,
    )


async def test_the_net_in_between_is_read_as_the_pages_are() -> None:
    """An older net than that of the last page would make each read of a long collection restart."""
    store, _ = filled(20)
    store.table.set(NET, net("c", 0, []))
    await read(store, keys_max=7)
    assert store.consistent == [True] * len(store.firsts)
    assert len(store.firsts) > 5


async def test_a_short_collection_is_one_request() -> None:
    """As long as all sort keys may be kept nothing but the pages is read."""
    store, _ = filled(3)
    found = await read(store, keys_max=3)
    assert store.firsts == [None]
    assert (found.pages, found.collection.kept) == (1, 3)
    assert found.collection.total() == 7


async def test_a_long_collection_costs_one_more_request() -> None:
    """Once too many sort keys are kept the net is read, once, and all but the last page summed."""
    store, entries = filled(21)
    store.table.set(NET, net("c", 1 << 40, entries[3:9]))
    found = await read(store, keys_max=7)
    nets = [first for first in store.firsts if first is not None]
    assert (nets, len(store.firsts), found.restarts) == (["~net#"], 7, 0)
    assert found.collection.kept <= 7
    assert found.collection.unmerged().entries == 15
    named = sum(1 << number for number in range(3, 9))
    assert found.collection.total() == (1 << 40) + (1 << 21) - 1 - named


@given(fates=st.lists(st.integers(0, 2), max_size=30), keys_max=st.integers(1, 40))
async def test_property_any_bound_gives_the_same(fates: list[int], keys_max: int) -> None:
    """Whatever is merged and however few sort keys may be kept, sum and count are the same."""
    store, entries = filled(len(fates))
    merged = [entry for entry, fate in zip(entries, fates, strict=True) if fate]
    for entry, fate in zip(entries, fates, strict=True):
        if fate > 1:
            store.table.set(("c", str(entry)), None)
    if merged:
        store.table.set(NET, net("c", 1 << 40, merged))
    whole, summed = await read(store, keys_max=1000), await read(store, keys_max=keys_max)
    left, right = whole.collection.unmerged(), summed.collection.unmerged()
    assert (left.change, left.entries) == (right.change, right.entries)
    assert whole.collection.total() == summed.collection.total()
    assert summed.collection.kept <= keys_max + PAGE_ITEMS


def fold_before(store: Watched, query: int, merged: list[EntryId], *, version: str) -> None:
    """Let these entries be folded before a query, and be deleted at once."""

    def happens() -> None:
        change = sum(1 << number for number in range(len(merged)))
        store.table.set(NET, net("c", change, merged, version=version))
        for entry in merged:
            store.table.set(("c", str(entry)), None)

    store.before[query] = happens


async def test_a_net_that_changes_meanwhile_starts_the_read_again() -> None:
    """Entries that were summed and then folded cannot be told apart any more: all is read again."""
    store, entries = filled(21)
    fold_before(store, 4, entries[:6], version="v2")
    found = await read(store, keys_max=7)
    assert found.restarts == 1
    assert found.collection.total() == (1 << 21) - 1


async def test_without_that_the_sum_would_be_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: where every net passes for the same, folded entries count twice."""
    monkeypatch.setattr(fold, "stamp_of", lambda _: None)
    store, entries = filled(21)
    fold_before(store, 4, entries[:6], version="v2")
    found = await read(store, keys_max=7)
    assert found.restarts == 0
    assert found.collection.total() == (1 << 21) - 1 + (1 << 6) - 1


async def test_a_net_that_always_changes_is_an_error() -> None:
    """A read that meets another net each time ends after a bounded number of starts."""
    store, entries = filled(21)
    for query in range(500):
        fold_before(store, query, entries[:1], version=f"v{query}")
    with pytest.raises(ReadTooSlow, match="net that changed"):
        await read(store, keys_max=7)
    assert len(store.firsts) <= 8 * (RESTARTS_MAX + 1)


@given(
    picked=st.lists(st.booleans(), max_size=24),
    added=st.lists(st.booleans(), min_size=27, max_size=27),
    border=st.integers(0, 26),
    step=st.integers(0, 9),
    keys_max=st.integers(1, 40),
    changed=st.booleans(),
)
async def test_property_a_later_read_goes_on_from_any_border(
    picked: list[bool],
    added: list[bool],
    border: int,
    step: int,
    keys_max: int,
    *,
    changed: bool,
) -> None:
    """From the base that a read leaves, a later one gives the same as a whole one, if the net did.

    Entries appear behind the border only. If the net changed the whole is read.
    """
    store, entries = filled(len(picked))
    if any(picked):
        merged = [entry for entry, is_merged in zip(entries, picked, strict=True) if is_merged]
        store.table.set(NET, net("c", 1 << 40, merged))
    at = str(made(27)[border])
    first = await read(store, keys_max=keys_max, border=at)
    assert first.base is not None
    for number, entry in enumerate(made(27)):
        if number >= max(border, len(picked)) and added[number]:
            store.put(entry, 1 << number)
    if changed:
        fold_before(store, len(store.firsts), entries[:2], version="v2")
    begun = len(store.firsts)
    later = str(made(27)[min(26, border + step)])
    second = await read(store, keys_max=keys_max, base=first.base, border=later)
    whole = await read(store, keys_max=1000)
    assert second.collection.total() == whole.collection.total()
    assert second.collection.unmerged().entries == whole.collection.unmerged().entries
    assert store.firsts[begun] == at
    assert second.restarts == changed
    assert second.base is not None
    assert second.base.border == later


def test_a_border_does_not_step_back() -> None:
    """A clock that steps back cannot take apart what is summed: the later border is kept."""
    one, two = map(str, made(2))
    base = at_once(ReadProgress("c", keys_max=9, border=two).end())
    assert base is not None
    again = at_once(ReadProgress("c", keys_max=9, base=base.base, border=one).end())
    assert again is not None
    assert again.base is not None
    assert again.base.border == two


@pytest.mark.parametrize(("legs", "yields"), [(100, 2), (0, 0)])
def test_a_page_of_a_book_is_taken_in_portions(legs: int, yields: int) -> None:
    """So are its legs added up, whatever many there are; a counter's page is taken at once."""
    moved = [Leg(f"a{number}", "EUR", Decimal(2 * (number % 2) - 1)) for number in range(legs)]
    items = [
        entry_item(Entry("c", str(entry), Decimal(0), legs=books.ordered(moved)))
        for entry in made(250)
    ]
    progress = ReadProgress("c", keys_max=1_000, with_legs=legs > 0)
    assert len(list(progress.take(Page(items)))) == yields
    read = at_once(progress.end())
    assert read is not None
    assert len(list(read.collection.condense(None))) == 250 * legs // LEGS_PORTION
    if legs:
        left = at_once(Collection.condense(whole(items), None))
        assert left.accounts is not None
        assert left.accounts["EUR"]["a1"] == 250


def whole(items: Sequence[Item]) -> Collection:
    """Return the collection of a book's items."""
    collection = Collection(with_legs=True)
    collection.add(items)
    return collection


def test_what_is_summed_is_bounded_by_the_keys_kept() -> None:
    """A collection keeps no sort key that was given up."""
    collection = Collection()
    for number, entry in enumerate(made(6)):
        collection.add([entry_item(Entry("c", str(entry), Decimal(number)))])
    assert collection.kept == 6
    at_once(collection.condense(None, upto=str(made(5)[4])))
    assert (collection.kept, sorted(collection.entries)) == (2, [str(one) for one in made(6)[4:]])
    at_once(collection.condense(None))
    assert collection.kept == 0
    assert collection.total() == 15


async def test_nets_of_several_pages_are_all_read() -> None:
    """After losses of the home there may be more nets than a page holds: the last one counts."""
    store = MemoryStore(HOME, page_items_max=1)
    for generation in (1, 2, 3):
        one = NetChange(Decimal(generation), 1, (), f"v{generation}", "", HOME, generation)
        store.table.set(("c", f"~net#{generation:04d}"), net_item(one, "c"))
    found = await read_net(store, "c")
    assert found is not None
    assert (found.generation, found.version) == (3, "v3")
