"""The index follows folds, runs neither ahead of them nor back, and a search puts it right."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import anyio
import pytest
from prometheus_client import CollectorRegistry
from support.compacting import Instance, World, compactor_settings
from support.ledgers import HOME, SOUTH, WEST, net, seeded

from compactor.discovery.scan import Finder
from compactor.indexer import Indexer, not_newer
from compactor.job import Compactor
from compactor.merge_plan import MergeRules
from compactor.metrics import CompactorMetrics
from ledger.core.entry import Item, entry_id, net_item, net_of
from ledger.core.errors import AccessDenied
from ledger.core.ids import EntryIds
from ledger.core.index import (
    INDEX_PARTITIONS,
    IndexState,
    attributes_of,
    counter_in,
    index_key,
    index_place,
    state_of,
)
from ledger.core.sums import SumPlace
from ledger.core.values import NetChange
from ledger.runtime.metrics import Metrics
from ledger.runtime.services import Services
from ledger.settings import Settings
from ledger.store.conditions import holds
from ledger.store.memory import MemoryStore
from ledger.store.wrappers.faults import Fault, FaultCall, FaultyStore, Lost, Raises
from ledger.store.wrappers.meter import MeteredStore
from ledger.testing.clock import START, ManualClock

REGIONS = (HOME, WEST, SOUTH)
PASSES = 4
"""A fold, its deletes, and the forgetting of its ids."""
RULES = MergeRules(
    home=HOME, settle=900, fold_max=100, fold_min=3, fold_age=5000, prune_min=4, index=("c*",)
)


def indexed(*patterns: str, **overrides: Any) -> Settings:
    """Return settings of a compactor that keeps an index."""
    return compactor_settings(**overrides).replace(index=patterns or ("c*",))


def shown(world: World, region: str = HOME) -> dict[str, IndexState]:
    """Return the states that a region's index shows, by sort key."""
    table = world.regions.replicas[region].table
    items = [item for name in INDEX_PARTITIONS for item in table.partitions.get(name, {}).values()]
    return {item["sk"]["S"]: state_of(item) for item in items}


def state_in(world: World, counter: str = "counter", region: str = HOME) -> IndexState:
    """Return the state of the net that a region shows."""
    return IndexState.of(world.shown(region, counter).net)


def of_index(call: FaultCall) -> bool:
    """Return whether a call writes the index."""
    return call.operation == "write_each"


async def test_the_index_shows_what_the_net_came_to() -> None:
    """After the fold, and once replicated in every region."""
    world = World()
    await world.settled(entries=6)
    await world.run_once(world.instance(settings=indexed()))
    world.regions.deliver()
    for region in REGIONS:
        assert shown(world, region) == {"counter": state_in(world)}
    assert state_in(world).count == 6
    assert state_in(world).value == world.sum["counter"]


async def test_each_fold_moves_the_index_on() -> None:
    """One after the other, over several passes of several processes."""
    world = World()
    for count in (6, 12, 18):
        await world.settled(entries=6)
        one = world.instance(f"process-{count}", settings=indexed())
        for _ in range(4):
            await world.run_once(one)
        assert shown(world) == {"counter": state_in(world)}
        assert state_in(world).count == count


async def test_counters_of_other_patterns_are_not_indexed() -> None:
    """And a table without an index has no item of one."""
    world = World()
    await world.settled(entries=6, counter="counter")
    await world.settled(entries=6, counter="other")
    await world.run_once(world.instance(settings=indexed()))
    assert set(shown(world)) == {"counter"}
    bare = World()
    await bare.settled(entries=6)
    await bare.run_once(bare.instance())
    assert shown(bare) == {}


async def test_a_counter_without_a_net_is_listed_by_the_search() -> None:
    """Too few entries for a fold: it is there by name, at 0."""
    world = World()
    await world.settled(entries=1, counter="c-young")
    await world.run_once(world.instance(settings=indexed()))
    assert shown(world) == {"c-young": IndexState(0, 0, Decimal(0))}


