"""Looking no further than a visit can use: the same plan as from everything, for less reading."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from random import Random

import pytest
from support.ledgers import HOME, SOUTH, WEST, net, three_regions

from compactor import observation as observing
from compactor.merge_plan import MergePlan, MergeRules, plan_merge
from compactor.observation import EVERYTHING, CollectionViews, ReadExtent, observe
from ledger.core.entry import entry_id, entry_item
from ledger.core.ids import EntryId
from ledger.core.values import Entry
from ledger.testing.clock import START, ManualClock
from ledger.testing.replicas import ManualWorld

NOW = START + timedelta(hours=1)
RULES = MergeRules(home=HOME, settle=900, fold_max=8, fold_min=1, fold_age=5000, prune_min=1)
REGIONS = (HOME, WEST, SOUTH)
CASES = 150


@dataclass(frozen=True, slots=True)
class Case:
    """A collection as three regions show it, and which of its ids the net names."""

    regions: ManualWorld
    merged: tuple[EntryId, ...]


def case(chance: Random, *, missing: float, merged: int) -> Case:
    """Return a collection of up to 40 entries, each missing in a region with some chance."""
    regions = three_regions(page_items_max=chance.choice((1, 2, 5, 100)))
    ages = [chance.uniform(0, 3000) for _ in range(chance.randrange(1, 40))]
    made = sorted(entry_id(NOW - timedelta(seconds=age), place) for place, age in enumerate(ages))
    settled = [one for one in made if (NOW - one.at).total_seconds() > RULES.settle]
    named = tuple(sorted(chance.sample(settled, min(merged, len(settled)))))
    for one in made:
        item = entry_item(Entry("counter", str(one), Decimal(1)))
        for store in regions.replicas.values():
            if chance.random() >= missing:
                store.table.set(("counter", str(one)), item)
    if named:
        for store in regions.replicas.values():
            store.table.set(("counter", "~net#0001"), net("counter", len(named), named))
    if chance.random() < 0.3:
        for place in range(20):
            key = ("counter", f"0{place}")
            item = {"pk": {"S": key[0]}, "sk": {"S": key[1]}, "change": {"N": "1"}}
            regions.replicas[HOME].table.set(key, item)
    return Case(regions, named)


async def seen_by(one: Case, extent: ReadExtent) -> CollectionViews:
    """Observe a collection."""
    return await observe(
        one.regions.replicas, "counter", home=HOME, clock=ManualClock(instant=True), extent=extent
    )


async def plans(one: Case) -> tuple[MergePlan, MergePlan]:
    """Return the plans made from all of a collection and from what a visit reaches."""
    extent = ReadExtent.of(RULES, "counter", now=NOW)
    whole, part = [
        plan_merge((await seen_by(one, how)).observation, RULES, now=NOW, version="v2")
        for how in (EVERYTHING, extent)
    ]
    return whole, part


def dropped(one: Case, plan: MergePlan) -> set[EntryId]:
    """Return the ids that the net names no more after a plan."""
    return set(one.merged) - set(plan.fold.merged) if plan.fold else set()


async def count_wrong(
    check: Callable[[Case, MergePlan, MergePlan], bool], *, missing: float
) -> int:
    """Return in how many of many cases a check fails."""
    wrong = 0
    for seed in range(CASES):
        chance = Random(seed)  # noqa: S311 (repeatable)
        one = case(chance, missing=missing, merged=chance.choice((0, 3, 8)))
        wrong += not check(one, *(await plans(one)))
    return wrong


def is_same(_one: Case, whole: MergePlan, part: MergePlan) -> bool:
    """Return whether two plans do the same."""
    return replace(part, backlog=0) == replace(whole, backlog=0)


def is_sound(one: Case, whole: MergePlan, part: MergePlan) -> bool:
    """Return whether a plan drops and deletes no more than the one made from everything."""
    return set(part.deletes) == set(whole.deletes) and dropped(one, part) <= dropped(one, whole)


async def test_the_plan_is_the_same() -> None:
    """Where every region shows the same, a visit does what it would do if it read everything."""
    assert await count_wrong(is_same, missing=0.0) == 0


async def test_no_id_is_dropped_that_is_visible_further_on() -> None:
    """Whatever regions lack, only ids that no region shows anywhere are dropped."""
    assert await count_wrong(is_sound, missing=0.4) == 0


async def test_ending_before_the_ids_of_the_net_drops_visible_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The negative control: a visit that ends before the net's ids takes them for gone."""
    monkeypatch.setattr(observing, "_enough", lambda _net, upto: upto)
    tight = ReadExtent(str(entry_id(NOW - timedelta(seconds=2900), 0)), 1)
    monkeypatch.setattr(ReadExtent, "of", staticmethod(lambda *_rules, **_now: tight))
    assert await count_wrong(is_sound, missing=0.4) > CASES // 10


