"""Mutants of budgets whose spenders' clocks are off, and the code in place of production code."""

from proof.simulator.budget_mutants import budget_mutant
from proof.simulator.budgets import has_windows_and_wrong_clocks, has_wrong_clocks
from proof.simulator.edit import Edit
from proof.simulator.rolling_edges import has_edges
from proof.simulator.scenario import Scenario, draw
from proof.simulator.spending_processes import OffStore

FAR_SECONDS = 800.0
CALM_SHARE, CALM_STEPS = 0.05, 1000.0
"""The most faults of a kind, and the fewest steps between two of a process, in a calm world."""


def meets_at_edges(seed: int) -> bool:
    """Return whether clocks meet at the edges of a rolling limit, where little else is wrong."""
    drawn = _with_edges(seed)
    return drawn is not None and drawn.contract is None and _is_calm(drawn)


def hurries_at_edges(seed: int) -> bool:
    """Return whether the clock of one of these spenders is far ahead."""
    drawn = draw(seed) if meets_at_edges(seed) else None
    plan = None if drawn is None else drawn.budgets
    return plan is not None and max(plan.clocks_off.values()) >= FAR_SECONDS


def _with_edges(seed: int) -> Scenario | None:
    drawn = draw(seed) if has_wrong_clocks(seed) and has_edges(seed) else None
    return drawn if drawn is not None and drawn.budgets and drawn.budgets.clocks_near else None


def _is_calm(drawn: Scenario) -> bool:
    faults = drawn.faults
    return (
        faults.trip_seconds < 1
        and max(faults.slow, faults.lost, faults.unreachable, faults.throttled) < CALM_SHARE
        and drawn.budgets is not None
        and drawn.budgets.reliability.steps_per_fault >= CALM_STEPS
    )


def unchecked(*_: object, **__: object) -> None:
    """Check nothing."""


CONTROL_UNCHECKED = Edit(
    "ledger.budgets.control:ControlStore._carry", "operation not in READS", "False"
)
BY_ANY_CLOCK = (
    CONTROL_UNCHECKED,
    (OffStore, "_check", unchecked),
    Edit("ledger.budgets.spender:Spender._sought", "self._writer.check_clock()", "pass"),
)

CLOCK_MUTANTS = (
    budget_mutant(
        "control-unchecked",
        "nothing is written of a budget by a clock that is off",
        "rights, holds and limits are written and dated by it",
        20,
        CONTROL_UNCHECKED,
        worlds=has_wrong_clocks,
    ),
    budget_mutant(
        "rolled-without-margin",
        "what was spent comes back a retry horizon and the skews after the window",
        "with old keys a span has more than the limit, by the ids",
        20,
        Edit(
            "ledger.budgets.rights_items:ControlItems.as_of_now",
            "self._settings.current.terms.rolling_margin",
            "0.0",
        ),
        worlds=meets_at_edges,
    ),
    budget_mutant(
        "step-by-own-clock",
        "a step of a limit waits by its region's time, by clocks that are right",
        "noted by a host that is behind, or confirmed by one that is ahead, it does not wait",
        40,
        *BY_ANY_CLOCK,
        Edit(
            "ledger.budgets.rights_items:ControlItems.time",
            "time_in(self.store, self._clock, self._settings.current.terms)",
            "RegionTime(*[self._clock.now().timestamp()] * 2)",
        ),
        first=7,
        worlds=has_windows_and_wrong_clocks,
    ),
    budget_mutant(
        "rolled-by-own-clock",
        "what was spent comes back by its region's time, by clocks that are right",
        "a host that is ahead gives back what has not left the window",
        40,
        *BY_ANY_CLOCK,
        Edit(
            "ledger.budgets.rights_items:ControlItems.as_of_now",
            "self.time",
            "RegionTime(*[self._clock.now().timestamp()] * 2)",
        ),
        first=2,
        worlds=hurries_at_edges,
    ),
    budget_mutant(
        "rolled-without-horizon",
        "what was spent comes back after the contract's retry horizon, however short a call's is",
        "with old keys a span has more than the limit, by the ids",
        70,
        Edit(
            "ledger.core.contract:Terms.rolling_margin",
            'self.longest("retry_horizon") + ',
            "",
        ),
        first=62,
        worlds=meets_at_edges,
    ),
    budget_mutant(
        "rolled-without-skews",
        "what was spent comes back a skew later for each of the clocks that meet",
        "a span has more than the limit, by the ids of a host that is ahead and of one behind",
        70,
        Edit(
            "ledger.budgets.rights_items:ControlItems.as_of_now",
            "self._settings.current.terms.rolling_margin",
            'self._settings.current.terms.longest("retry_horizon")',
        ),
        first=62,
        worlds=meets_at_edges,
    ),
)