async def test_an_unmerged_counter_is_listed_by_the_search() -> None:
    """Its entries never become a net."""
    world = World()
    await world.settled(entries=9, counter="c-kept")
    await world.run_once(world.instance(settings=indexed().replace(unmerged=("c-kept",))))
    assert shown(world) == {"c-kept": IndexState(0, 0, Decimal(0))}


async def test_a_counter_that_pipelines_alone_add_to_is_listed() -> None:
    """By its sum items, which no merge touches."""
    world = World()
    place = SumPlace(HOME, 1, 0)
    added = {"value": {"N": "5"}, "version": {"N": "1"}}
    world.regions.put(HOME, {"pk": {"S": "c-sums"}, "sk": {"S": place.sort_key}, **added})
    world.regions.deliver()
    await world.run_once(world.instance(settings=indexed()))
    assert set(shown(world)) == {"c-sums"}


async def test_items_that_count_for_nothing_are_not_listed() -> None:
    """An application's own item under a key that matches is no counter."""
    world = World()
    world.regions.put(HOME, {"pk": {"S": "c-own"}, "sk": {"S": "x"}, "name": {"S": "y"}})
    world.regions.deliver()
    await world.run_once(world.instance(settings=indexed()))
    assert shown(world) == {}


async def test_a_net_of_nothing_is_not_listed() -> None:
    """A late call asked about a counter that never had an entry."""
    world = World()
    net = NetChange(Decimal(0), 0, EntryIds(), "v", "", HOME)
    world.regions.put(HOME, net_item(net, "c-none"))
    world.regions.deliver()
    await world.run_once(world.instance(settings=indexed()))
    assert shown(world) == {}


async def test_nets_that_were_there_before_the_pattern_are_found_by_the_search() -> None:
    """A table at rest is listed without a fold."""
    world = World()
    names = [f"c{number}" for number in range(130)]
    for name in names:
        await world.settled(entries=3, counter=name)
    for _ in range(3):
        await world.run_once(world.instance("before"))
    assert shown(world) == {}
    report = await world.run_once(world.instance("after", settings=indexed()))
    assert report.folds == 0
    assert shown(world) == {name: state_in(world, name) for name in names}


async def killed_between_fold_and_index(world: World) -> Instance:
    """Let a process fold and end before the index follows; return it."""
    await world.settled(entries=6)
    dying = world.instance("dying", settings=indexed(scan_every=100_000))
    await world.run_once(dying)
    await world.settled(entries=6)

    def die(call: FaultCall) -> Fault | None:
        if not of_index(call):
            return None
        dying.is_dead = True
        return Raises(AccessDenied("the process is gone"))

    dying.faults[HOME] = die
    for _ in range(3):
        await world.run_once(dying)
    assert dying.is_dead
    assert state_in(world).count == 12
    assert shown(world)["counter"].count == 6
    return dying


async def test_what_a_crash_left_undone_is_put_right_by_the_next_search() -> None:
    """The fold stands, its index item does not; nothing but the index is behind."""
    world = World()
    await killed_between_fold_and_index(world)
    next_one = world.instance("next", settings=indexed())
    await world.run_once(next_one)
    assert shown(world) == {"counter": state_in(world)}
    assert world.is_right()


async def test_what_fails_of_the_index_fails_no_pass() -> None:
    """A role that may not write it is logged and counted; merging goes on."""
    world = World()
    dying = await killed_between_fold_and_index(world)
    dying.is_dead = False
    report = await world.run_once(dying)
    assert report.is_success
    assert (dying.metric("compactor_errors_total", kind="AccessDenied") or 0) >= 1


async def test_an_index_item_without_an_answer_is_as_good() -> None:
    """It was written; the search finds nothing to do."""
    world = World()
    await world.settled(entries=6)
    one = world.instance(settings=indexed())
    one.faults[HOME] = lambda call: Lost() if of_index(call) else None
    await world.run_once(one)
    one.faults.clear()
    await world.run_once(one)
    assert shown(world) == {"counter": state_in(world)}


