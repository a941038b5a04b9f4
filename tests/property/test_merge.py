"""The merge under every order of events: P1 at each arrival, P2 and P4 at rest, and mutants."""

from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proof.simulator.mutants import MUTANTS
from support.ledgers import HOME, SOUTH, WEST
from support.merging import (
    OBSERVATION_DELAY_SECONDS,
    PARTITION,
    READ_DEADLINE_SECONDS,
    RULES,
    STEPS,
    Leader,
    Step,
    Walk,
    WrongTotal,
)
from support.strategies import money
from support.tiers import few_fast

from compactor.merge_plan import MergePlan, Observation, plan_merge
from ledger.core.entry import entry_id
from ledger.core.fold import Collection
from ledger.core.ids import EntryId
from ledger.core.values import NetChange
from ledger.demo.harness.digit_tags import digits
from ledger.testing.clock import START
from ledger.testing.replicas import nothing

WALK_STEPS = 250
MUTANT_SEEDS = 60
REGIONS = (HOME, WEST, SOUTH)
NOW = START + timedelta(hours=1)
MERGE_MUTANTS = (
    "one-transaction",
    "candidates-at-home",
    "gone-at-home",
    "early-deletes",
    "no-merged-ids",
    "net-last",
    "no-version",
    "no-settle",
)


async def walked(randomness: Random, *, fenced: bool) -> Walk:
    """Walk, rest, and check what must hold at rest: P2 and P4."""
    walk = Walk(randomness, fenced=fenced)
    await walk.run(WALK_STEPS)
    await walk.rest()
    return walk


@pytest.mark.parametrize("fenced", [False, True], ids=["without a fence", "with a fence"])
@pytest.mark.parametrize("seed", few_fast(range(20), fast=3))
async def test_no_order_of_events_shows(seed: int, *, fenced: bool) -> None:
    """Whatever three leaders, zombies and replication do, no region ever shows a wrong total."""
    walk = await walked(Random(seed), fenced=fenced)  # noqa: S311 (repeatable)
    assert walk.folds >= 3
    assert walk.deletes >= 10
    assert walk.auditor.checks >= 100


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("fenced", [False, True], ids=["without a fence", "with a fence"])
async def test_no_order_of_events_shows_in_many_seeds(*, fenced: bool) -> None:
    """The same over a thousand seeds."""
    for seed in range(100, 1100):
        await walked(Random(seed), fenced=fenced)  # noqa: S311 (repeatable)


@pytest.mark.slow
@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32),
    steps=st.lists(st.sampled_from(list(STEPS)), min_size=60, max_size=160),
    fenced=st.booleans(),
)
async def test_no_order_of_events_shows_by_search(
    seed: int, steps: list[Step], *, fenced: bool
) -> None:
    """The same, with orders that hypothesis looks for and would shrink."""
    walk = Walk(
        Random(seed),  # noqa: S311 (repeatable)
        fenced=fenced,
        hold=OBSERVATION_DELAY_SECONDS,
    )
    for step in steps:
        await walk.take(step)
    await walk.rest()


async def walked_with_readers(seed: int, *, hold: float) -> Walk:
    """Walk among readers whose pages are far apart."""
    walk = Walk(Random(seed), hold=hold, reading=12)  # noqa: S311 (repeatable)
    await walk.run(WALK_STEPS)
    return walk


@pytest.mark.parametrize("seed", range(15))
async def test_readers_of_many_pages_see_no_merge(seed: int) -> None:
    """A read whose pages are far apart, up to `read_deadline`, counts each change once."""
    walk = await walked_with_readers(seed, hold=OBSERVATION_DELAY_SECONDS)
    assert walk.auditor.reads >= 10


