"""The model of merging: its keys, its bounds, and that it asks the production code."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from proof.simulator.explorer.__main__ import app
from proof.simulator.explorer.cases import BOOKS
from proof.simulator.explorer.keys import Keys
from proof.simulator.explorer.model import Model
from proof.simulator.explorer.mutants import MUTANTS
from proof.simulator.explorer.production import ProductionCode
from proof.simulator.explorer.state import Case, State, doing_now
from proof.simulator.explorer.walk import explore
from typer.testing import CliRunner

from compactor import merge_plan
from ledger.core import books
from ledger.core.values import NetChange


def test_a_book_has_the_states_of_a_counter() -> None:
    """One for one, whichever rule is broken: no decision reads what a transfer moves."""
    cases = [*BOOKS.cases.values(), *(one.case for one in BOOKS.mutants.values())]
    for case in cases:
        book, counter = explore(case), explore(replace(case, book=False))
        assert replace(book, seconds=0) == replace(counter, seconds=0)


def test_a_net_that_keeps_its_old_balances_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The balances come from the net that production folds, and from what it leaves."""

    def fitting(
        net: NetChange | None, changes: Sequence[tuple[str, Decimal]], *_: object
    ) -> tuple[tuple[str, ...], bytes | None]:
        return tuple(key for key, _ in changes), net.accounts if net else None

    monkeypatch.setattr(books, "fitting", fitting)
    assert "counts a 0x" in explore(Case(entries=1, book=True)).wrong


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_only_the_broken_rule_is_to_blame(name: str) -> None:
    """The mutant's own case, every rule kept, is right in every state."""
    case = Case(entries=1).with_mutant(MUTANTS[name])
    right = explore(replace(case, mutant=Case().mutant, strict=True))
    assert right.wrong == ""
    assert right.is_whole


def test_a_broken_line_of_the_plan_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the plan took what any region shows for what all of them show, this would show it."""
    monkeypatch.setattr(merge_plan, "all", any, raising=False)
    assert "counts" in explore(Case(entries=2)).wrong


def test_a_net_that_loses_an_entry_is_found() -> None:
    """A net that counts less than the one before is wrong, even where no total shows it yet."""
    explored = explore(Case(entries=2, leaders=2, mutant=MUTANTS["no-condition"]))
    assert "a version is lost" in explored.wrong
    assert len(explored.trace) < len(
        explore(Case(entries=1).with_mutant(MUTANTS["no-condition"])).trace
    )


def test_a_walk_can_be_bounded() -> None:
    """A walk stops at the number of states allowed, and says that it is not whole."""
    explored = explore(Case(entries=2, leaders=2), states_max=500)
    assert not explored.is_whole
    assert explored.states < 600


def _some_states(case: Case, most: int) -> list[State]:
    model, found = Model(case), [Model(case).initial()]
    keys, seen = Keys(model), set[int]()
    for state in found:
        for step in model.steps(state):
            key = keys.key(step.state)
            if key not in seen and len(found) < most:
                seen.add(key)
                found.append(step.state)
    return found


@pytest.mark.parametrize("regions", [2, 3])
def test_what_can_be_exchanged_has_one_key(regions: int) -> None:
    """A state, its entries in another order, and the state of its key all have the same key."""
    case = Case(regions=regions, entries=2, leaders=2, reader=True)
    keys = Keys(Model(case))
    for state in _some_states(case, 800):
        key = keys.key(state)
        assert keys.key(keys.state(key)) == key
        assert keys.key(state._replace(entries=state.entries[::-1])) == key


def test_states_that_differ_have_different_keys() -> None:
    """What is visible, decided or remembered distinguishes states."""
    model = Model(Case(entries=1, leaders=1))
    keys = Keys(model)
    before = model.initial()
    states = [step.state for step in model.steps(before)]
    states.append(doing_now(before, 0, (2, 0, 0)))
    found = {keys.key(state) for state in (before, *states)}
    assert len(found) == len(states) + 1


def test_totals_come_from_the_production_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Totals are those of the fold that readers use: broken there, they are wrong here."""
    from ledger.core import fold  # noqa: PLC0415 (patched)

    right = ProductionCode(entries=2, regions=2, fold_max=2).counts((0b1101, 0b1000), has_net=True)
    assert right == (1, 1)
    monkeypatch.setattr(fold, "named_by", lambda _: iter(()))
    wrong = ProductionCode(entries=2, regions=2, fold_max=2).counts((0b1101, 0b1000), has_net=True)
    assert wrong == (2, 1)


def _run(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments), standalone_mode=False)


def test_the_command_prints_what_it_has_walked() -> None:
    """States, transitions and the verdict are printed; nothing wrong ends with 0."""
    result = _run("--entries", "2")
    assert result.return_value == 0
    assert "334 states" in result.output
    assert "no wrong total" in result.output


def test_the_command_explores_books() -> None:
    """A case of transfers, and what a mutant breaks in one."""
    assert "50 states" in _run("--entries", "1", "--book").output
    result = _run("--book", "--mutant", "no-ids")
    assert result.return_value == 0
    assert "counts a 2x" in result.output


@pytest.mark.parametrize(
    "values",
    [{"regions": 4}, {"leaders": 3}, {"in_flight": 2}, {"entries": 0}, {"move": True}],
    ids=str,
)
def test_a_case_beyond_the_model_is_refused(values: dict[str, Any]) -> None:
    """More than the model holds is an error, not a walk through something else."""
    with pytest.raises(ValueError, match=r"regions|in flight|move"):
        Case(**values)
