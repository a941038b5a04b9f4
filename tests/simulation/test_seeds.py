"""Whole worlds from seeds: no promise is broken, and each rule is needed.

`LEDGER_SIM_FIRST_SEED` says from where the fresh seeds are counted: CI draws it from the commit.
"""

import asyncio
import os
import re
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest
from proof.results import rows_of
from proof.simulator.__main__ import TITLE, app
from proof.simulator.explorer.limits.cases import CATALOGUE as LIMITS
from proof.simulator.explorer.terms.model import MUTANTS as OF_TERMS
from proof.simulator.mutant import every_world
from proof.simulator.mutants import MUTANTS, run_mutant
from proof.simulator.pool import first_caught, results
from proof.simulator.profiles import CLOCKS_OFF, PROFILES, profile_of
from proof.simulator.run import Result, run_seed
from proof.simulator.scenario import draw, keeps_archive, keeps_periods
from support.tiers import few_fast, with_slow
from typer.testing import CliRunner

from ledger.session.ledger import Ledger

FEW_SEEDS = 2
SHORTEST_REGRESSIONS = {5, 11, 64}
"""Those that take half a second and less."""
FRESH_SEEDS = 80
FRESH_FROM = int(os.environ.get("LEDGER_SIM_FIRST_SEED", "100000"))
REGRESSIONS = Path(__file__).with_name("regressions.txt")
INTERNALS = Path(__file__).parents[2] / "ledger" / "docs" / "internals"


def _regressions() -> list[int]:
    lines = [line for line in REGRESSIONS.read_text().splitlines() if line and line[0] != "#"]
    return [int(line.split()[0]) for line in lines]


def _wrong(results: list[Result]) -> list[str]:
    return [
        f"{result.violation}: python -m proof.simulator --replay {result.seed}"
        for result in results
        if result.violation is not None
    ]


def _is_alive(result: Result) -> bool:
    """Return whether a world did something; where clocks are off it may refuse every write."""
    may_refuse_all = profile_of(result.seed) is CLOCKS_OFF
    return result.steps > 100 and result.reads > 0 and (result.checks > 0 or may_refuse_all)


@pytest.mark.parametrize("seed", few_fast(range(FRESH_FROM, FRESH_FROM + FEW_SEEDS), fast=1))
def test_no_fresh_seed_breaks_a_promise(seed: int) -> None:
    """Whatever happens in a world, no total is ever wrong, and at rest all regions agree."""
    result = run_seed(seed)
    assert _wrong([result]) == []
    assert result.steps > 100
    assert result.reads > 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_no_fresh_seed_of_many_breaks_a_promise() -> None:
    """The same in more worlds; nearly all of them write, read and merge more than a little."""
    seeds = range(FRESH_FROM, FRESH_FROM + FRESH_SEEDS)
    found = list(results([(seed, "") for seed in seeds]))
    assert _wrong(found) == []
    assert [result.seed for result in found] == list(seeds)
    assert sum(map(_is_alive, found)) > FRESH_SEEDS * 0.97
    assert sum(result.reads > 10 for result in found) > FRESH_SEEDS * 0.9
    assert sum(result.checks > 10 for result in found) > FRESH_SEEDS * 0.8


@pytest.mark.parametrize(
    "seed", with_slow(_regressions(), slow={*_regressions()} - SHORTEST_REGRESSIONS)
)
def test_no_regression(seed: int) -> None:
    """Seeds that once failed, or meet something rare, pass."""
    assert _wrong([run_seed(seed)]) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 7])
def test_seed_replays_exactly(seed: int) -> None:
    """The same seed gives the same trace, line by line."""
    first, second = (run_seed(seed, is_traced=True) for _ in range(2))
    assert len(first.trace) > 100
    assert first == second


def test_failing_seed_replays_exactly() -> None:
    """A violation is found again at the same moment, with the trace that leads to it."""
    mutant = "one-transaction"
    tried = (run_mutant(seed, mutant=mutant) for seed in MUTANTS[mutant].seeds_from())
    found = next(result for result in tried if result.violation is not None)
    again = run_mutant(found.seed, mutant=mutant, is_traced=True)
    assert again.violation == found.violation
    assert str(found.violation) in again.trace[-1]


