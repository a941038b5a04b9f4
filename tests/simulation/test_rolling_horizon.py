"""A change of the retry horizon beside a rolling limit: no span has more than the limit.

::

    spent ── a window and the old margin ──> back, by a process that knows the old terms alone
                                              │
    all regions show the change ── the wait ──> in force: spent again, under an old key

The amount comes back at the last moment at which a process may go by the old terms. The amount is
spent again as soon as the new terms are in force, under a key as old as these allow.
"""

from dataclasses import replace
from decimal import Decimal

import pytest
from proof.simulator.edit import Edit

from ledger.budgets import rights_plan, rolling_limits
from ledger.budgets.rights import Holder
from ledger.core.budget_rules import BUCKETS, BudgetRule
from ledger.core.clock_offset import RegionTime
from ledger.core.contract import Terms, seconds_to_wait, stricter
from ledger.settings import Settings

BUCKET = 60
WINDOW = BUCKETS * BUCKET
LIMIT = Decimal(10)
LOOKED_AT = 1_000_000.0
REGIONS = ("us-east-1", "eu-west-1")
MINUTE = 60.0


def _terms(retry_horizon: float, clock_skew: float = MINUTE, *, rolling: bool = True) -> Terms:
    settings = Settings(home=REGIONS[0], regions={name: {} for name in REGIONS})
    return replace(
        settings.terms,
        retry_horizon=retry_horizon,
        clock_skew=clock_skew,
        settle=99_999.0,
        budgets={"spent/*": BudgetRule(rolling=WINDOW if rolling else 0.0)},
    )


def _available(spent_at: float, now: float, terms: Terms) -> Decimal:
    """Return what is available by these terms of a limit that was all spent."""
    made = rights_plan.create(Holder(REGIONS[0]), LIMIT, bucket=BUCKET)
    spent = rolling_limits.dated(replace(made, charged=LIMIT), spent_at)
    time = RegionTime(now, now)
    return rolling_limits.roll_forward(spent, time, margin=terms.rolling_margin).available


def _between(old: Terms, new: Terms) -> float:
    """Return the least between the ids of what was spent first, and of what is spent again."""
    last_look = LOOKED_AT + max(old.contract_life, new.contract_life)
    bucket = int((last_look - WINDOW - BUCKET - old.rolling_margin) // BUCKET)
    spent_at = (bucket + 1) * BUCKET - 1.0
    assert _available(spent_at, last_look, old) == LIMIT
    in_force = LOOKED_AT + seconds_to_wait(old, new)
    oldest_key = in_force - new.retry_horizon - new.clock_skew
    return oldest_key - (spent_at + 2 * old.clock_skew)


@pytest.mark.parametrize("minutes", [1, 5, 20, 60, 24 * 60])
@pytest.mark.parametrize("skew", [MINUTE, 10 * MINUTE])
def test_what_came_back_by_the_old_terms_is_not_spent_within_the_window(
    minutes: int, skew: float
) -> None:
    """By its ids: the new key is a window younger than the last of what was spent first."""
    assert _between(_terms(5 * MINUTE), _terms(minutes * MINUTE, skew)) >= WINDOW


def test_the_wait_for_a_longer_margin_is_needed() -> None:
    """With the wait for signatures alone, a span has twice the limit."""
    old, new = _terms(5 * MINUTE), _terms(60 * MINUTE)
    rule = "any(rule.rolling for rule in new.budgets.values())"
    with Edit("ledger.core.contract:seconds_to_wait", rule, "False").active():
        assert _between(old, new) < WINDOW


def test_a_shorter_horizon_of_one_process_gives_nothing_back_sooner() -> None:
    """While a change is pending calls go by the shorter horizon, and returns by the longer."""
    old, new = _terms(5 * MINUTE), _terms(60 * MINUTE)
    for pending in (stricter(old, new), stricter(new, old)):
        assert pending.retry_horizon == old.retry_horizon
        assert pending.rolling_margin == new.rolling_margin


def test_without_a_rolling_limit_a_longer_horizon_waits_no_longer() -> None:
    """Nothing comes back there."""
    old, new = (_terms(minutes * MINUTE, rolling=False) for minutes in (5, 600))
    assert seconds_to_wait(old, new) == seconds_to_wait(old, old)