def indexer_over(
    *items: Item,
    faulty: FaultyStore | None = None,
    others: Sequence[MemoryStore] = (),
    generation: int = 1,
) -> tuple[Indexer, MemoryStore]:
    """Return an indexer over a store of these items."""
    store = MemoryStore(HOME)
    for item in items:
        store.table.set((item["pk"]["S"], item["sk"]["S"]), item)
    metrics = CompactorMetrics.of(CollectorRegistry())
    made = Indexer(
        faulty or store, others=others, generation=generation, clock=ManualClock(), metrics=metrics
    )
    return made, store


def index_item(partition: str, state: IndexState, generation: int = 1) -> Item:
    """Return an index item."""
    key = index_key(partition, generation)
    assert key is not None
    return {"pk": {"S": key[0]}, "sk": {"S": key[1]}, **attributes_of(state, START)}


def state_there(store: MemoryStore, partition: str, generation: int = 1) -> IndexState | None:
    """Return what a generation's item says of a collection."""
    key = index_key(partition, generation)
    item = None if key is None else store.table.get(key)
    return None if item is None else state_of(item)


NEWER = IndexState(1, 9, Decimal(90))


@pytest.mark.parametrize("has_net_before", [False, True])
async def test_a_late_fold_does_not_set_the_index_back(*, has_net_before: bool) -> None:
    """A process that slept between fold and index meets what another wrote meanwhile."""
    indexer, store = indexer_over(index_item("c", NEWER))
    fold = net_of(net("c", 50, [entry_id(START, 1)], count=5))
    before = net_of(net("c", 40, [], count=4)) if has_net_before else None
    await indexer.folded("c", before, fold, is_applied=True, rules=RULES)
    await indexer.flush()
    assert state_there(store, "c") == NEWER


@pytest.mark.parametrize("has_net_before", [False, True])
async def test_a_fold_is_put_whether_the_index_has_an_item_or_not(*, has_net_before: bool) -> None:
    """What was expected otherwise is put by a second write."""
    for there in ([], [index_item("c", IndexState(0, 0, Decimal(0)))]):
        indexer, store = indexer_over(*there)
        fold = net_of(net("c", 50, [entry_id(START, 1)], count=5))
        before = net_of(net("c", 40, [], count=4)) if has_net_before else None
        await indexer.folded("c", before, fold, is_applied=True, rules=RULES)
        await indexer.flush()
        assert state_there(store, "c") == IndexState(1, 5, Decimal(50))


async def test_a_fold_that_is_not_known_to_be_applied_is_not_indexed() -> None:
    """The index never says what no net said."""
    indexer, store = indexer_over()
    fold = net_of(net("c", 50, [entry_id(START, 1)], count=5))
    await indexer.folded("c", None, fold, is_applied=False, rules=RULES)
    await indexer.flush()
    assert state_there(store, "c") is None


async def test_a_net_that_only_forgets_ids_writes_nothing() -> None:
    """It comes to the same."""
    indexer, _ = indexer_over()
    fold = net_of(net("c", 50, [], count=5))
    before = net_of(net("c", 50, [entry_id(START, 1)], count=5, version="v0"))
    await indexer.folded("c", before, fold, is_applied=True, rules=RULES)
    assert indexer._noted == {}


async def test_after_a_loss_a_fold_goes_beside_what_the_lost_home_put() -> None:
    """Under a key of its own: the lost home's item may bear a later stamp than any put now."""
    indexer, store = indexer_over(index_item("c", NEWER), generation=2)
    fold = net_of(net("c", 20, [], count=2, generation=2))
    await indexer.folded("c", net_of(net("c", 10, [], count=1)), fold, is_applied=True, rules=RULES)
    await indexer.flush()
    assert state_there(store, "c", 2) == IndexState(2, 2, Decimal(20))
    assert state_there(store, "c") == NEWER