@pytest.mark.slow
@pytest.mark.parametrize("hold", [0.0, READ_DEADLINE_SECONDS / 2])
async def test_hold_is_needed(hold: float) -> None:
    """Without a hold, or with one under `read_deadline`, some read is wrong within sixty seeds."""
    for seed in range(MUTANT_SEEDS):
        try:
            await walked_with_readers(seed, hold=hold)
        except WrongTotal:
            return
    pytest.fail(f"a hold of {hold:g} s was not caught in {MUTANT_SEEDS} seeds")


@pytest.mark.slow
@pytest.mark.parametrize("name", MERGE_MUTANTS)
async def test_each_rule_is_needed(name: str) -> None:
    """With one rule broken, some region shows a wrong total within sixty seeds."""
    for seed in range(MUTANT_SEEDS):
        try:
            with MUTANTS[name].active():
                await walked(Random(seed), fenced=False)  # noqa: S311
        except WrongTotal:
            return
    pytest.fail(f"{name}: not caught in {MUTANT_SEEDS} seeds")


async def _late_entry(mutant: str | None = None) -> dict[int, int]:
    """Merge, and drop the id of, entries that one region gets last; return what it counts.

    ::

        west    e ───────────────────────────────────────────> south: e
        home    net with e ── delete e ── net without its id ─> south: both nets, not the delete
    """
    with MUTANTS[mutant].active() if mutant else nullcontext():
        walk = Walk(Random(1))  # noqa: S311 (repeatable)
        world, leader = walk.world, Leader()
        world.before_page = nothing
        world.observers.clear()  # only the end is checked: what a reader would see
        for _ in range(4):
            await walk.write(WEST)
        for _ in range(3):
            walk.clock.pass_by(2 * RULES.fold_age)
            world.deliver_only(lambda link, key: link[1] != SOUTH or key[1].startswith("~net"))
            await walk.cycle(leader)
        world.deliver_only(lambda _, key: key[1].startswith("~net"))
        world.deliver_only(lambda link, _: link == (WEST, SOUTH))
        return digits(world.collection(SOUTH, PARTITION).total())


async def test_entry_that_comes_last_is_counted_once() -> None:
    """An entry that one region has not got yet is not merged, so it counts once when it comes."""
    assert await _late_entry() == {0: 1, 1: 1, 2: 1, 3: 1}


async def test_entry_that_comes_last_would_be_counted_twice() -> None:
    """If home's view were enough, an entry would be counted twice where it arrives last."""
    assert await _late_entry("candidates-at-home") == {0: 2, 1: 2, 2: 2, 3: 2}


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


def _after(shown: Collection, plan: MergePlan, *, deleted: bool, folded: bool) -> Collection:
    """Return what a region shows once some of a plan has arrived there."""
    gone = set(plan.deletes) if deleted else set()
    entries = {key: change for key, change in shown.entries.items() if key not in gone}
    return Collection(entries, plan.fold if folded and plan.fold else shown.net)


@given(observation=observations(), fold_max=st.integers(1, 9))
def test_plan_changes_no_total(observation: Observation, fold_max: int) -> None:
    """Deletes and fold of any plan, arrived or not in any region, leave its total as it was."""
    rules = replace(RULES, fold_max=fold_max, fold_min=1)
    plan = plan_merge(observation, rules, now=NOW, version="v2")
    for shown in observation.views.values():
        for deleted in (False, True):
            for folded in (False, True):
                after = _after(shown, plan, deleted=deleted, folded=folded)
                assert after.total() == shown.total()


@given(observation=observations())
def test_plan_counts_what_it_folds(observation: Observation) -> None:
    """The net's count grows by the entries folded, its ids stay in order and within `fold_max`."""
    plan = plan_merge(observation, RULES, now=NOW, version="v2")
    if plan.fold is None:
        assert plan.folded == 0
        return
    before = observation.net.count if observation.net else 0
    assert plan.fold.count == before + plan.folded
    assert list(plan.fold.merged) == sorted(set(plan.fold.merged))
    kept = len(observation.net.merged) if observation.net else 0
    assert len(plan.fold.merged) <= max(RULES.fold_max, kept)
