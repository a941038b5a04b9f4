"""Time and randomness as arguments, and the one module that reads the real ones.

Everything else in the ledger is handed a `Clock` and a `random.Random`, so tests and simulations
own both. Entry points (`Ledger.open`, the compactor's job, the commands) pass `SystemClock()` and
`system_random()`.
"""

import random
import time
from datetime import UTC, datetime
from typing import Protocol

import anyio


class Clock(Protocol):
    """Tells the time of day, measures elapsed time, and waits."""

    def now(self) -> datetime:
        """Return the time of day, aware, in UTC, to the microsecond; it may jump either way."""

    def monotonic(self) -> float:
        """Return seconds since an arbitrary moment; never falls. For elapsed time only."""

    async def sleep(self, seconds: float) -> None:
        """Wait this long by the monotonic clock; at once for zero; a point of cancellation."""


class SystemClock:
    """The machine's clocks and the event loop's timer."""

    def now(self) -> datetime:
        """Return the time of day, aware, in UTC, to the microsecond; it may jump either way."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds since an arbitrary moment; never falls. For elapsed time only."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait this long by the monotonic clock; at once for zero; a point of cancellation."""
        await anyio.sleep(seconds)


def system_random() -> random.Random:
    """Return the operating system's randomness.

    Ids of changes come from it: two processes, forked or started alike, must not draw the same.
    """
    return random.SystemRandom()


def blocking_sleep(seconds: float) -> None:
    """Wait in a thread without an event loop, as the commands around boto3 are."""
    time.sleep(seconds)
