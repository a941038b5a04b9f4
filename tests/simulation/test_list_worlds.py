"""Worlds with lists of changes that have one key together."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from itertools import count, islice
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proof.simulator.keyed_lists import ITEMS_MAX, LISTED, combining, has_lists, other_list
from proof.simulator.run import run_seed
from proof.simulator.scenario import draw
from proof.simulator.terms import TermsChange, is_contracted

from ledger.core.errors import LedgerError
from ledger.core.values import Entry
from ledger.session.ledger import Ledger
from ledger.writes import asked_parts
from ledger.writes.asked_parts import ListedChanges
from ledger.writes.entry_plan import Change

SEEDS = list(islice(filter(has_lists, count()), 40))
PLAIN_SEED = 0
FEW = 12
KEY_TIME = datetime.fromisoformat("2026-11-21T06:50:00+00:00")
AMOUNTS = st.lists(
    st.tuples(st.sampled_from(LISTED), st.integers(0, 35)), min_size=1, max_size=10, unique=True
)


def test_lists_of_every_kind_are_drawn() -> None:
    """Of one counter and of both, of several items, repeated soon and late, with rivals."""
    scenarios = [draw(seed) for seed in SEEDS]
    lists = [
        (scenario, planned)
        for scenario in scenarios
        for planned in scenario.operations
        if planned.kind == "keyed_list"
    ]
    assert {scenario.listed_max for scenario in scenarios} == {*ITEMS_MAX}
    counters = {frozenset(counter for counter, _ in planned.changes) for _, planned in lists}
    assert counters == {frozenset(LISTED), *(frozenset({name}) for name in LISTED)}
    longest = [max(Counter(name for name, _ in one.changes).values()) for _, one in lists]
    cut = [most > one.listed_max for most, (one, _) in zip(longest, lists, strict=True)]
    assert {*cut} == {True, False}
    late = {
        delay > scenario.retry_horizon
        for scenario, planned in lists
        for delay, _ in planned.repeats
    }
    assert late == {True, False}
    assert {bool(planned.others) for _, planned in lists} == {True, False}


def test_contracts_come_to_combine_and_cease_to() -> None:
    """In worlds with lists; in no other world."""
    turns = set[bool]()
    for seed in filter(is_contracted, range(200)):
        plan = draw(seed).contract
        assert plan is not None
        combined = [dict(change.values).get("combine") for change in plan.changes]
        assert any(names is not None for names in combined) <= has_lists(seed)
        turns |= {LISTED[1] in names for names in combined if names is not None}
    assert turns == {True, False}


@given(st.randoms(use_true_random=False))
def test_a_change_turns_combining_round_or_leaves_it(chance: Random) -> None:
    """What else is combined stays."""
    changes = combining(chance, ("other",), (TermsChange(1.0, {"settle": 1.0}),) * 3)
    combined = [change.values["combine"] for change in changes]
    assert {frozenset(names) for names in combined} <= {
        frozenset({"other"}),
        frozenset({"other", *LISTED}),
    }


@given(AMOUNTS, st.sampled_from(ITEMS_MAX), st.randoms(use_true_random=False))
def test_another_list_has_another_item(
    numbers: list[tuple[str, int]], most: int, chance: Random
) -> None:
    """However the lists are cut: so its key is in conflict."""
    changes = [(counter, 10**number) for counter, number in numbers]
    other = other_list(chance, changes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asked_parts, "LISTED_MAX", most)
        assert _items(other) != _items(changes)


def _items(changes: Sequence[tuple[str, int]]) -> dict[str, str]:
    asked = [Change(counter, amount) for counter, amount in changes]
    return {item.id: item.parts for item in ListedChanges.of(asked, "key", KEY_TIME).items}


def test_the_product_s_cut_is_another_only_within_a_world() -> None:
    """A world without lists has the product's."""
    before = asked_parts.LISTED_MAX
    assert draw(PLAIN_SEED).listed_max == before
    seed = next(seed for seed in SEEDS if draw(seed).listed_max != before)
    assert run_seed(seed).violation is None
    assert before == asked_parts.LISTED_MAX


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_lists_are_written_repeated_and_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each in some world: new, again, after the horizon, unanswered, or another's key."""
    outcomes, record_many = Counter[str](), Ledger.record_many

    async def noted(
        self: Ledger,
        changes: Sequence[Change],
        *,
        key: str | None = None,
        at: datetime | None = None,
        timeout: float | None = None,
    ) -> list[Entry]:
        try:
            entries = await record_many(self, changes, key=key, at=at, timeout=timeout)
        except LedgerError as error:
            outcomes[type(error).__name__] += key is not None
            raise
        repeated = {entry.repeated for entry in entries}
        outcomes[f"repeated {sorted(repeated)}"] += key is not None
        return entries

    monkeypatch.setattr(Ledger, "record_many", noted)
    assert [run_seed(seed).violation for seed in SEEDS[:FEW]] == [None] * FEW
    assert outcomes.keys() >= {
        "repeated [False]",
        "repeated [True]",
        "OutcomeUnknown",
        "RetryHorizonPassed",
        "KeyConflict",
    }
