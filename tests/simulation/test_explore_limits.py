"""Budgets in every order of events of small cases; each broken rule is found as claimed."""

from collections import defaultdict
from collections.abc import Hashable
from typing import Any

import pytest
from proof.simulator.explorer.limits.__main__ import app
from proof.simulator.explorer.limits.cases import CASES, LARGE, MUTANTS
from proof.simulator.explorer.walk import walk_through
from support.tiers import with_slow
from typer.testing import CliRunner

STATES = {
    "one-process": 232,
    "renewed": 2_649,
    "two-processes": 11_246,
    "two-processes-of-two": 12_910,
    "two-who-read-before": 1_065,
    "sent": 2_278,
    "sent-there-and-back": 4_581,
    "taken-up-later": 2_285,
    "topped-up": 7_530,
    "two-topped-up": 38_617,
    "fetched": 10_089,
    "fetched-there-and-back": 34_441,
    "lost": 1_641,
    "lost-with-rights-under-way": 6_904,
    "lost-with-rights-fetched": 24_395,
    "lost-older-base": 18_713,
    "keyed": 6_176,
    "keyed-by-its-region": 2_164,
    "keyed-by-its-region-unconditional": 1_996,
    "keyed-refund": 6_176,
    "refund-by-its-region": 2_004,
    "hold-settled-for-less": 8_065,
    "hold-settled-for-more": 1_264,
    "hold-extended": 3_722,
    "hold-lost": 1_523,
    "shares": 26_448,
    "shares-before": 45_320,
    "raise": 3,
    "bundle-at-once": 8,
    "bundle": 20,
}
LARGE_STATES = {
    "taken-up-often": 389_324,
    "two-regions": 57_432,
    "two-processes-often": 30_121,
    "three-regions": 118_510,
    "lost-sent-to": 100_722,
    "lost-of-three": 62_744,
    "lost-two-processes": 99_418,
    "hold": 26_669,
    "hold-extended-often": 32_961,
    "hold-lost-often": 27_382,
}
FOUND = {
    "closed-at-expiry": (10, "OVERSOLD"),
    "signed-after-expiry": (11, "OVERSOLD"),
    "read-eventually": (11, "OVERSOLD"),
    "open-grants-folded": (12, "OVERSOLD"),
    "closed-if-not-shown": (13, "OVERSOLD"),
    "folded-when-closed-there": (14, "OVERSOLD"),
    "unknown-is-unused": (8, "OVERSOLD"),
    "unknown-is-used": (5, "leak"),
    "forked": (6, "OVERSOLD"),
    "taken-unconditionally": (8, "OVERSOLD"),
    "closed-though-topped-up": (13, "OVERSOLD"),
    "topped-up-though-closed": (13, "OVERSOLD"),
    "topped-up-unwritten": (6, "OVERSOLD"),
    "fetched-from-the-lost": (14, "OVERSOLD"),
    "closed-unconditionally": (9, "leak"),
    "taken-by-difference": (8, "rights made"),
    "given-by-item": (13, "OVERSOLD"),
    "reclaimed-while-listed": (8, "OVERSOLD"),
    "reclaimed-while-arriving": (10, "OVERSOLD"),
    "taken-from-the-lost": (14, "OVERSOLD"),
    "newer-grants-not-charged": (11, "OVERSOLD"),
    "stake-by-its-own-item": (6, "stranded"),
    "unseen-spends-count": (10, "OVERSOLD"),
    "keyed-by-count": (9, "leak"),
    "refund-by-count": (9, "rights made"),
    "refund-credited-by-its-region": (11, "rights made"),
    "retried-under-another": (11, "leak"),
    "settled-by-entry-alone": (3, "leak"),
    "settled-for-more-by-entry-alone": (3, "charged too little"),
    "settled-twice": (6, "charged too little"),
    "settled-after-its-delete": (9, "counted twice"),
    "settled-late-by-its-owner": (7, "leak"),
    "settled-for-more-late-by-its-owner": (7, "charged too little"),
    "hold-closed-unconditionally": (7, "leak"),
    "voided-unconditionally": (6, "charged too little"),
    "voided-though-extended": (3, "voided though it was extended"),
    "open-hold-folded": (3, "folded before it was resolved"),
    "folded-before-its-charge-is-shown": (9, "rights made"),
    "holds-of-the-lost-not-counted": (8, "rights made"),
    "holds-of-the-lost-counted-twice": (6, "rights lost for good"),
    "held-as-its-owner-knows": (7, "rights made"),
    "resolved-and-still-held": (7, "rights made"),
    "shares-by-view": (12, "rights made"),
    "shares-at-once": (12, "rights made"),
    "steps-forgotten": (18, "stranded"),
    "raised-without-id": (2, "limit too high"),
    "bundle-by-key": (6, "org charged too little"),
    "cached-total": (2, "OVERSOLD"),
}
SLOW = {
    *("two-processes", "two-processes-of-two", "sent-there-and-back", "lost-older-base"),
    *("lost-with-rights-under-way", "renewed", "sent", "taken-up-later"),
    *("hold-settled-for-less", "keyed-refund", "given-by-item"),
    *("topped-up", "two-topped-up", "fetched", "fetched-there-and-back"),
    *("lost-with-rights-fetched", "closed-though-topped-up", "topped-up-though-closed"),
    *("fetched-from-the-lost", "shares", "shares-before", "steps-forgotten"),
}


@pytest.mark.parametrize("name", with_slow(STATES, slow=SLOW))
def test_no_order_of_events_breaks_a_budget(name: str) -> None:
    """Nothing is oversold, taken up unsent or stranded; at rest what is applied is charged."""
    explored = walk_through(CASES[name]())
    assert explored.wrong == ""
    assert explored.is_whole
    assert explored.finished > 0
    assert explored.states == STATES[name]


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", LARGE_STATES)
def test_no_order_of_events_breaks_a_budget_in_larger_cases(name: str) -> None:
    """The same with more regions, processes, grants and transfers."""
    explored = walk_through(LARGE[name]())
    assert explored.wrong == ""
    assert explored.is_whole
    assert explored.finished > 0
    assert explored.states == LARGE_STATES[name]


@pytest.mark.parametrize("name", with_slow(FOUND, slow=SLOW))
def test_each_broken_rule_is_found(name: str) -> None:
    """With one rule broken, the walk ends with the shortest way to the failure claimed of it."""
    explored = walk_through(MUTANTS[name]())
    steps, failure = FOUND[name]
    assert explored.wrong.startswith(failure)
    assert len(explored.trace) == steps


@pytest.mark.parametrize("name", ["one-process", "lost", "hold-lost", "hold-settled-for-more"])
def test_everything_can_be_finished_from_everywhere(name: str) -> None:
    """From each state there is a way to one with nothing open, and nothing under way."""
    model = CASES[name]()
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


def test_every_case_and_mutant_is_looked_for() -> None:
    """None is left out of the tests above."""
    assert set(STATES) == set(CASES)
    assert set(LARGE_STATES) == set(LARGE)
    assert set(FOUND) == set(MUTANTS)


def test_the_command_prints_a_readable_trace() -> None:
    """A mutant's trace is numbered and in words; found ends with 0."""
    result = CliRunner().invoke(app, ["--mutant", "forked"], standalone_mode=False)
    assert result.return_value == 0
    assert "process 0 forks" in result.output
    assert "OVERSOLD: 2 applied of 1" in result.output


def test_the_command_explores_a_large_case_by_name() -> None:
    """One that is none is refused; the message names all that there are."""
    result = CliRunner().invoke(app, ["--only", "none"], standalone_mode=False)
    assert "lost-of-three" in str(result.exception)
