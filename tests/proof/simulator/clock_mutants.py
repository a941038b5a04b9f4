"""Mutants of budgets whose spenders' clocks are off, and the code in place of production code."""

from typing import Any

from ledger.budgets import control, rights_items
from ledger.budgets.rights import Rights
from ledger.budgets.rights_items import ControlItems
from ledger.budgets.rolling_limits import margin_of, roll_forward
from ledger.budgets.spender import Spender
from ledger.core.clock_offset import RegionTime
from ledger.core.contract import Terms
from ledger.runtime.clock import Clock
from ledger.store.port import Store
from proof.simulator.budget_mutants import budget_mutant
from proof.simulator.budgets import has_windows_and_wrong_clocks, has_wrong_clocks
from proof.simulator.rolling_edges import has_edges
from proof.simulator.scenario import Scenario, draw
from proof.simulator.spending_processes import OffStore

FAR_SECONDS = 800.0
CALM_SHARE, CALM_STEPS = 0.05, 1000.0
"""The most faults of a kind, and the fewest steps between two of a process, in a calm world."""
_sought = Spender._sought  # noqa: SLF001 (it is broken here)


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


class AnyClock:
    """A writer that takes each clock for right."""

    def check_clock(self) -> None:
        """Check nothing."""


def unchecked(*_: object, **__: object) -> None:
    """Check nothing."""


def own_time(store: Store, clock: Clock, terms: Terms) -> RegionTime:
    """Take this machine's time for the region's."""
    del store, terms
    return _shown_by(clock)


def _shown_by(clock: Clock) -> RegionTime:
    now = clock.now().timestamp()
    return RegionTime(now, now)


def sought_by_any_clock(spender: Spender, asked: Any) -> Any:
    """Begin a spend whatever the clock says; its entry is refused all the same."""
    writer, spender._writer = spender._writer, AnyClock()  # type: ignore[assignment]  # noqa: SLF001
    try:
        return _sought(spender, asked)
    finally:
        spender._writer = writer  # noqa: SLF001


def no_margin(terms: Terms) -> float:
    """Give back what has left the window at once."""
    del terms
    return 0.0


def horizon_alone(terms: Terms) -> float:
    """Take all clocks for equal."""
    return terms.longest("retry_horizon")


def as_of_own_clock(shown: ControlItems, rights: Rights) -> Rights:
    """Give back what has left the window by this machine's clock."""
    margin = margin_of(shown._settings.current.terms)  # noqa: SLF001
    return roll_forward(rights, _shown_by(shown._clock), margin=margin)  # noqa: SLF001


_BY_ANY_CLOCK = (
    (control, "check_offset", unchecked),
    (OffStore, "_check", unchecked),
    (Spender, "_sought", sought_by_any_clock),
)


CLOCK_MUTANTS = (
    budget_mutant(
        "control-unchecked",
        "nothing is written of a budget by a clock that is off",
        "rights, holds and limits are written and dated by it",
        20,
        (control, "check_offset", unchecked),
        worlds=has_wrong_clocks,
    ),
    budget_mutant(
        "rolled-without-margin",
        "what was spent comes back a retry horizon and the skews after the window",
        "with old keys a span has more than the limit, by the ids",
        20,
        (rights_items, "margin_of", no_margin),
        worlds=meets_at_edges,
    ),
    budget_mutant(
        "step-by-own-clock",
        "a step of a limit waits by its region's time, by clocks that are right",
        "noted by a host that is behind, or confirmed by one that is ahead, it does not wait",
        40,
        *_BY_ANY_CLOCK,
        (rights_items, "time_in", own_time),
        worlds=has_windows_and_wrong_clocks,
    ),
    budget_mutant(
        "rolled-by-own-clock",
        "what was spent comes back by its region's time, by clocks that are right",
        "a host that is ahead gives back what has not left the window",
        40,
        *_BY_ANY_CLOCK,
        (ControlItems, "as_of_now", as_of_own_clock),
        worlds=hurries_at_edges,
    ),
    budget_mutant(
        "rolled-without-skews",
        "what was spent comes back a skew later for each of the clocks that meet",
        "a span has more than the limit, by the ids of a host that is ahead and of one behind",
        40,
        (rights_items, "margin_of", horizon_alone),
        worlds=meets_at_edges,
    ),
)
