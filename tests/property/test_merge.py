"""The merge under every order of events: P1 at each arrival, P2 and P4 at rest, and twins."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.broken import BROKEN, HOME_CANDIDATES
from support.ledgers import START
from support.merging import (
    HOLD_SECONDS,
    PARTITION,
    READ_MAX_SECONDS,
    RULES,
    STEPS,
    Leader,
    Method,
    Step,
    Walk,
    WrongTotal,
)
from support.regions import HOME, SOUTH, WEST, nothing
from support.strategies import money

from compactor.plan import Observation, Plan, decide
from ledger.core import ids
from ledger.core.entry import entry_id
from ledger.core.fold import Collection
from ledger.core.ids import EntryId
from ledger.core.values import NetChange

WALK_STEPS = 250
TWIN_SEEDS = 60
REGIONS = (HOME, WEST, SOUTH)
NOW = START + timedelta(hours=1)


async def walked(randomness: Random, *, fenced: bool, method: Method | None = None) -> Walk:
    """Walk, rest, and check what must hold at rest: P2 and P4."""
    walk = Walk(randomness, fenced=fenced, method=method)
    await walk.run(WALK_STEPS)
    await walk.rest()
    for region in walk.regions.stores:
        shown = walk.regions.collection(region, PARTITION)
        if shown.total() != walk.auditor.sum:
            raise WrongTotal(f"{region} rests at a wrong sum")
        left = [key for key in shown.entries if ids.parse(key) is not None]
        assert not left, f"{region} is left with unmerged entries {left}"
    return walk


@pytest.mark.parametrize("fenced", [False, True], ids=["without a fence", "with a fence"])
@pytest.mark.parametrize("seed", range(20))
async def test_no_order_of_events_shows(seed: int, *, fenced: bool) -> None:
    """Whatever three leaders, zombies and replication do, no region ever shows a wrong total."""
    walk = await walked(Random(seed), fenced=fenced)  # noqa: S311 (repeatable)
    assert walk.folds >= 3
    assert walk.deletes >= 10
    assert walk.auditor.checks >= 100


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("fenced", [False, True], ids=["without a fence", "with a fence"])
async def test_no_order_of_events_shows_in_many_seeds(*, fenced: bool) -> None:
    """The same over a thousand seeds."""
    for seed in range(100, 1100):
        await walked(Random(seed), fenced=fenced)  # noqa: S311 (repeatable)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    steps=st.lists(st.sampled_from(list(STEPS)), min_size=60, max_size=160),
    fenced=st.booleans(),
)
async def test_no_order_of_events_shows_by_search(
    seed: int, steps: list[Step], *, fenced: bool
) -> None:
    """The same, with orders that hypothesis looks for and would shrink."""
    walk = Walk(Random(seed), fenced=fenced, hold=HOLD_SECONDS)  # noqa: S311 (repeatable)
    for step in steps:
        await walk.take(step)
    await walk.rest()
    for region in walk.regions.stores:
        assert walk.regions.collection(region, PARTITION).total() == walk.auditor.sum


async def walked_with_readers(seed: int, *, hold: float) -> Walk:
    """Walk among readers whose pages are far apart."""
    walk = Walk(Random(seed), hold=hold, reading=12)  # noqa: S311 (repeatable)
    await walk.run(WALK_STEPS)
    return walk


@pytest.mark.parametrize("seed", range(15))
async def test_readers_of_many_pages_see_no_merge(seed: int) -> None:
    """A read whose pages are far apart, up to `read_deadline`, counts each change once."""
    walk = await walked_with_readers(seed, hold=HOLD_SECONDS)
    assert walk.reads >= 10


@pytest.mark.parametrize("observation_delay", [0.0, READ_MAX_SECONDS / 2])
async def test_hold_is_needed(hold: float) -> None:
    """Without a hold, or with one under `read_deadline`, some read is wrong within sixty seeds."""
    for seed in range(TWIN_SEEDS):
        try:
            await walked_with_readers(seed, hold=hold)
        except WrongTotal:
            return
    pytest.fail(f"a hold of {hold:g} s was not caught in {TWIN_SEEDS} seeds")


@pytest.mark.parametrize("name", BROKEN)
async def test_each_rule_is_needed(name: str) -> None:
    """With one rule broken, some region shows a wrong total within sixty seeds."""
    for seed in range(TWIN_SEEDS):
        try:
            await walked(Random(seed), fenced=False, method=BROKEN[name])  # noqa: S311
        except WrongTotal:
            return
    pytest.fail(f"{name}: not caught in {TWIN_SEEDS} seeds")


async def _late_entry(method: Method) -> Walk:
    """Merge, and drop the id of, an entry that one region gets last of all.

    ::

        west    e ───────────────────────────────────────────> south: e
        home    net with e ── delete e ── net without its id ─> south: both nets, not the delete
    """
    walk = Walk(Random(1), method=method)  # noqa: S311 (repeatable)
    regions, leader = walk.regions, Leader()
    regions.between = nothing
    regions.watchers.clear()  # only the end is judged: what a reader would see
    for _ in range(4):
        await walk.write(WEST)
    for _ in range(3):
        walk.clock.pass_by(2 * RULES.fold_age)
        regions.deliver_only(lambda link, key: link[1] != SOUTH or key[1].startswith("~net"))
        await walk.cycle(leader)
    regions.deliver_only(lambda _, key: key[1].startswith("~net"))
    regions.deliver_only(lambda link, _: link == (WEST, SOUTH))
    return walk


async def test_entry_that_comes_last_is_counted_once() -> None:
    """An entry that one region has not got yet is not merged, so it counts once when it comes."""
    walk = await _late_entry(Method())
    assert walk.regions.collection(SOUTH, PARTITION).total() == walk.auditor.sum


async def test_entry_that_comes_last_would_be_counted_twice() -> None:
    """If home's view were enough, an entry would be counted twice where it arrives last."""
    walk = await _late_entry(HOME_CANDIDATES)
    assert walk.regions.collection(SOUTH, PARTITION).total() == 2 * walk.auditor.sum


