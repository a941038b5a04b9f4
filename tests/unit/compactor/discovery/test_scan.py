"""The search: finds every due collection, in pages and segments, from where the last stopped."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from random import Random
from typing import Any

import anyio
import pytest
from support.budgets import AT_HOME, granted
from support.ledgers import HOME, net

from compactor.discovery import summary
from compactor.discovery.scan import (
    Finder,
    FoundCollections,
    ScanCursor,
    load_cursor,
    next_search,
    save_cursor,
)
from compactor.discovery.summary import Summary
from compactor.merge_plan import MergeRules, Observation, older_than, plan_merge
from ledger.budgets.rights import rights_item
from ledger.core.descriptions import description_item
from ledger.core.entry import Item, Key, entry_id
from ledger.core.fold import collect
from ledger.core.ids import EntryId
from ledger.core.index import IndexState, attributes_of
from ledger.store.memory import MemoryStore
from ledger.store.reads import Page, Scan
from ledger.store.writes import Put
from ledger.testing.clock import START

NOW = START + timedelta(hours=1)
RULES = MergeRules(home=HOME, settle=900, fold_max=100, fold_min=3, fold_age=5000, prune_min=4)
CURSOR_KEY = ("~scan", "compactor")


def old(count: int, *, seconds: float = 1000) -> tuple[EntryId, ...]:
    """Return ids of this age."""
    return tuple(entry_id(NOW - timedelta(seconds=seconds), place) for place in range(count))


def entry(partition: str, key: object) -> Item:
    """Return the item of an entry."""
    return {"pk": {"S": partition}, "sk": {"S": str(key)}, "change": {"N": "1"}}


def store_of(*items: Item, page_items_max: int = 1000) -> MemoryStore:
    """Return a store of these items."""
    store = MemoryStore(HOME, page_items_max=page_items_max)
    for item in items:
        store.table.set((item["pk"]["S"], item["sk"]["S"]), item)
    return store


def many(collections: int, entries: int = 3) -> list[Item]:
    """Return as many due collections."""
    return [entry(f"c{number}", one) for number in range(collections) for one in old(entries)]


async def found_in(
    store: MemoryStore,
    *,
    cursor: ScanCursor | None = None,
    segments: int = 1,
    pages_max: int = 1000,
    rules: MergeRules = RULES,
    stop: anyio.Event | None = None,
) -> FoundCollections:
    """Search once."""
    finder = Finder(
        store,
        rules=rules,
        now=NOW,
        segments=segments,
        pages_max=pages_max,
        stop=stop or anyio.Event(),
    )
    return await finder.find(cursor)


OLD = old(4)
FRESH = old(9, seconds=10)
CASES: Mapping[str, tuple[Sequence[EntryId], Sequence[EntryId] | None, bool]] = {
    "nothing settled": (FRESH, None, False),
    "too few settled": (OLD[:2], None, False),
    "enough settled": (OLD[:3], None, True),
    "one too old to wait": (old(1, seconds=5001), None, True),
    "one nearly too old": (old(1, seconds=4999), None, False),
    "only a net": ((), (), False),
    "a net with few ids": ((), OLD[:3], False),
    "a net with many ids": ((), OLD, True),
    "a merged entry to delete": (OLD[:1], OLD[:1], True),
    "settled beside a net": (OLD[1:], OLD[:1], True),
    "too few beside a net": (OLD[2:], OLD[:1], False),
}


async def test_what_is_due_twice_is_found_once() -> None:
    """For its entries, and for a grant of its budget that is over: in whichever order they come."""
    items = many(20)
    for number in range(20):
        rights = granted(AT_HOME, 5, at=NOW - timedelta(hours=1))
        items.append(rights_item(rights, f"c{number}"))
    rules = replace(RULES, budgets=("*",))
    found = await found_in(store_of(*items), segments=4, rules=rules)
    assert sorted(found.due) == sorted(f"c{number}" for number in range(20))


@pytest.mark.parametrize("page_items_max", [1, 2, 1000])
@pytest.mark.parametrize("name", CASES)
async def test_due(name: str, page_items_max: int) -> None:
    """A collection is found exactly when a visit would have something to do."""
    entries, merged, due = CASES[name]
    items = [entry("counter", one) for one in entries]
    if merged is not None:
        items.append(net("counter", 5, merged))
    found = await found_in(store_of(*items, page_items_max=page_items_max))
    assert found.due == (["counter"] if due else [])
    assert found.collections == 1
    shown = collect(items)
    plan = plan_merge(
        Observation("counter", shown.net, {HOME: shown}), RULES, now=NOW, version="v2"
    )
    assert bool(plan.deletes or plan.fold) == due


@pytest.mark.parametrize("damage", [{}, {"merged": {"S": "text"}}, {"merged": {"B": b"short"}}])
async def test_damaged_net_is_due(damage: dict[str, Any]) -> None:
    """A net whose ids cannot be read is visited, so that the visit names what is wrong."""
    item = dict(net("counter", 1, ()))
    del item["merged"]
    found = await found_in(store_of({**item, **damage}))
    assert found.due == ["counter"]


def change(sort_key: object, text: str) -> Item:
    """Return an item with this change."""
    return {**entry("counter", sort_key), "change": {"N": text}}


def sum_item(sort_key: str, value: str, version: int = 1) -> Item:
    """Return the item of a sum of this value."""
    at = {"pk": {"S": "counter"}, "sk": {"S": sort_key}}
    return {**at, "value": {"N": value}, "version": {"N": str(version)}}


@pytest.mark.parametrize("keys_max", [1, summary.KEYS_MAX])
@pytest.mark.parametrize("page_items_max", [1, 1000])
@pytest.mark.parametrize(
    ("items", "due"),
    [
        ([change(FRESH[0], "1E+37"), change(FRESH[1], "0.01")], True),
        ([change(FRESH[0], "1E-50"), change(FRESH[1], "1")], True),
        ([change(FRESH[0], "1E+50"), change(FRESH[1], "1")], True),
        ([change(FRESH[0], "1e+50"), change(FRESH[1], "1")], True),
        ([change(FRESH[0], "1E+37"), change("zzz", "0.01")], True),
        ([change(FRESH[0], "1E+37"), change("~foo", "0.01")], True),
        ([change(FRESH[0], "1E-37"), net("counter", 50, ())], True),
        ([change(FRESH[0], "1E+37"), sum_item("~sum#west.1#0", "0.01")], True),
        ([change(FRESH[0], "1E+50")], False),
        ([change(FRESH[0], "1E+36"), change(FRESH[1], "0.1")], False),
        ([change(FRESH[0], "123456789012345678901234567"), change(FRESH[1], "0.01")], False),
        (
            [
                *(change(FRESH[0], "1E+37"), change(FRESH[1], "0.01")),
                *(change(FRESH[2], "-1E+37"), sum_item("~sum#west.1#0", "3")),
            ],
            False,
        ),
        (
            [
                *(change(FRESH[0], "1E+37"), sum_item("~sum#west.1#0", "0.01")),
                sum_item("~sum#west.1#0#copy", "7", version=2),
            ],
            False,
        ),
    ],
)
async def test_a_total_that_does_not_fit_is_due(
    items: Sequence[Item],
    page_items_max: int,
    keys_max: int,
    monkeypatch: pytest.MonkeyPatch,
    *,
    due: bool,
) -> None:
    """However few its entries are: a visit leaves them unmerged, and reports it."""
    monkeypatch.setattr(summary, "KEYS_MAX", keys_max)
    found = await found_in(store_of(*items, page_items_max=page_items_max))
    assert found.due == (["counter"] if due else [])


@pytest.mark.parametrize(
    ("sums", "epochs", "due"),
    [
        ({"~sum#west.1#0": "5"}, None, False),
        ({"~sum#west.1#0": "5"}, {"west": 1}, False),
        ({"~sum#west.1#0": "5"}, {"west": 2}, True),
        ({"~sum#west.1#0": "5", "~sum#west.1#0#copy": "5"}, {"west": 2}, False),
        ({"~sum#west.1#0": "6", "~sum#west.1#0#copy": "5"}, {"west": 2}, True),
        ({"~sum#west.1#0#copy": "5"}, {}, False),
        ({"~sum#west.1#0": "x"}, None, True),
        ({"~sum#west": "1"}, None, True),
    ],
)
async def test_sums_are_passed_by_unless_they_are_to_be_copied(
    sums: dict[str, str], epochs: dict[str, int] | None, *, due: bool
) -> None:
    """A live one is none of the compactor's business; a damaged one is named by a visit."""
    items: list[Item] = [
        {
            "pk": {"S": "counter"},
            "sk": {"S": key},
            "value": {"N": "1"},
            "version": {"N": version},
        }
        for key, version in sums.items()
    ]
    found = await found_in(store_of(*items), rules=replace(RULES, epochs=epochs))
    assert found.due == (["counter"] if due else [])