async def test_the_search_deletes_what_former_generations_put() -> None:
    """As far as this one's item is there: until then theirs is all that lists the counter."""
    state = IndexState(1, 5, Decimal(1))
    many = [f"c{number}" for number in range(300)]  # of each partition more than fit in a request
    items = [
        *(index_item("c", state, generation) for generation in (1, 2, 3)),
        *(index_item("~1~c", state, generation) for generation in (1, 2)),
        index_item("c-3", state, 3),
        index_item("c-4", state, 4),
        *(index_item(name, state, generation) for name in many for generation in (1, 3)),
    ]
    indexer, store = indexer_over(*items, generation=3)
    rules = replace(RULES, generation=3)
    finder = Finder(
        store,
        rules=rules,
        now=START,
        segments=1,
        pages_max=9,
        stop=anyio.Event(),
        indexer=indexer,
    )
    await finder.find(None)
    left = {index_place(key) for found in store.table.partitions.values() for key in found}
    few = {("c", 0, 3), ("c", 1, 1), ("c", 1, 2), ("c-3", 0, 3), ("c-4", 0, 4)}
    assert left == few | {(name, 0, 3) for name in many}


async def test_a_former_item_stays_until_every_region_shows_the_one_after_it() -> None:
    """Elsewhere its delete could come before the item that was put earlier."""
    items = [index_item(name, NEWER, generation) for name in ("c", "d") for generation in (1, 2)]
    west = MemoryStore(WEST)
    for item in (items[0], items[1], items[2]):  # the new one of "d" is on its way
        west.table.set((item["pk"]["S"], item["sk"]["S"]), item)
    indexer, store = indexer_over(*items, others=[west], generation=2)
    await indexer.met([(item["pk"]["S"], item["sk"]["S"]) for item in items])
    assert state_there(store, "c") is None
    assert state_there(store, "d") == NEWER


async def test_a_delete_that_fails_fails_no_pass() -> None:
    """It is tried again by the next search."""
    state, refused = IndexState(1, 5, Decimal(1)), AccessDenied("no deletes")
    items = [index_item("c", state, generation) for generation in (1, 2)]
    inner = MemoryStore(HOME)
    faulty = FaultyStore(inner, lambda call: Raises(refused) if of_index(call) else None)
    indexer, _ = indexer_over(faulty=faulty, generation=2)
    for item in items:
        inner.table.set((item["pk"]["S"], item["sk"]["S"]), item)
    await indexer.met([(item["pk"]["S"], item["sk"]["S"]) for item in items])
    assert state_there(inner, "c") == state


async def test_shards_are_put_behind_their_counter() -> None:
    """Each by itself."""
    indexer, store = indexer_over()
    for partition in ("c", "~1~c"):
        fold = net_of(net(partition, 50, [entry_id(START, 1)]))
        await indexer.folded(partition, None, fold, is_applied=True, rules=RULES)
    await indexer.flush()
    (items,) = store.table.partitions.values()
    assert [counter_in(sort_key) for sort_key in sorted(items)] == ["c", "c"]


async def test_items_are_put_25_at_a_time() -> None:
    """At the 25th without waiting for the end of the pass."""
    indexer, store = indexer_over()
    for number in range(26):
        fold = net_of(net(f"c{number}", 1, [entry_id(START, 1)]))
        await indexer.folded(f"c{number}", None, fold, is_applied=True, rules=RULES)
    assert sum(len(items) for items in store.table.partitions.values()) == 25


async def test_an_item_that_was_edited_is_replaced() -> None:
    """It cannot be compared, so the net says what it is to be."""
    broken = {**index_item("c", NEWER), "generation": {"S": "one"}}
    indexer, store = indexer_over(net("c", 50, [], count=5), broken)
    await indexer.saw({"c": IndexState(1, 5, Decimal(50))})
    assert state_there(store, "c") == IndexState(1, 5, Decimal(50))


