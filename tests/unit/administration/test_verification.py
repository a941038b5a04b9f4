"""`ledger verify`: what is wrong is named with its place, and what is in order is not."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from support.ledgers import HOME, SOUTH, WEST, net, three_regions

from ledger.administration.collection_findings import CollectionFinding
from ledger.administration.verification import SUSPECTS_MAX, TRIES_MAX, Verification
from ledger.core.descriptions import description_item
from ledger.core.entry import Item, entry_id, entry_item, net_item, net_of
from ledger.core.ids import EntryId
from ledger.core.index import IndexState, attributes_of
from ledger.core.values import Entry
from ledger.settings import Settings
from ledger.testing.clock import START, ManualClock
from ledger.testing.replicas import ManualWorld

REGIONS = (HOME, WEST, SOUTH)
AGE = timedelta(hours=1)


def id_of(number: int, *, age: timedelta = AGE) -> EntryId:
    """Return the id of an entry written so long ago."""
    return entry_id(START - age + timedelta(seconds=number), number)


def entry(number: int, change: int = 1, *, counter: str = "c", age: timedelta = AGE) -> Item:
    """Return the item of an entry."""
    return entry_item(Entry(counter, str(id_of(number, age=age)), Decimal(change)))


def put(world: ManualWorld, item: Item | None, *regions: str, key: Any = None) -> None:
    """Put an item into regions, by default all, or delete the one under a key."""
    for region in regions or REGIONS:
        at = key or (item["pk"]["S"], item["sk"]["S"])  # type: ignore[index]
        world.replicas[region].table.set(at, item)


async def found_in(world: ManualWorld, *counters: str, **settings: Any) -> list[CollectionFinding]:
    """Verify counters, or without one the whole table."""
    found: list[CollectionFinding] = []
    made = Settings(home=HOME, regions={region: {} for region in REGIONS}, **settings)
    verification = Verification(
        world.replicas, made, ManualClock(START, instant=True), found.append
    )
    await (verification.counters(counters) if counters else verification.whole())
    assert verification.progress.findings == len(found)
    assert verification.progress.damage == sum(finding.is_damage for finding in found)
    return found


def brief(found: list[CollectionFinding]) -> list[tuple[str, tuple[str, ...]]]:
    """Return what was found, and where."""
    return [(finding.kind, finding.regions) for finding in found]


async def test_a_table_in_order() -> None:
    """Merged, half deleted, young, sharded and reserved items: nothing is found."""
    world = three_regions(page_items_max=2)
    for number in range(5):
        put(world, entry(number))
    put(world, net("c", 2, [id_of(0), id_of(1)], count=2))
    put(world, None, WEST, key=("c", str(id_of(0))))
    put(world, entry(9, age=timedelta(0)), SOUTH)
    put(world, entry(1, counter="d"))
    put(world, {"pk": {"S": "~lease"}, "sk": {"S": "compactor"}})
    assert await found_in(world) == []
    assert await found_in(world, "c", "d", "none", shards={"d": 3}) == []


def added(value: int, version: int | str) -> Item:
    """Return a sum item of one region."""
    return {
        "pk": {"S": "c"},
        "sk": {"S": f"~sum#{WEST}.1#0"},
        "value": {"N": str(value)},
        "version": {"N": str(version)},
    }


async def test_the_index_and_descriptions_are_passed_by() -> None:
    """They lie under reserved keys, may differ between regions, and are no part of any total."""
    world = three_regions()
    put(world, net("c", 6, [id_of(1)], count=3))
    at = attributes_of(IndexState(1, 3, Decimal(6)), START)
    put(world, {"pk": {"S": "~index-0"}, "sk": {"S": "c"}, **at}, HOME)
    put(world, description_item("c", {"owner": {"S": "team-7"}}, "s"), WEST)
    assert await found_in(world) == []


async def test_a_sum_that_spreads_is_no_damage() -> None:
    """Regions may show different versions of it, or none."""
    world = three_regions()
    put(world, added(5, 2), WEST)
    put(world, added(3, 1), HOME)
    assert await found_in(world, "c") == []


async def test_a_sum_that_two_regions_wrote_is_named() -> None:
    """One version of it has one value, in whichever region."""
    world = three_regions()
    put(world, added(5, 2), WEST)
    put(world, added(3, 2), HOME)
    [found] = await found_in(world, "c")
    assert (found.kind, found.regions, found.sort_key) == (
        "differs",
        (HOME, WEST),
        added(1, 1)["sk"]["S"],
    )
    put(world, added(3, "0"), HOME)
    assert [found.kind for found in await found_in(world, "c")] == ["damaged"]


async def test_a_net_that_spreads_is_no_damage() -> None:
    """Where a fold has not arrived its entries are counted themselves, young ones too."""
    world = three_regions()
    young = timedelta(seconds=1)
    for number in range(3):
        put(world, entry(number, age=young if number else AGE))
    folded = net("c", 2, [id_of(0), id_of(1, age=young)], count=2)
    put(world, folded, HOME)
    assert await found_in(world, "c") == []


CASES: dict[str, tuple[Callable[[ManualWorld], None], list[tuple[str, tuple[str, ...]]]]] = {
    "an entry is lost": (
        lambda world: put(world, None, SOUTH, key=("c", str(id_of(1)))),
        [("missing", (SOUTH,)), ("total", REGIONS)],
    ),
    "an entry is not alike": (
        lambda world: put(world, entry(1, 7), WEST),
        [("differs", REGIONS), ("total", REGIONS)],
    ),
    "a net is deleted": (
        lambda world: put(world, None, WEST, key=("c", "~net#0001")),
        [("total", REGIONS)],
    ),
    "a net was altered": (
        lambda world: put(world, {**net("c", 20, [], count=4), "change": {"N": "21"}}, WEST),
        [("damaged", (WEST,))],
    ),
    "a net has no digest": (
        lambda world: put(
            world,
            {name: one for name, one in net("c", 20, [], count=4).items() if name != "digest"},
        ),
        [("damaged", (region,)) for region in REGIONS],
    ),
    "a foreign item cannot be counted": (
        lambda world: put(
            world, {"pk": {"S": "c"}, "sk": {"S": "zzz"}, "change": {"S": "oops"}}, HOME
        ),
        [("damaged", (HOME,)), ("foreign", REGIONS)],
    ),
    "an entry cannot be read": (
        lambda world: put(world, {**entry(1), "effective": {"S": "soon"}}, SOUTH),
        [("damaged", (SOUTH,))],
    ),
    "a net names a region that is none": (
        lambda world: put(world, homeless(), HOME, WEST, SOUTH),
        [("home", (region,)) for region in REGIONS],
    ),
    "a net of a generation that the contract does not have": (
        lambda world: put(world, net("c", 20, [], count=4, generation=9999), HOME, WEST, SOUTH),
        [("generation", (region,)) for region in REGIONS],
    ),
    "a foreign item": (
        lambda world: put(world, {"pk": {"S": "c"}, "sk": {"S": "a4"}, "change": {"N": "1"}}),
        [("foreign", REGIONS)],
    ),
    "an item without a change": (
        lambda world: put(world, {"pk": {"S": "c"}, "sk": {"S": "note"}}, WEST),
        [("ignored", REGIONS)],
    ),
}


def homeless() -> Item:
    """Return a net whose home is no region of the table."""
    return net_item(replace(net_of(net("c", 20, [], count=4)), home="mars-1"), "c")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("named", [True, False])
async def test_what_is_wrong_is_named(case: str, named: bool) -> None:  # noqa: FBT001
    """What and where, of one counter or of the whole table; harmless things are no damage."""
    world = three_regions(page_items_max=2)
    for number in range(3):
        put(world, entry(number))
    put(world, net("c", 20, [], count=4))
    break_it, expected = CASES[case]
    break_it(world)
    found = await (found_in(world, "c") if named else found_in(world))
    assert brief(found) == expected
    assert {finding.counter for finding in found} == {"c"}


@pytest.mark.parametrize(
    ("other", "text"),
    [
        ({"note": {"S": "b"}}, f"note: {HOME} 'a', {WEST} 'b', {SOUTH} 'a'"),
        ({"note": None}, f"note: {HOME} 'a', {WEST} none, {SOUTH} 'a'"),
        ({"change": {"N": "7"}}, f"change: {HOME} 1, {WEST} 7, {SOUTH} 1"),
        (
            {"effective": {"S": "2026-01-02"}, "region": {"S": WEST}},
            (
                f"region: {HOME} none, {WEST} '{WEST}', {SOUTH} none;"
                f" effective: {HOME} none, {WEST} 2026-01-02, {SOUTH} none"
            ),
        ),
    ],
)
async def test_what_is_not_alike_is_named_with_what_each_region_shows(
    other: dict[str, Any], text: str
) -> None:
    """Each attribute that differs, and no other."""
    world = three_regions()
    item = {**entry(1), "note": {"S": "a"}}
    put(world, item)
    put(world, {name: one for name, one in {**item, **other}.items() if one is not None}, WEST)
    first, *_ = await found_in(world)
    assert first.text == f"older than settle, and different: {text}"


async def test_what_home_does_not_show_is_found() -> None:
    """A collection that only another region has is compared all the same."""
    world = three_regions()
    put(world, entry(1), SOUTH)
    found = await found_in(world)
    assert brief(found) == [("missing", (HOME, WEST)), ("total", REGIONS)]
    assert found[0].sort_key == str(id_of(1))


async def test_what_is_gone_when_it_is_read_again_is_no_finding() -> None:
    """A suspect is read a second time: by then it may have arrived, or be gone everywhere."""
    world = three_regions()
    for number in range(2):
        put(world, entry(number), HOME, WEST)
    store = world.replicas[SOUTH]
    read = store.query

    async def arriving(query: Any) -> Any:
        page = await read(query)
        if query.first is None:
            put(world, entry(0), SOUTH)
            put(world, None, key=("c", str(id_of(1))))
        return page

    store.query = arriving  # type: ignore[method-assign]
    assert await found_in(world, "c") == []


async def test_a_collection_whose_nets_never_stand_still_is_said_to_be_busy() -> None:
    """A comparison across a fold says nothing; after some tries it is named, and no damage."""
    world = three_regions()
    versions = iter(range(100))
    store = world.replicas[HOME]
    read = store.query

    async def folding(query: Any) -> Any:
        put(world, net("c", 1, [], count=1, version=f"v{next(versions)}"))
        return await read(query)

    store.query = folding  # type: ignore[method-assign]
    assert brief(await found_in(world, "c")) == [("busy", REGIONS)]
    assert next(versions) == 3 * TRIES_MAX


async def test_the_suspects_of_a_collection_are_bounded() -> None:
    """Of very many wrong items some are named, and of the rest the number is."""
    world = three_regions()
    for number in range(SUSPECTS_MAX + 7):
        put(world, entry(number), HOME)
    found = await found_in(world, "c")
    assert len(found) == SUSPECTS_MAX + 2
    assert "7 more items look wrong" in found[-2].text


def shared(parts: str = "5 -1 8", *, change: int = 12, age: timedelta = AGE) -> Item:
    """Return an item that three changes share."""
    id_ = str(id_of(1, age=age))
    return entry_item(Entry("c", id_, Decimal(change), HOME, count=3, parts=parts))


async def test_changes_that_share_an_item_are_in_order() -> None:
    """Alike in all regions, or young and not everywhere yet."""
    world = three_regions()
    put(world, shared())
    put(world, shared(age=timedelta(0)), WEST)
    assert await found_in(world, "c") == []


@pytest.mark.parametrize(
    "wrong",
    [shared(change=13), shared("5 -1  8"), shared("5 7"), {**shared(), "parts": {"N": "5"}}],
)
@pytest.mark.parametrize("age", [AGE, timedelta(0)])
async def test_changes_that_do_not_add_up_are_named(wrong: Item, age: timedelta) -> None:
    """With the item and the region; also of one that is young."""
    world = three_regions()
    right = shared(age=age)
    put(world, right)
    put(world, {**wrong, "sk": right["sk"]}, WEST)
    [found] = await found_in(world, "c")
    assert brief([found]) == [("damaged", (WEST,))]
    assert found.sort_key == right["sk"]["S"]
    assert found.is_damage
    assert "parts must be" in found.text


async def test_other_changes_of_one_sum_differ() -> None:
    """Totals are alike, histories are not."""
    world = three_regions()
    put(world, shared(), HOME, WEST)
    put(world, shared("5 -2 9"), SOUTH)
    [found] = await found_in(world, "c")
    assert brief([found]) == [("differs", REGIONS)]
    assert found.text == (
        "older than settle, and different: parts:"
        f" {HOME} '5 -1 8', {WEST} '5 -1 8', {SOUTH} '5 -2 9'"
    )
