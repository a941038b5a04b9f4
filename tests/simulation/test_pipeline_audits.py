"""Audits and mends in the deterministic world, beside lanes that crash, stall and come twice."""

from collections.abc import Iterator
from functools import partial
from unittest.mock import patch

import pytest
from proof.simulator import loop, store
from support.audits import MUTANTS, AuditedWorld

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


async def live(seed: int, *, mends: bool) -> AuditedWorld:
    """Let a world live to its end."""
    world = AuditedWorld(seed, mends=mends)
    await world.run()
    return world


def wrong_in(seed: int, *, mends: bool) -> list[str]:
    """Return what is wrong in the end of a world, and what its audits found."""
    world = loop.run(partial(live, seed, mends=mends))
    verdict = [one for one in world.verdict() if not (mends and one.startswith("dead letters"))]
    return world.wrong + verdict


@pytest.mark.parametrize("mends", [False, True])
def test_audits_find_nothing_while_lanes_run(*, mends: bool) -> None:
    """However lanes and audits are cut off, states and totals agree at every cut."""
    found = {seed: wrong for seed in SEEDS if (wrong := wrong_in(seed, mends=mends))}
    assert found == {}


@pytest.mark.parametrize("rule", MUTANTS)
def test_mutant(rule: str) -> None:
    """With a rule broken some audit differs, or some total is wrong in the end."""
    mends, breaking = MUTANTS[rule]
    with breaking():
        assert any(wrong_in(seed, mends=mends) for seed in MUTANT_SEEDS)
