"""Every order of events in small cases: none is wrong, and each broken rule is found.

`tests/proof/RESULTS.md` says how many states a case has, and after how many steps a broken rule is
found. They are those of the models as they are: a change to a model or to the rules that was not
meant to change what can happen shows in them, and `--markdown` writes the table anew.
"""

from collections import defaultdict
from collections.abc import Hashable
from typing import Any

import pytest
from proof import results
from proof.simulator.explorer import __main__ as merging
from proof.simulator.explorer.cases import BOOKS
from proof.simulator.explorer.cases import CATALOGUE as MERGING
from proof.simulator.explorer.catalogue import Catalogue
from proof.simulator.explorer.late import __main__ as late
from proof.simulator.explorer.limits import __main__ as limits
from proof.simulator.explorer.limits.cases import CATALOGUE as LIMITS
from proof.simulator.explorer.loss import __main__ as loss
from proof.simulator.explorer.repeats import __main__ as repeats
from proof.simulator.explorer.slices import __main__ as slices
from proof.simulator.explorer.sums import __main__ as sums
from proof.simulator.explorer.terms import __main__ as terms
from typer.testing import CliRunner

SLICES, SUMS, TERMS = slices.CATALOGUE, sums.CATALOGUE, terms.CATALOGUE
CATALOGUES = {one.title: one for one in (MERGING, BOOKS, LIMITS)}
CATALOGUES |= {one.CATALOGUE.title: one.CATALOGUE for one in (loss, late, repeats)}
CATALOGUES |= {one.title: one for one in (SLICES, SUMS, TERMS)}
ROWS = {title: results.rows_of(title) for title in CATALOGUES}
FAST_STATES, LONG_STATES = 2_300, 100_000
"""A case of more states than these takes a second and more, or half a minute and more."""
FAST_TOO = {("Slices", "two-processes"), ("A change of terms", "writes-shorter")}
"""The smallest case of its catalogue."""
SLOW_MUTANTS = {
    ("A lost region", "no-wait"),
    ("A lost region", "again-unchecked"),
    ("A lost region", "again-if-there"),
    *(("A change of terms", name) for name in TERMS.mutants if not name.startswith("newer")),
    ("A change of terms", "newer-when-longer"),
    ("Budgets", "given-by-item"),
    ("Budgets", "closed-though-topped-up"),
    ("Budgets", "topped-up-though-closed"),
    ("Budgets", "fetched-from-the-lost"),
    ("Budgets", "reclaimed-with-credits-unagreed"),
    ("Budgets", "steps-forgotten"),
    *(("Slices", name) for name in SLICES.mutants if name != "taken-from-the-head"),
    ("Sums of pipelines", "copied-once"),
    ("Sums of pipelines", "copied-in-place"),
}


def _states(title: str, name: str) -> int:
    return int(ROWS[title].get(name, ["", "0"])[1].replace(",", ""))


def _cases() -> list[Any]:
    found = []
    for title, catalogue in CATALOGUES.items():
        for name in catalogue.all_cases:
            states = _states(title, name)
            is_fast = states <= FAST_STATES or (title, name) in FAST_TOO
            slow = () if is_fast else (pytest.mark.slow, pytest.mark.timeout(3600))
            long = (pytest.mark.long,) if states > LONG_STATES else ()
            found.append(pytest.param(catalogue, name, marks=(*slow, *long), id=f"{title}: {name}"))
    return found


def _mutants() -> list[Any]:
    return [
        pytest.param(
            catalogue,
            name,
            marks=(pytest.mark.slow,) if (title, name) in SLOW_MUTANTS else (),
            id=f"{title}: {name}",
        )
        for title, catalogue in CATALOGUES.items()
        for name in catalogue.mutants
    ]


@pytest.mark.parametrize(("catalogue", "name"), _cases())
def test_no_order_of_events_is_wrong(catalogue: Catalogue, name: str) -> None:
    """In every state each promise of the model holds, and from the first all can be finished."""
    explored = catalogue.explore(name)
    assert explored.wrong == ""
    assert explored.is_whole
    assert explored.finished > 0
    assert catalogue.row_of_case(name, explored) == ROWS[catalogue.title][name]


