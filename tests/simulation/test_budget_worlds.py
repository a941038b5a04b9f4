"""Worlds with budgets: limits hold, and the auditor would see if they did not."""

from dataclasses import dataclass, field
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from proof.simulator.budget_audit import BudgetAudit, BudgetRules
from proof.simulator.budgets import (
    CREDITS_MIN,
    draw_budgets,
    has_wrong_clocks,
    keeps_budgets,
    keeps_credits,
)
from proof.simulator.losses import is_lossy
from proof.simulator.mutants import run_mutant
from proof.simulator.rolling_edges import has_edges
from proof.simulator.run import run_seed
from proof.simulator.scenario import draw

from ledger.core.entry import Item
from ledger.testing.replicas import ManualWorld

SEEDS = [seed for seed in range(700) if keeps_budgets(seed)]
SOME = (107,)
LOSSY = [seed for seed in range(2_100) if keeps_credits(seed) and is_lossy(seed)]
HERE, THERE = "us-east-1", "eu-west-1"


@pytest.mark.parametrize("seed", SOME)
def test_limits_hold_in_a_world(seed: int) -> None:
    """Under crashes, freezes, lost and late answers, partitions, and changes of terms."""
    assert draw(seed).budgets is not None
    assert run_seed(seed).violation is None


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", sorted({*SEEDS} - {*SOME}))
def test_limits_hold_in_many_worlds(seed: int) -> None:
    """The same, of more of them."""
    assert run_seed(seed).violation is None


@pytest.mark.parametrize(
    "seed", [42, 81, *(pytest.param(seed, marks=pytest.mark.slow) for seed in LOSSY)]
)
def test_no_more_is_spent_than_limit_and_credits_in_a_world(seed: int) -> None:
    """With keys and without, by reversals, and where a region is lost with what was credited."""
    plan = draw(seed).budgets
    assert plan is not None
    assert len(plan.credits) >= CREDITS_MIN
    assert run_seed(seed).violation is None


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [seed for seed in range(400) if has_wrong_clocks(seed)])
def test_limits_hold_beside_spenders_whose_clocks_are_off(seed: int) -> None:
    """By the ids and by the true time; and such a clock writes nothing of a budget."""
    plan = draw(seed).budgets
    assert plan is not None
    assert plan.clocks_off
    assert run_seed(seed).violation is None


@pytest.mark.parametrize(
    ("name", "seed", "rule"),
    [
        ("control-unchecked", 8, "clock"),
        pytest.param("rolled-without-margin", 34, "limit", marks=pytest.mark.slow),
        pytest.param("step-by-own-clock", 346, "step", marks=pytest.mark.slow),
    ],
)
def test_what_wrong_clocks_break_is_seen(name: str, seed: int, rule: str) -> None:
    """Each at a named seed, whose world holds where the rule is kept."""
    violation = run_mutant(seed, mutant=name).violation
    assert violation is not None
    assert violation.rule == rule


@dataclass
class Audited:
    """A world of two regions with a budget of 10, its auditor, and what that says."""

    world: ManualWorld = field(
        default_factory=lambda: ManualWorld([HERE, THERE], randomness=Random(1))  # noqa: S311
    )
    said: list[str] = field(default_factory=list)
    lets_through: frozenset[str] = frozenset()
    lost: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.audit = BudgetAudit(
            BudgetRules({"budget-0": 10}, self.lets_through),
            fail=lambda rule, _: self.said.append(rule),
            lost=self.lost,
        )
        self.world.observers.append(self)

    def arrived(self, region: str, key: tuple[str, str], item: Item | None) -> None:
        """Hand a write on to the auditor."""
        self.audit.arrived(self.world, region, key, item)

    def changed(self, region: str, partition: str) -> None:
        """Hand a change on to the auditor."""
        items = self.world.replicas[region].table.partitions.get(partition, {})
        self.audit.changed(region, partition, items)

    def at_rest(self) -> list[str]:
        """Deliver all; return what the auditor says of it at rest."""
        self.world.deliver()
        tables = {name: one.table.partitions for name, one in self.world.replicas.items()}
        self.audit.check_rest(tables)
        return self.said


