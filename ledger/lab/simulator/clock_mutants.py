"""Mutants of budgets whose spenders' clocks are off, and the code in place of production code."""

from typing import Any

from ledger.core.clock_offset import RegionTime
from ledger.core.contract import Terms
from ledger.lab.simulator.budget_mutants import budget_mutant
from ledger.lab.simulator.budgets import has_windows_and_wrong_clocks, has_wrong_clocks
from ledger.lab.simulator.spending_processes import OffStore
from ledger.limits import control, items
from ledger.limits.spending import Spender
from ledger.runtime.clock import Clock
from ledger.store.port import Store

_sought = Spender._sought  # noqa: SLF001 (it is broken here)


class AnyClock:
    """A writer that takes each clock for right."""

    def check_clock(self) -> None:
        """Check nothing."""


def unchecked(*_: object, **__: object) -> None:
    """Check nothing."""


def own_time(store: Store, clock: Clock, terms: Terms) -> RegionTime:
    """Take this machine's time for the region's."""
    del store, terms
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


_BY_OWN_CLOCK = (
    (control, "check_offset", unchecked),
    (OffStore, "_check", unchecked),
    (items, "time_in", own_time),
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
        120,
        (items, "margin_of", no_margin),
        worlds=has_wrong_clocks,
    ),
    budget_mutant(
        "step-by-own-clock",
        "a step of a limit waits by its region's time, by clocks that are right",
        "noted by a host that is behind, or confirmed by one that is ahead, it does not wait",
        40,
        *_BY_OWN_CLOCK,
        worlds=has_windows_and_wrong_clocks,
    ),
)