@pytest.mark.parametrize(("catalogue", "name"), _mutants())
def test_each_broken_rule_is_found(catalogue: Catalogue, name: str) -> None:
    """With one rule broken, the walk ends with the shortest way to what the page says."""
    explored = catalogue.break_rule(name)
    *said, wrong = ROWS[catalogue.title][name]
    assert catalogue.row_of_mutant(name, explored)[:-1] == said
    # The sums of equally short ways differ, by the order in which steps are taken.
    assert explored.wrong
    assert catalogue.title == SUMS.title or explored.wrong == wrong


@pytest.mark.parametrize(
    ("catalogue", "name"),
    [
        *((LIMITS, name) for name in ("one-process", "lost", "hold-lost")),
        (LIMITS, "hold-settled-for-more"),
        (loss.CATALOGUE, "two-regions"),
        pytest.param(loss.CATALOGUE, "two-operators", marks=pytest.mark.slow),
        pytest.param(loss.CATALOGUE, "not-home", marks=pytest.mark.slow),
    ],
    ids=lambda one: one if isinstance(one, str) else one.title,
)
def test_everything_can_be_finished_from_everywhere(catalogue: Catalogue, name: str) -> None:
    """From each state there is a way to one at rest: nothing open, nothing under way."""
    model = catalogue.model(catalogue.cases[name])
    found: list[Any] = [model.key(model.initial())]
    before: dict[Hashable, list[Any]] = defaultdict(list)
    seen, finished = set(found), []
    for key in found:
        state = model.state(key)
        if model.is_finished(state):
            finished.append(key)
        for step in model.steps(state):
            after = model.key(step.state)
            before[after].append(key)
            if after not in seen:
                seen.add(after)
                found.append(after)
    can = set(finished)
    for key in finished:
        new = [one for one in before[key] if one not in can]
        can.update(new)
        finished.extend(new)
    assert can == seen


@pytest.mark.parametrize("catalogue", CATALOGUES.values(), ids=CATALOGUES)
def test_the_page_has_every_case_and_mutant(catalogue: Catalogue) -> None:
    """In the words of the code, and no other."""
    rows = ROWS[catalogue.title]
    assert list(rows) == [*catalogue.all_cases, *catalogue.mutants]
    assert {name: rows[name][1] for name in catalogue.mutants} == {
        name: one.what for name, one in catalogue.mutants.items()
    }


@pytest.mark.parametrize(
    ("program", "mutant", "words"),
    [
        (late, "no-gap", ("the other region is lost", "was never applied")),
        (limits, "forked", ("process 0 forks", "OVERSOLD: 2 applied of 1")),
        (loss, "lowest-generation", ("us-east-1 is lost", "17  ", "steps: eu-west-1 counts")),
        (repeats, "merged-young", ("a is put again", "what has reached it: a")),
        (merging, "one-transaction", ("  7  the delete of a arrives in eu-west-1", "counts a 0x")),
        (slices, "taken-from-the-head", ("reads the slices", "led by")),
        (sums, "two-regions-on-one-item", ("us-east-1: a reduce of", "has reached it")),
        (terms, "newer-hold", ("the compactor acts", "wrong after 8 steps: a read ends after")),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_the_command_prints_a_readable_trace(
    program: Any, mutant: str, words: tuple[str, ...]
) -> None:
    """A mutant's trace is numbered and in words; found ends with 0."""
    result = CliRunner().invoke(program.app, ["--mutant", mutant], standalone_mode=False)
    assert result.return_value == 0
    assert all(text in result.output for text in words), result.output


def test_the_command_prints_what_it_has_walked() -> None:
    """A case's states are printed; nothing wrong ends with 0."""
    result = CliRunner().invoke(loss.app, ["--only", "two-operators-two-regions"])
    assert result.exit_code == 0
    assert "323 states" in result.output


@pytest.mark.parametrize("option", ["--only", "--mutant"])
def test_a_name_that_is_none_is_refused(option: str) -> None:
    """The message names all that there are."""
    result = CliRunner().invoke(limits.app, [option, "none"], standalone_mode=False)
    known = {"--only": "lost-of-three", "--mutant": "closed-at-expiry"}
    assert known[option] in str(result.exception)
