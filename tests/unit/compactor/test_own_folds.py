"""What a process folded last is deleted after a look at the nets alone, and only if it stands."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from support.compacting import SETTLE, Instance, World
from support.ledgers import HOME, SOUTH, WEST, net

from compactor.merge_plan import MergePlan
from compactor.own_folds import AGAIN_MIN, OwnFolds
from ledger.core.entry import entry_id, net_of
from ledger.core.values import NetChange
from ledger.store.reads import FoundItems, Get, Page, Query
from ledger.testing.clock import START
from ledger.testing.replicas import Replica

IDS = [entry_id(START, place) for place in range(6)]
BEFORE = net_of(net("counter", 2, IDS[:2], version="v1"))
AFTER = net_of(net("counter", 5, IDS[1:5], version="v2", count=5))
KEYS = tuple(map(str, IDS))


def kept(*, ids_max: int = 100) -> OwnFolds:
    """Return the folds of a process after one."""
    own = OwnFolds(ids_max)
    own.add("counter", BEFORE, AFTER)
    return own


def test_what_a_fold_added_is_deleted() -> None:
    """Of the ids that the net names, those that the one before did not."""
    found = kept().of("counter")
    assert found is not None
    assert found.plan() == MergePlan(deletes=KEYS[2:5])


@pytest.mark.parametrize(
    ("shown", "is_committed"),
    [
        (AFTER, True),
        (BEFORE, False),
        (None, False),
        (replace(AFTER, version="v3"), False),
        (replace(AFTER, generation=2), False),
    ],
)
def test_committed_is_what_every_region_shows(
    shown: NetChange | None, *, is_committed: bool
) -> None:
    """One region with another net, older or newer, is enough to wait."""
    found = kept().of("counter")
    assert found is not None
    assert found.is_committed({HOME: AFTER, WEST: shown, SOUTH: AFTER}) == is_committed


def test_what_a_later_fold_replaces_takes_no_room() -> None:
    """Of one collection the ids of one fold are kept, however often it is folded."""
    own = kept(ids_max=3)
    own.add("counter", BEFORE, replace(AFTER, version="v3"))
    found = own.of("counter")
    assert found is not None
    assert found.is_committed(dict.fromkeys((HOME, WEST, SOUTH), replace(AFTER, version="v3")))


def test_a_later_fold_takes_the_place() -> None:
    """Only the last fold of a collection is known; taken once it is not known any more."""
    own = kept()
    own.add("counter", AFTER, replace(AFTER, version="v3", merged=tuple(IDS[4:])))
    found = own.take("counter")
    assert found is not None
    assert found.plan() == MergePlan(deletes=KEYS[5:])
    assert own.of("counter") is None
    assert own.take("counter") is None


def test_a_fold_that_only_forgets_is_not_kept() -> None:
    """There is nothing to delete by it."""
    own = OwnFolds()
    own.add("counter", AFTER, replace(AFTER, version="v3", merged=()))
    assert own.of("counter") is None


def test_ids_are_bounded() -> None:
    """A fold that does not fit is left to be read again; room comes back when one is taken."""
    own = kept(ids_max=5)
    own.add("other", None, AFTER)
    assert own.of("other") is None
    own.take("counter")
    own.add("other", None, AFTER)
    assert own.of("other") is not None


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Queries of collections, as they are asked: from where each begins, empty for the whole.

    Of reads that are joined, the sort keys.
    """
    asked: list[str] = []
    query_of, get_each_of = Replica.query, Replica.get_each

    async def query(replica: Replica, query: Query) -> Page:
        if not query.partition.startswith("~"):
            asked.append(query.first or "")
        return await query_of(replica, query)

    async def get_each(replica: Replica, gets: Sequence[Get]) -> FoundItems:
        asked.extend(sort_key for partition, sort_key in (get.key for get in gets))
        return await get_each_of(replica, gets)

    monkeypatch.setattr(Replica, "query", query)
    monkeypatch.setattr(Replica, "get_each", get_each)
    return asked


async def folded(world: World, one: Instance) -> None:
    """Let a process fold a collection."""
    await world.settled(entries=6)
    report = await world.run_once(one)
    assert (report.folds, report.merged) == (1, 6)


async def test_the_next_visit_reads_nets_alone(reads: list[str]) -> None:
    """In each region one read of the net; then all is deleted, and totals stay right."""
    world = World()
    one = world.instance()
    await folded(world, one)
    reads.clear()
    report = await world.run_once(one)
    assert report.deleted == 6
    assert reads == ["~net#0001"] * 3
    assert not world.shown(SOUTH).entries
    assert world.is_right()


async def test_nothing_is_deleted_before_every_region_shows_the_net() -> None:
    """A region that replication does not reach keeps the entries where they are."""
    world = World()
    one = world.instance()
    await world.settled(entries=6)
    world.regions.pause(HOME, SOUTH)
    report = await world.run_once(one)
    assert report.folds == 1
    for _ in range(3):
        assert (await world.run_once(one)).deleted == 0
        assert world.is_right()
    world.regions.heal()
    world.regions.deliver()
    assert (await world.run_once(one)).deleted == 6
    assert world.is_right()


async def test_another_net_has_the_collection_read_whole(reads: list[str]) -> None:
    """A net that another process wrote since is not the one whose entries are known here."""
    world = World()
    one, two = world.instance(), world.instance("two")
    await folded(world, one)
    await world.clock.advance(60)
    assert (await world.run_once(two)).deleted == 6
    await world.settled(entries=4)
    assert (await world.run_once(two)).folds == 1
    await world.clock.advance(60)
    reads.clear()
    report = await world.run_once(one)
    assert (report.deleted, reads.count("")) == (4, 3)
    assert world.is_right()


async def test_a_table_that_was_put_back_is_read_whole() -> None:
    """As after a restore: the net is an older one, and what it does not name is not deleted."""
    world = World()
    one = world.instance()
    await world.settled(entries=6)
    await world.run_once(one)
    older = net("counter", 0, (), version="v0")
    for region in (HOME, WEST, SOUTH):
        world.regions.put(region, older)
    world.regions.deliver()
    await world.clock.advance(SETTLE)
    report = await world.run_once(one)
    assert report.deleted == 0
    assert world.is_right()


@pytest.mark.parametrize(("entries", "folds"), [(AGAIN_MIN, 3), (AGAIN_MIN - 1, 2)])
async def test_a_hot_counter_is_folded_in_every_pass(entries: int, folds: int) -> None:
    """Where much was folded, what has settled since is looked at in the pass that deletes it."""
    world = World()
    one = world.instance()
    found = 0
    for _ in range(3):
        await world.settled(entries=entries)
        found += (await world.run_once(one)).folds
        assert world.is_right()
    assert found == folds