# Plan, then apply: no region's total changes, in whatever order the parts arrive.


@st.composite
def observations(draw: st.DrawFn) -> Observation:
    """Any observation of a committed net: entries visible anywhere, merged or not, old or not."""
    ages = draw(st.lists(st.floats(0, 60), max_size=12))
    made = [entry_id(NOW - timedelta(seconds=age), place) for place, age in enumerate(ages)]
    changes: dict[str, Decimal] = {str(one): draw(money()) for one in made}
    changes |= {f"sk = {place}": draw(money()) for place in range(draw(st.integers(0, 2)))}
    views = {}
    net = draw(st.none() | nets(made))
    for region in REGIONS:
        shown = {key: change for key, change in changes.items() if draw(st.booleans())}
        views[region] = Collection(shown, net)
    return Observation(PARTITION, net, views)


@st.composite
def nets(draw: st.DrawFn, made: list[EntryId]) -> NetChange:
    """Any net that has merged some of these."""
    merged = tuple(sorted(one for one in made if draw(st.booleans())))
    count = len(merged) + draw(st.integers(0, 5))
    return NetChange(draw(money()), count, merged, "v1", "", HOME)


def _after(shown: Collection, plan: Plan, *, deleted: bool, folded: bool) -> Collection:
    """Return what a region shows once some of a plan has arrived there."""
    gone = set(plan.deletes) if deleted else set()
    entries = {key: change for key, change in shown.entries.items() if key not in gone}
    return Collection(entries, plan.fold if folded and plan.fold else shown.net)


@given(observation=observations(), fold_max=st.integers(1, 9), moves=st.booleans())
def test_plan_changes_no_total(observation: Observation, fold_max: int, *, moves: bool) -> None:
    """Deletes and fold of any plan, arrived or not in any region, leave its total as it was."""
    rules = replace(RULES, fold_max=fold_max, fold_min=1, move_to=WEST if moves else None)
    plan = decide(observation, rules, now=NOW, version="v2")
    for shown in observation.views.values():
        for deleted in (False, True):
            for folded in (False, True):
                after = _after(shown, plan, deleted=deleted, folded=folded)
                assert after.total() == shown.total()


@given(observation=observations())
def test_plan_counts_what_it_folds(observation: Observation) -> None:
    """The net's count grows by the entries folded, its ids stay in order and within `fold_max`."""
    plan = decide(observation, RULES, now=NOW, version="v2")
    if plan.fold is None:
        assert plan.folded == 0
        return
    before = observation.net.count if observation.net else 0
    assert plan.fold.count == before + plan.folded
    assert list(plan.fold.merged) == sorted(set(plan.fold.merged))
    kept = len(observation.net.merged) if observation.net else 0
    assert len(plan.fold.merged) <= max(RULES.fold_max, kept)
