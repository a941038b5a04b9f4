"""Time and randomness as arguments, and the one module that reads the real ones.

Everything else in the ledger is handed a `Clock` and a `random.Random`, so tests and simulations
own both. Entry points (`Ledger.open`, the compactor's job, the commands) pass `SystemClock()` and
`system_random()`.
"""

import os
import random
import struct
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Protocol

import anyio

STOCK_BYTES = 4096
_WORD = struct.Struct("<Q")


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
    return _StockedRandom()


class _StockedRandom(random.SystemRandom):
    """The operating system's randomness, fetched in stock, since each call of it takes long.

    Stock is drawn in one step that no thread can share, and thrown away by a forked child.
    """

    _stock: Iterator[tuple[int]] = iter(())
    _owner = 0

    def getrandbits(self, k: int, /) -> int:
        """Return a whole number of `k` random bits; 64 of them, as ids take, come from stock."""
        if k != _WORD.size * 8:
            return super().getrandbits(k)
        if self._owner != os.getpid():
            self._stock, self._owner = iter(()), os.getpid()
        while True:
            for (word,) in self._stock:
                return word
            self._stock = _WORD.iter_unpack(os.urandom(STOCK_BYTES))


def blocking_sleep(seconds: float) -> None:
    """Wait in a thread without an event loop, as the commands around boto3 are."""
    time.sleep(seconds)
