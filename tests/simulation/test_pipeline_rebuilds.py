"""Rebuilds in the deterministic world, beside lanes that crash, stall and come twice."""

from collections.abc import Iterator
from functools import partial
from unittest.mock import patch

import pytest
from proof.simulator import loop, store
from support.rebuilds import MUTANTS, RebuiltWorld

from ledger.pipeline.auditing import scan_checkpoints

pytestmark = pytest.mark.slow

SEEDS = range(100)
MUTANT_SEEDS = range(60)


@pytest.fixture(autouse=True)
def small_pages() -> Iterator[None]:
    """Read few items at once, and keep the place after each."""
    with (
        patch.object(store, "SCAN_PAGE_ITEMS_MAX", 5),
        patch.object(scan_checkpoints, "CHECKPOINT_PAGES", 1),
    ):
        yield


async def live(seed: int) -> RebuiltWorld:
    """Let a world live to its end."""
    world = RebuiltWorld(seed)
    await world.run()
    return world


def wrong_in(seed: int) -> list[str]:
    """Return what is wrong in the end of a world."""
    world = loop.run(partial(live, seed))
    return world.wrong + world.verdict()


def test_all_is_of_the_new_form_in_the_end() -> None:
    """However lanes and rebuilds are cut off, totals are those of the settings of now."""
    assert {seed: wrong for seed in SEEDS if (wrong := wrong_in(seed))} == {}


@pytest.mark.parametrize("rule", MUTANTS)
def test_mutant(rule: str) -> None:
    """With a rule broken some total is wrong in the end."""
    with MUTANTS[rule]():
        assert any(wrong_in(seed) for seed in MUTANT_SEEDS)