def test_a_call_that_ends_as_cancelled_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing cancels a call from outside, so it is an error of the program."""

    async def cancelled(*_: object, **__: object) -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr(Ledger, "record", cancelled)
    found = run_seed(5).violation
    assert found is not None
    assert found.is_error
    assert "CancelledError" in found.text


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", MUTANTS)
def test_each_mutant_is_caught(name: str) -> None:
    """With one rule broken, some seed of the stated number shows a broken promise."""
    assert first_caught(name) is not None, f"not caught in {MUTANTS[name].seeds} seeds"


def test_seeds_of_a_mutant_are_those_of_its_worlds() -> None:
    """A rule against one fault is tried in the worlds that draw the fault."""
    mutant = replace(MUTANTS["no-version"], seeds=2, worlds=lambda seed: seed % 3 == 1)
    assert mutant.seeds_from() == (1, 4)
    assert mutant.seeds_from(5, most=3) == (7, 10, 13)


def test_the_first_seed_to_catch_a_mutant_is_tried_first() -> None:
    """The others follow in order, each once."""
    mutant = replace(MUTANTS["no-version"], seeds=4, first=3, worlds=every_world)
    assert mutant.seeds_by_turn() == (2, 0, 1, 3)


def test_the_page_has_every_mutant() -> None:
    """Rule and consequence in the words of the code; the world of a seed catches each."""
    rows = rows_of(TITLE)
    said = {name: [f"`{name}`", one.rule, one.breaks] for name, one in MUTANTS.items()}
    assert {name: cells[:3] for name, cells in rows.items()} == said
    assert list(rows) == list(MUTANTS)
    assert all(cells[3].isdecimal() and cells[4] for cells in rows.values())


@pytest.mark.parametrize("page", ["merge", "contract", "budgets", "decisions"])
def test_the_mutants_of_a_page_are_there(page: str) -> None:
    """The pages of the rules name mutants of the simulator and of its explorer."""
    text = (INTERNALS / f"{page}.md").read_text()
    tables = re.findall(r"^\|.*\| mutant \|\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    cells = [row.split(" | ")[-1] for table in tables for row in table.splitlines()]
    said = re.findall(r"mutants?\s+((?:`[a-z-]+`(?:,\s+)?)+)", text)
    named = {name for part in (*cells, *said) for name in re.findall(r"`([a-z-]+)`", part)}
    assert named
    assert named <= {*MUTANTS, *OF_TERMS, *LIMITS.mutants}


@pytest.mark.slow
def test_mutant_leaves_nothing_behind() -> None:
    """After a mutant the rule holds again."""
    for name in MUTANTS:
        with MUTANTS[name].active():
            pass
    assert run_seed(0).violation is None


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_fresh_seeds_catch_any_for_all() -> None:
    """One line of the plan broken, "visible in all regions" as "in any", is caught by this run."""
    assert first_caught("any-region", range(FRESH_FROM, FRESH_FROM + 200)) is not None


def test_every_profile_has_its_turn() -> None:
    """Seeds that follow each other are drawn from every profile."""
    drawn = {draw(seed).profile for seed in range(20)}
    assert drawn == {profile.name for profile in (*PROFILES, CLOCKS_OFF)}


@pytest.mark.slow
def test_command_stops_at_a_violation() -> None:
    """The first violation ends the search with its trace; of a mutant it is the success."""
    result = CliRunner().invoke(app, ["--seeds", "8", "--jobs", "1", "--mutant", "one-transaction"])
    assert result.exit_code == 0, result.output
    assert "*** P1 broken" in result.output
    assert "mutant one-transaction was caught at seed" in result.output


def test_command_runs_only_worlds_that_have_what_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`--having` takes the next seeds whose worlds have all of it; another word is refused."""
    ran: list[int] = []

    def run(runs: list[tuple[int, str]], **_: int) -> Generator[Result]:
        ran.extend(seed for seed, _ in runs)
        yield from ()

    monkeypatch.setattr("proof.simulator.__main__.results", run)
    asked = ["--seeds", "3", "--jobs", "1", "--having", "archive", "--having", "periods"]
    assert CliRunner().invoke(app, asked).exit_code == 0
    assert ran == [s for s in range(ran[-1] + 1) if keeps_archive(s) and keeps_periods(s)]
    assert len(ran) == 3
    assert CliRunner().invoke(app, ["--having", "luck"]).exit_code == 2


@pytest.mark.slow
def test_command_prints_the_table_of_mutants(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line for each rule: what breaks without it, and how many seeds show that."""
    some = {name: MUTANTS[name] for name in ("one-transaction", "no-version")}
    monkeypatch.setattr("proof.simulator.__main__.MUTANTS", some)
    result = CliRunner().invoke(app, ["--seeds", "1", "--jobs", "1", "--mutants"])
    assert result.exit_code == 1, "seed 0 alone does not catch no-version"
    assert f"| {some['one-transaction'].breaks} | 1.0, first 1 |" in result.output
    assert f"| {some['no-version'].breaks} | **not caught in 1** |" in result.output