def rights(version: int, *, region: str = HERE, **parts: Any) -> Item:
    """Return a rights item; sums by number, grants by version."""
    item: dict[str, Any] = {
        "pk": {"S": "~budget~budget-0"},
        "sk": {"S": f"rights#{region}.1/0"},
        "version": {"N": str(version)},
    }
    for name, part in parts.items():
        if name == "grants":
            grants = {str(v): {"L": [{"N": str(amount)}]} for v, amount in part.items()}
            item[name] = {"M": grants}
        elif isinstance(part, dict):
            item[name] = {"M": {key: {"N": str(amount)} for key, amount in part.items()}}
        else:
            item[name] = {"N": str(part)}
    return item


def spend(amount: int, *, note: str = "one", grant: str = f"{HERE}.1/0/2", **more: Any) -> Item:
    """Return an entry of the budget, whose id is said by its note."""
    sort_key = f"2026-11-21T06:50:00.000000Z#{note.encode().hex():0>16}"
    return {
        "pk": {"S": "budget-0"},
        "sk": {"S": sort_key},
        "change": {"N": str(-amount)},
        "note": {"S": note},
        "grant": {"S": grant},
        **more,
    }


def granted() -> Audited:
    """Return a world in which 4 of 10 are granted."""
    found = Audited()
    found.world.put(HERE, rights(1, minted=10))
    found.world.put(HERE, rights(2, minted=10, grants={2: 4}))
    return found


def test_what_is_right_is_not_reported() -> None:
    """A grant is spent and closed; only that its entry is not merged is left."""
    found = granted()
    found.world.put(HERE, spend(3))
    assert found.said == []
    found.world.put(HERE, rights(3, minted=10, charged=3))
    assert found.at_rest() == ["rest"]


@pytest.mark.parametrize(
    ("items", "rule"),
    [
        ([spend(5)], "grants"),
        ([rights(3, minted=10), spend(1)], "charged"),
        ([rights(3, minted=11)], "limit"),
        ([rights(4, minted=10)], "rights"),
        ([rights(3, minted=10, grants={2: 4}, charged=7)], "rights"),
        ([rights(3, minted=10, taken={f"{THERE}.1/0": 1})], "rights"),
        ([rights(3, minted=9)], "rights"),
        ([spend(1), spend(1, grant=f"{HERE}.1/0/2")], ""),
        ([spend(2, hold={"N": "9"}, resolved={"S": "void"}), spend(2, hold={"N": "9"})], "hold"),
    ],
)
def test_each_step_is_judged(items: list[Item], rule: str) -> None:
    """Whatever is written that breaks a rule is reported as such."""
    found = granted()
    for item in items:
        found.world.put(HERE, item)
    assert found.said[:1] == ([rule] if rule else [])


@pytest.mark.parametrize(("arrives", "rule"), [(True, "rest"), (False, "balance")])
def test_what_a_lost_region_credited_is_spent_only_if_it_arrived(
    rule: str, *, arrives: bool
) -> None:
    """Of 10, and of 5 that the lost region credited and sent, 12 are spent in the other."""
    found = Audited(lost=frozenset({THERE}))
    name = f"{THERE}.1/0"
    found.world.put(THERE, rights(1, region=THERE))
    found.world.put(THERE, rights(2, region=THERE, grants={2: 0}))
    if not arrives:
        found.world.isolate(THERE)
    found.world.put(THERE, spend(-5, note="credit", grant=f"{name}/2"))
    found.world.put(THERE, rights(3, region=THERE, charged=-5, sent={f"{HERE}.1/0": 5}))
    found.world.put(HERE, rights(1, minted=10))
    found.world.put(HERE, rights(2, minted=10, taken={name: 5}, grants={2: 12}))
    found.world.put(HERE, spend(12))
    found.world.put(HERE, rights(3, minted=10, taken={name: 5}, charged=12))
    assert found.said == []
    assert rule in found.at_rest()
    assert ("balance" in found.said) is not arrives


def test_rights_are_written_through_their_own_region() -> None:
    """Whoever writes them in another region is reported."""
    found = granted()
    found.world.put(THERE, rights(3, minted=10))
    assert found.said[:1] == ["rights"]


