"""The pipeline in the deterministic world: crashes, zombies, lost answers, lanes, regions."""

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from proof.simulator import loop
from support.pipeline_mutants import MUTANTS
from support.pipelines import PipelineWorld

import ledger

pytestmark = pytest.mark.slow

SUMS = ("sums",)
SEEDS = range(180)
ONE_MODE_SEEDS = range(2000, 2060)
MERGED_SEEDS = range(1000, 1070)
MANY_SEEDS = range(10_000, 13_000)
MUTANT_SEEDS = range(60)
"""The rarest mutant needs some 20 of them."""


BOTH = ("sums", "entries")


async def live(seed: int, *, compacts: bool = False, totals: Sequence[str] = BOTH) -> PipelineWorld:
    """Let a world live to its end."""
    world = PipelineWorld(seed, compacts=compacts, totals=totals)
    await world.run()
    return world


def verdict(seed: int, *, compacts: bool = False, totals: Sequence[str] = BOTH) -> list[str]:
    """Return what is wrong in the end of a world."""
    return loop.run(partial(live, seed, compacts=compacts, totals=totals)).verdict()


def test_every_world_ends_with_the_truth_in_every_region() -> None:
    """Whatever crashes, stalls, is lost or repeated: newest versions count, each once.

    Workers that add to sums and workers that write entries, side by side.
    """
    assert {seed: found for seed in SEEDS if (found := verdict(seed))} == {}


@pytest.mark.parametrize("totals", BOTH)
def test_every_world_of_one_mode_ends_with_the_truth(totals: str) -> None:
    """The same where all add to sums, or all write entries."""
    found = {seed: verdict(seed, totals=(totals,)) for seed in ONE_MODE_SEEDS}
    assert {seed: wrong for seed, wrong in found.items() if wrong} == {}


def test_merging_meanwhile_changes_nothing() -> None:
    """The compactor folds the pipeline's entries as any others, and passes its sums by."""
    totals = ("entries", "entries", "sums")  # most have something to fold
    worlds = {
        seed: loop.run(partial(live, seed, compacts=True, totals=totals)) for seed in MERGED_SEEDS
    }
    assert {seed: found for seed, one in worlds.items() if (found := one.verdict())} == {}
    assert sum(world.folds for world in worlds.values()) > len(worlds) / 3


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("compacts", [False, True])
def test_every_world_ends_with_the_truth_at_length(*, compacts: bool) -> None:
    """The same over thousands of seeds."""
    found = {seed: verdict(seed, compacts=compacts) for seed in MANY_SEEDS}
    assert {seed: wrong for seed, wrong in found.items() if wrong} == {}


@pytest.mark.parametrize("rule", MUTANTS)
def test_mutant(rule: str) -> None:
    """With a rule broken some world ends wrong."""
    with MUTANTS[rule]():
        assert any(verdict(seed, totals=SUMS) for seed in MUTANT_SEEDS)


def test_the_page_names_each_mutant() -> None:
    """The table of rules has a row for each, and none that is not there."""
    page = Path(ledger.__file__).parent / "docs/internals/pipeline.md"
    (rows,) = re.findall(r"\| mutant \|\n\|[-|]+\n((?:\|.*\n)+)", page.read_text(encoding="utf-8"))
    assert {row.split("`")[-2] for row in rows.splitlines()} == {*MUTANTS}