async def test_a_long_collection_is_read_in_part() -> None:
    """Of 5,000 settled entries a visit reads a fold's worth and a page, then the net."""
    regions = three_regions(page_items_max=10)
    for place in range(5000):
        one = entry_id(NOW - timedelta(hours=2, microseconds=place), place)
        item = entry_item(Entry("counter", str(one), Decimal(1)))
        for store in regions.replicas.values():
            store.table.set(("counter", str(one)), item)
    for store in regions.replicas.values():
        store.table.set(("counter", "~net#0001"), net("counter", 7, ()))
    reads = 0

    async def count() -> None:
        nonlocal reads
        reads += 1

    regions.before_page = count
    seen = await seen_by(Case(regions, ()), ReadExtent.of(RULES, "counter", now=NOW))
    assert reads == 1 + 3 * 2
    for view in seen.observation.views.values():
        assert len(view.entries) == 10
        assert view.net is not None
    plan = plan_merge(seen.observation, RULES, now=NOW, version="v2")
    assert (plan.folded, plan.is_cut) == (8, True)


async def test_young_entries_are_not_read() -> None:
    """A hot counter's entries that have not settled cost a visit one page at most."""
    regions = three_regions(page_items_max=10)
    for place in range(500):
        one = entry_id(NOW - timedelta(microseconds=place), place)
        item = entry_item(Entry("counter", str(one), Decimal(1)))
        for store in regions.replicas.values():
            store.table.set(("counter", str(one)), item)
    seen = await seen_by(Case(regions, ()), ReadExtent.of(RULES, "counter", now=NOW))
    assert all(len(view.entries) == 10 for view in seen.observation.views.values())


async def test_other_tools_entries_do_not_fill_the_view() -> None:
    """Foreign entries that sort first are read past: only ours count towards a fold's worth."""
    regions = three_regions(page_items_max=10)
    ours = [entry_id(NOW - timedelta(hours=2), place) for place in range(5)]
    for store in regions.replicas.values():
        for place in range(100):
            key = ("counter", f"0{place:03}")
            foreign = {"pk": {"S": key[0]}, "sk": {"S": key[1]}, "change": {"N": "1"}}
            store.table.set(key, foreign)
        for each in ours:
            item = entry_item(Entry("counter", str(each), Decimal(1)))
            store.table.set(("counter", str(each)), item)
    seen = await seen_by(Case(regions, ()), ReadExtent.of(RULES, "counter", now=NOW))
    plan = plan_merge(seen.observation, RULES, now=NOW, version="v2")
    assert plan.folded == 5


async def test_the_newest_id_of_the_net_is_read_itself() -> None:
    """Ids of one moment differ in their last digits alone: none of them is taken for gone."""
    regions = three_regions(page_items_max=1)
    named = [entry_id(NOW - timedelta(hours=2), place) for place in range(3)]
    for one in named:
        item = entry_item(Entry("counter", str(one), Decimal(1)))
        regions.replicas[WEST].table.set(("counter", str(one)), item)
    for store in regions.replicas.values():
        store.table.set(("counter", "~net#0001"), net("counter", 3, named))
    extent = ReadExtent(
        str(named[0]), 100
    )  # a clock that was set back settles less than was folded
    shown = (await seen_by(Case(regions, tuple(named)), extent)).observation
    assert set(shown.views[WEST].entries) == set(map(str, named))
