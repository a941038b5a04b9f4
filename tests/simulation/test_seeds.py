"""Whole worlds from seeds: no promise is broken, and each rule is needed."""

import os
from pathlib import Path

import pytest

from ledger.sim.run import run_seed
from ledger.sim.twins import TWINS, run_broken

FRESH_SEEDS = 24
FRESH_FROM = int(os.environ.get("LEDGER_SIM_FIRST_SEED", "100000"))
QUICK_SEEDS_MAX = 60
REGRESSIONS = Path(__file__).with_name("regressions.txt")


def _regressions() -> list[int]:
    lines = [line for line in REGRESSIONS.read_text().splitlines() if line and line[0] != "#"]
    return [int(line.split()[0]) for line in lines]


@pytest.mark.parametrize("seed", range(FRESH_FROM, FRESH_FROM + FRESH_SEEDS))
def test_no_seed_breaks_a_promise(seed: int) -> None:
    """Whatever happens in a world, no total is ever wrong, and at rest all regions agree."""
    result = run_seed(seed)
    assert result.violation is None, f"{result.violation}: python -m ledger.sim --replay {seed}"
    assert result.steps > 100
    assert result.checks > 10
    assert result.reads > 10


@pytest.mark.parametrize("seed", _regressions())
def test_no_regression(seed: int) -> None:
    """Seeds that once failed, or meet something rare, pass."""
    result = run_seed(seed)
    assert result.violation is None, f"{result.violation}: python -m ledger.sim --replay {seed}"


@pytest.mark.parametrize("seed", [2, 7])
def test_seed_replays_exactly(seed: int) -> None:
    """The same seed gives the same trace, line by line."""
    first, second = (run_seed(seed, is_traced=True) for _ in range(2))
    assert len(first.trace) > 100
    assert first == second


def test_failing_seed_replays_exactly() -> None:
    """A violation is found again at the same moment, with the trace that leads to it."""
    twin = "one-transaction"
    tried = (run_broken(seed, twin=twin) for seed in range(TWINS[twin].seeds))
    found = next(result for result in tried if result.violation is not None)
    again = run_broken(found.seed, twin=twin, is_traced=True)
    assert again.violation == found.violation
    assert str(found.violation) in again.trace[-1]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if twin.seeds > QUICK_SEEDS_MAX else ())
        for name, twin in TWINS.items()
    ],
)
def test_each_twin_is_caught(name: str) -> None:
    """With one rule broken, some seed of the stated number shows a broken promise."""
    for seed in range(TWINS[name].seeds):
        if run_broken(seed, twin=name).violation is not None:
            return
    pytest.fail(f"twin {name} was not caught in {TWINS[name].seeds} seeds")


def test_twin_leaves_nothing_behind() -> None:
    """After a twin the rule holds again."""
    for name in TWINS:
        with TWINS[name].active():
            pass
    assert run_seed(0).violation is None


def test_small_run_catches_any_for_all() -> None:
    """One line of the plan broken, "visible in all regions" as "in any", is caught by this run."""
    seeds = [*_regressions(), *range(FRESH_FROM, FRESH_FROM + FRESH_SEEDS)]
    assert any(run_broken(seed, twin="any-region").violation for seed in seeds)
