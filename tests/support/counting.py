"""Counters under test: made by name, and how often each of many changes was counted.

The i-th change is 10 to the power of i, so that the digits of the value tell how often each one
was counted: nothing can hide behind a sum that comes out right.
"""

from collections.abc import Awaitable, Callable, Sequence
from decimal import Decimal
from itertools import count
from random import Random
from typing import Any

from support.ledgers import seeded, services_of

from ledger.core.errors import StoreError
from ledger.primitives.counters import METHODS, Counter, ItemCounter, Layouts
from ledger.primitives.counters.layout import Layout
from ledger.runtime.clock import Clock
from ledger.store.port import Store
from ledger.store.writes import Applied, Outcome, Rejected
from ledger.testing.clock import ManualClock

SINGLE_ITEM = tuple(name for name in METHODS if name not in {"slots", "collection"})
"""What loses a change where two regions write."""
EXACT = tuple(name for name in SINGLE_ITEM if not name.startswith("atomic"))
"""What never counts a change twice, nor one that it says it did not count."""

_seeds = count(1)  # no two counters draw the same tags

Fate = Outcome | StoreError


def make_counter(
    method: str,
    store: Store,
    *,
    clock: Clock | None = None,
    randomness: Random | None = None,
    name: str = "counter",
    **limits: int | Decimal,
) -> Any:
    """Return a counter of this method; on a clock of its own, whose sleeps are over at once."""
    return METHODS[method].make(
        store,
        name,
        services=services_of(
            clock or ManualClock(instant=True), randomness or seeded(next(_seeds))
        ),
        **limits,
    )


def known_counter(method: str, store: Store, **options: Any) -> Any:
    """Return a counter that was used before: its writes and reads are those of changes alone."""
    counter = make_counter(method, store, **options)
    if isinstance(counter, ItemCounter):
        layouts = Layouts()
        layouts.remember(counter.name, Layout(counter.kind, 1))
        counter.share(layouts)
    return counter


async def fate_of(adding: Awaitable[Outcome]) -> Fate:
    """Return what a caller is told of a change, be it an error."""
    try:
        return await adding
    except StoreError as error:
        return error


def times_counted(value: Decimal, changes: int) -> list[int]:
    """Return how often each change was counted, by the digits of the value."""
    digits = f"{int(value):0{changes}d}"
    assert len(digits) == changes, f"{value} has a change too many"
    return [int(digit) for digit in reversed(digits)]


def wrong(fates: Sequence[Fate], counted: Sequence[int]) -> list[str]:
    """Name the changes that were counted otherwise than their callers were told."""
    return [
        f"change {place}: {fate!r}, counted {times} times"
        for place, (fate, times) in enumerate(zip(fates, counted, strict=True))
        if times not in _allowed(fate)
    ]


def _allowed(fate: Fate) -> set[int]:
    match fate:
        case Applied():
            return {1}
        case Rejected() | StoreError():
            return {0}
        case _:
            return {0, 1}


async def until_known(counter: Counter, change: Decimal, *, tries_max: int = 50) -> Fate:
    """Add, again as long as others are first."""
    fate: Fate = Rejected("contention")
    for _ in range(tries_max):
        fate = await fate_of(counter.add(change))
        if not (isinstance(fate, Rejected) and fate.reason == "contention"):
            return fate
    return fate


Between = Callable[[], Awaitable[object]]


class Interrupted(ManualClock):
    """A clock on which others act once, while somebody first sleeps."""

    def __init__(self, between: Between) -> None:
        super().__init__(instant=True)
        self._between: Between | None = between

    async def sleep(self, seconds: float) -> None:
        """Let the others act, then let this much time pass."""
        if seconds > 0 and self._between is not None:
            between, self._between = self._between, None
            await between()
        await super().sleep(seconds)