async def test_own_items_are_no_collections() -> None:
    """Leases, markers, cursors and unknown reserved partitions are passed over; shards are not."""
    own = [
        entry(key, one) for key in ("~lease", "~import", "~scan", "~hint-0", "~x~y") for one in OLD
    ]
    shard = [entry("~2~counter", one) for one in OLD]
    found = await found_in(store_of(*own, *shard))
    assert found.due == ["~2~counter"]
    assert (found.collections, found.backlog_entries) == (1, 4)


async def test_highest_generation_counts() -> None:
    """Of several nets of a collection the ids of the highest generation count."""
    items = [entry("counter", one) for one in OLD]
    nets = [net("counter", 1, OLD[:1]), net("counter", 1, OLD, generation=2)]
    assert (await found_in(store_of(*items, *nets))).backlog_entries == 0


@pytest.mark.parametrize("segments", [1, 3, 8])
@pytest.mark.parametrize("page_items_max", [1, 4, 1000])
async def test_segments_find_all(segments: int, page_items_max: int) -> None:
    """Any number of segments and any pages find every due collection once, and the backlog."""
    store = store_of(*many(20), *many(0), entry("fresh", FRESH[0]), page_items_max=page_items_max)
    found = await found_in(store, segments=segments)
    assert sorted(found.due) == sorted(f"c{number}" for number in range(20))
    assert found.backlog_entries == 60
    assert found.collections == 21
    assert found.cursor.is_finished