async def test_what_the_search_saw_before_a_fold_does_not_set_the_index_back() -> None:
    """It reads the net again before it writes."""
    indexer, store = indexer_over(net("c", 50, [], count=5))
    await indexer.saw({"c": IndexState(1, 3, Decimal(30))})
    assert state_there(store, "c") == IndexState(1, 5, Decimal(50))


async def test_a_counter_whose_net_is_damaged_is_listed_without_it() -> None:
    """Its total is no one's to say."""
    indexer, store = indexer_over({**net("c", 50, [], count=5), "change": {"N": "51"}})
    await indexer.saw({"c": IndexState(1, 5, Decimal(51))})
    assert state_there(store, "c") == IndexState(0, 0, Decimal(0))


async def test_a_net_of_no_home_of_the_table_is_not_in_the_index() -> None:
    """One of a generation that the contract does not have counts for nothing in a list, either."""
    indexer, store = indexer_over(net("c", 50, [], count=5), net("c", 10**6, [], generation=9999))
    await indexer.saw({"c": IndexState(9999, 0, Decimal(10**6))})
    assert state_there(store, "c") == IndexState(0, 0, Decimal(0))


async def test_a_search_puts_a_bounded_number_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest is for the next."""
    monkeypatch.setattr("compactor.indexer.REPAIRS_MAX", 150)
    indexer, store = indexer_over()
    for start in (0, 100, 200):
        names = [f"c{number}" for number in range(start, start + 100)]
        await indexer.saw(dict.fromkeys(names, IndexState(0, 0, Decimal(0))))
    assert sum(len(items) for items in store.table.partitions.values()) == 200


@pytest.mark.parametrize(
    "there", [None, *(IndexState(*at, Decimal(0)) for at in ((1, 5), (1, 6), (2, 1)))]
)
def test_the_condition_is_that_of_the_states(there: IndexState | None) -> None:
    """What the compactor would not replace, DynamoDB does not."""
    state = IndexState(1, 5, Decimal(1))
    item = None if there is None else index_item("c", there)
    assert holds(not_newer(state), item) == (there is not None and state.replaces(there))


async def units_of_second_fold(*patterns: str) -> tuple[float, float]:
    """Return the write and read units, at home, of passes that fold a counter a second time."""
    world = World()
    registry = CollectorRegistry()
    metrics = Metrics.of(registry)
    stores = {
        region: MeteredStore(store, metrics=metrics, clock=world.clock)
        for region, store in world.regions.replicas.items()
    }
    settings = compactor_settings(slices=1).replace(index=patterns)
    compactor = Compactor(
        settings,
        registry=registry,
        stores=stores,
        services=Services.of(clock=world.clock, randomness=seeded(1), registry=registry),
        owner="metered",
    )
    for _ in range(2):
        before = _units(registry)
        await world.settled(entries=6)
        for _ in range(PASSES):
            await world.drive(compactor.run_once)
    assert world.shown(HOME).net is not None
    after = _units(registry)
    return after[0] - before[0], after[1] - before[1]


def _units(registry: CollectorRegistry) -> tuple[float, float]:
    found = {"write": 0.0, "read": 0.0}
    operations = {"put", "each", "update", "transaction", "get_each"}
    for family in registry.collect():
        for sample in family.samples:
            if sample.name == "ledger_consumed_units_total" and sample.labels["region"] == HOME:
                kind = sample.labels["kind"]
                found[kind] += sample.value if sample.labels["operation"] in operations else 0
    return found["write"], found["read"]


@pytest.mark.slow
async def test_a_fold_of_an_indexed_counter_costs_one_write_unit_more() -> None:
    """In each region one, by replication; a counter of another pattern, or no index, none.

    Each search, here one a pass, reads its item for half a unit.
    """
    none, other, mine = [
        await units_of_second_fold(*patterns) for patterns in ((), ("d*",), ("c*",))
    ]
    assert none == other
    assert mine == (none[0] + 1, none[1] + PASSES * 0.5)