def test_answers_are_held_against_what_is_there() -> None:
    """A refused call leaves nothing, a granted one is there, and a call has one entry."""
    found = granted()
    found.audit.was_refused("one")
    assert found.said == []
    found.world.put(HERE, spend(1))
    found.audit.was_granted(HERE, ("budget-0", "nothing"), "two")
    twice = spend(1, note="three")
    found.world.put(HERE, twice)
    found.world.put(HERE, {**twice, "sk": {"S": spend(1, note="four")["sk"]["S"]}})
    found.audit.was_resolved(("budget-0", twice["sk"]["S"]), found.audit.left("budget-0"), "void")
    assert found.said == ["refused", "P3", "once", "hold"]


def test_at_rest_all_is_charged_and_nothing_in_flight() -> None:
    """What is not, or open, or on its way, is reported."""
    found = granted()
    found.world.put(HERE, spend(3))
    assert "rest" in found.at_rest()
    assert "charged" in found.said
    other = Audited()
    other.world.put(THERE, rights(1, region=THERE))
    other.world.put(HERE, rights(1, minted=10, sent={f"{THERE}.1/0": 3}))
    assert other.at_rest() == ["rest"]


def test_limits_are_those_that_were_asked_for() -> None:
    """A raise that nobody asked for, or of another amount, and one that was never made."""
    found = granted()
    found.audit.changes.asked("budget-0", "order", 5)
    found.world.put(HERE, rights(3, minted=15, grants={2: 4}, raises={"order": 5}))
    found.audit.was_raised("budget-0", "order")
    assert found.said == []
    found.world.put(HERE, rights(4, minted=17, grants={2: 4}, raises={"order": 5, "other": 2}))
    found.audit.was_raised("budget-0", "third")
    assert found.said == ["raises", "raises"]
    found.audit.was_lowered("budget-0", Decimal(16))
    assert found.said[2:] == ["limit"]


def test_a_raise_is_made_once() -> None:
    """Whichever region made it."""
    found = granted()
    found.audit.changes.asked("budget-0", "order", 5)
    found.world.put(HERE, rights(3, minted=15, grants={2: 4}, raises={"order": 5}))
    found.world.put(THERE, rights(1, region=THERE, minted=5, raises={"order": 5}))
    assert found.said == ["raises"]


def test_what_is_let_through_is_charged() -> None:
    """Its entry names no grant; without such a pattern that is reported."""
    entry = {**spend(3), "grant": {"S": f"{HERE}.1/0/0"}}
    all_through = frozenset({"budget-0"})
    for lets_through, charged, said in (
        (frozenset[str](), 3, ["grants", "grants"]),
        (all_through, 3, []),
        (all_through, 0, ["charged"]),
    ):
        found = Audited(lets_through=lets_through)
        found.world.put(HERE, rights(1, minted=10))
        found.world.put(HERE, entry)
        found.world.put(HERE, rights(2, minted=10, charged=charged))
        assert [one for one in found.at_rest() if one != "rest"] == said


def test_a_hold_is_settled_over_the_limit_where_that_was_asked_for() -> None:
    """By what it came to more, and by no more."""
    hold = spend(4, hold={"N": "9"})
    settled = {**hold, "change": {"N": "-12"}, "resolved": {"S": "settled"}}
    for asked, said in ((False, ["limit"]), (True, [])):
        found = granted()
        found.world.put(HERE, hold)
        if asked:
            found.audit.may_exceed(("budget-0", hold["sk"]["S"]))
        found.world.put(HERE, rights(3, minted=10, charged=12))
        found.world.put(HERE, settled)
        assert [one for one in found.said if one == "limit"] == said


def test_some_spend_as_close_to_a_rolling_limit_as_clocks_allow() -> None:
    """Two clocks within the skew meet at it; all other spends of the plan are as they were."""
    seed = next(seed for seed in range(400) if has_wrong_clocks(seed) and has_edges(seed))
    scenario = draw(seed)
    plan = scenario.budgets
    assert plan is not None
    assert {abs(off) < scenario.settings.clock_skew for off in plan.clocks_near.values()} == {True}
    assert not plan.clocks_near.keys() & plan.clocks_off.keys()
    rules = draw_budgets(seed, scenario.regions, scenario.busy, scenario.retry_horizon)
    assert set(rules.spends) < set(plan.spends)
    assert len({spend.number for spend in plan.spends}) == len(plan.spends)