@pytest.mark.parametrize("segments", [1, 3])
@pytest.mark.parametrize("pages_max", [1, 2, 7])
async def test_rounds(segments: int, pages_max: int) -> None:
    """Runs of a few pages each read at most those, and find everything in one round."""
    store = store_of(*many(10), page_items_max=2)
    cursor, due, runs = None, set(), 0
    while cursor is None or not cursor.is_finished:
        found = await found_in(store, cursor=cursor, segments=segments, pages_max=pages_max)
        assert found.pages <= pages_max
        cursor = found.cursor
        due |= set(found.due)
        runs += 1
        assert runs <= 30
    assert due == {f"c{number}" for number in range(10)}
    assert runs >= 15 // pages_max


async def test_round_after_round() -> None:
    """After a finished round the next search begins again."""
    store = store_of(*many(2))
    first = await found_in(store)
    again = await found_in(store, cursor=first.cursor)
    assert again.due == first.due


async def test_cut_collection_is_due() -> None:
    """A collection that the bound of pages cuts counts as due: the rest of it is not known."""
    store = store_of(*(entry("counter", one) for one in FRESH), page_items_max=4)
    found = await found_in(store, pages_max=1)
    assert found.due == ["counter"]
    whole = await found_in(store, pages_max=3)
    assert whole.due == []


async def test_collection_is_not_cut_by_pages() -> None:
    """Within a run a collection may span any number of pages and is examined once, as a whole."""
    items = [entry("counter", one) for one in OLD]
    store = store_of(*items, net("counter", 5, ()), page_items_max=1)
    found = await found_in(store)
    assert (found.due, found.collections, found.backlog_entries) == (["counter"], 1, 4)


