"""States forgotten in the deterministic world, beside lanes that stall with old records in hand."""

from functools import partial

import pytest
from proof.simulator import loop
from support.forgets import MUTANTS, ForgettingWorld

pytestmark = pytest.mark.slow

SEEDS = range(100)
MUTANT_SEEDS = range(200)


async def live(seed: int) -> ForgettingWorld:
    """Let a world live to its end."""
    world = ForgettingWorld(seed)
    await world.run()
    return world


def wrong_in(seed: int) -> list[str]:
    """Return what is wrong in the end of a world."""
    world = loop.run(partial(live, seed))
    return world.wrong + world.verdict()


def test_no_record_counts_twice_while_states_are_forgotten() -> None:
    """However workers stall and runs are cut off, states, what was forgotten and totals agree."""
    found, forgotten = {}, 0
    for seed in SEEDS:
        world = loop.run(partial(live, seed))
        if wrong := world.wrong + world.verdict():
            found[seed] = wrong
        forgotten += world.done
    assert found == {}
    assert forgotten > len(SEEDS)


@pytest.mark.parametrize("rule", MUTANTS)
def test_mutant(rule: str) -> None:
    """With a rule broken some record counts twice, or an audit differs."""
    with MUTANTS[rule]():
        assert any(wrong_in(seed) for seed in MUTANT_SEEDS)