async def test_other_segments_begin_again() -> None:
    """A cursor of another number of segments begins a new round."""
    store = store_of(*many(6))
    found = await found_in(store, cursor=ScanCursor(2, {0: None}), segments=3)
    assert len(found.due) == 6


async def test_stop_ends_the_search() -> None:
    """A stop ends the search between two pages; the next run goes on from there."""
    stop = anyio.Event()

    class Stopping(MemoryStore):
        async def scan(self, scan: Scan) -> Page:
            stop.set()
            return await super().scan(scan)

    store = Stopping(HOME, store_of(*many(3)).table, page_items_max=3)
    found = await found_in(store, stop=stop)
    assert found.pages == 1
    assert not found.cursor.is_finished
    rest = await found_in(store, cursor=found.cursor, stop=anyio.Event())
    assert set(found.due) | set(rest.due) == {"c0", "c1", "c2"}


@pytest.mark.parametrize("seed", range(5))
async def test_cursor_round_trip(seed: int) -> None:
    """A cursor comes back from the table as it was kept."""
    draw = Random(seed)  # noqa: S311 (repeatable)
    segments = draw.randrange(1, 6)
    places: dict[int, Key | None] = {
        segment: draw.choice((None, ("counter", "sk"), ("~1~c", str(OLD[0]))))
        for segment in range(segments)
        if draw.random() < 0.8
    }
    store = store_of()
    cursor = ScanCursor(segments, places, began=draw.choice((None, NOW)))
    await save_cursor(store, "compactor", cursor)
    assert await load_cursor(store, "compactor") == cursor


async def test_no_cursor() -> None:
    """Without a cursor a new round begins."""
    assert await load_cursor(store_of(), "compactor") is None


FINISHED: dict[int, Key | None] = {0: None}
HALF_WAY: dict[int, Key | None] = {0: ("c1", "x")}


@pytest.mark.parametrize(
    ("cursor", "due"),
    [
        (None, True),
        (ScanCursor(1, FINISHED), True),
        (ScanCursor(1, HALF_WAY, NOW), True),
        (ScanCursor(2, FINISHED, NOW), True),
        (ScanCursor(1, FINISHED, NOW - timedelta(seconds=59)), False),
        (ScanCursor(1, FINISHED, NOW - timedelta(seconds=60)), True),
        (ScanCursor(1, FINISHED, NOW + timedelta(seconds=1)), True),
    ],
)
def test_when_a_search_is_due(cursor: ScanCursor | None, *, due: bool) -> None:
    """A round goes on until it is finished, and a new one begins so long after the last began."""
    at = next_search(cursor, 60.0, now=NOW)
    assert (at is None) == due
    assert at in {None, NOW + timedelta(seconds=1)}
    assert next_search(cursor, 0.0, now=NOW) is None


async def test_a_round_keeps_when_it_began() -> None:
    """The cursor keeps when its round began, through all the runs that it takes."""
    store = store_of(*many(4), page_items_max=3)
    first = (await found_in(store, pages_max=1)).cursor
    assert first.began == NOW
    earlier = replace(first, began=NOW - timedelta(seconds=5))
    assert (await found_in(store, cursor=earlier)).cursor.began == earlier.began
    done = (await found_in(store, cursor=earlier)).cursor
    assert done.is_finished
    assert (await found_in(store, cursor=replace(done, began=None))).cursor.began == NOW


PLACE = {"L": [{"S": "c1"}, {"S": "x"}]}
DAMAGES: Mapping[str, dict[str, Any]] = {
    "nothing": {},
    "no places": {"segments": {"N": "2"}},
    "no segments": {"places": {"M": {}}},
    "places of another kind": {"segments": {"N": "2"}, "places": {"S": "x"}},
    "segments no number": {"segments": {"N": "two"}, "places": {"M": {}}},
    "segments text": {"segments": {"S": "2"}, "places": {"M": {}}},
    "no segment at all": {"segments": {"N": "0"}, "places": {"M": {}}},
    "segment no number": {"segments": {"N": "2"}, "places": {"M": {"x": PLACE}}},
    "segment out of range": {"segments": {"N": "2"}, "places": {"M": {"2": PLACE}}},
    "segment negative": {"segments": {"N": "2"}, "places": {"M": {"-1": PLACE}}},
    "more places than segments": {
        "segments": {"N": "2"},
        "places": {"M": {"0": {"NULL": True}, "1": {"NULL": True}, "2": PLACE}},
    },
    "place of another kind": {"segments": {"N": "2"}, "places": {"M": {"0": {"S": "x"}}}},
    "place too short": {"segments": {"N": "2"}, "places": {"M": {"0": {"L": [{"S": "a"}]}}}},
    "place of numbers": {
        "segments": {"N": "2"},
        "places": {"M": {"0": {"L": [{"N": "1"}, {"N": "2"}]}}},
    },
    "beginning no time": {"segments": {"N": "1"}, "places": {"M": {}}, "began": {"S": "yesterday"}},
    "beginning without a zone": {
        "segments": {"N": "1"},
        "places": {"M": {}},
        "began": {"S": "2026-11-21T00:00:00"},
    },
    "beginning no text": {"segments": {"N": "1"}, "places": {"M": {}}, "began": {"N": "1"}},
    "place empty": {
        "segments": {"N": "2"},
        "places": {"M": {"0": {"L": [{"S": ""}, {"S": ""}]}}},
    },
}


@pytest.mark.parametrize("name", DAMAGES)
async def test_damaged_cursor(name: str) -> None:
    """A cursor that cannot be understood begins a new round, which finds everything."""
    store = store_of(*many(6))
    key = {"pk": {"S": CURSOR_KEY[0]}, "sk": {"S": CURSOR_KEY[1]}}
    await store.write(Put({**key, **DAMAGES[name]}))
    cursor = await load_cursor(store, "compactor")
    assert cursor is None
    assert len((await found_in(store, cursor=cursor, segments=2)).due) == 6


async def test_a_net_that_does_not_count_is_found() -> None:
    """It arrived late from a lost region, and nothing else is to be done there."""
    outdated, last = (net("counter", 5, (), generation=number) for number in (1, 2))
    rules = replace(RULES, generation=2)
    assert (await found_in(store_of(last), rules=rules)).due == []
    assert (await found_in(store_of(outdated, last), rules=rules)).due == ["counter"]


async def test_what_is_left_out_of_merging_is_no_backlog() -> None:
    """It is not due, however many entries it has, unless an earlier fold is to be finished."""
    rules = replace(RULES, unmerged=("kept*",))
    items = [entry(counter, one) for counter in ("kept", "other") for one in OLD]
    items += [entry("kept before", OLD[0]), net("kept before", 5, OLD[:1])]
    found = await found_in(store_of(*items), rules=rules)
    assert sorted(found.due) == ["kept before", "other"]
    assert found.backlog_entries == len(OLD)


@pytest.mark.parametrize("fresh", [0, 3])
async def test_a_long_collection_is_counted_without_its_keys(
    monkeypatch: pytest.MonkeyPatch, fresh: int
) -> None:
    """Sort keys are kept up to a bound; the settled ones behind it are only counted."""
    monkeypatch.setattr(summary, "KEYS_MAX", 5)
    ids = [*old(20), *old(fresh, seconds=10)]
    seen = Summary("counter", older_than(RULES.settle, now=NOW))
    for one in ids:
        seen.add_all([entry("counter", one)])
    assert len(seen.entries) == 5
    assert seen.backlog(RULES) == (20, str(ids[0]))
    assert seen.is_due(seen.backlog(RULES), RULES, now=NOW)
    found = await found_in(store_of(*(entry("counter", one) for one in ids)))
    assert (found.due, found.backlog_entries) == (["counter"], 20)


async def test_the_index_and_descriptions_are_no_collections() -> None:
    """The search counts neither, and finds nothing due in them."""
    at = attributes_of(IndexState(1, 3, Decimal(6)), NOW)
    listed: Item = {"pk": {"S": "~index-0"}, "sk": {"S": "c"}, **at}
    store = store_of(listed, description_item("c", {}, "s"), *many(1))
    found = await found_in(store)
    assert (found.collections, found.due) == (1, ["c0"])
