"""Doing something until it is answered, whatever passes: for steps whose repeat is harmless."""

from collections.abc import Awaitable, Callable
from random import Random

from ledger.core.errors import StoreError, Throttled, Unreachable
from ledger.pipeline.metrics import StageMetrics
from ledger.runtime.clock import Clock
from ledger.store.repeating import BACKOFF, Repeating
from ledger.store.retry import Backoff
from ledger.store.writes import Outcome

PASSING = (Throttled, Unreachable)
"""Errors after which nothing was written, and that may be over soon."""


class Trying:
    """How one stage repeats its requests, and counts that it does."""

    def __init__(
        self, *, clock: Clock, randomness: Random, metrics: StageMetrics, backoff: Backoff = BACKOFF
    ) -> None:
        self.metrics = metrics
        self._repeating = Repeating(clock, randomness, backoff)
        self._tries_max = backoff.tries_max

    async def until_answered(self, send: Callable[[], Awaitable[Outcome]]) -> Outcome:
        """Send a write until it is answered, or the bound on tries is reached: then `Unknown`.

        Raises:
            StoreError: nothing was written, nor will be.
        """
        is_first = True

        async def counted() -> Outcome:
            nonlocal is_first
            if not is_first:
                self.metrics.retry()
            is_first = False
            return await send()

        for tries in range(1, self._tries_max + 1):
            try:
                return (await self._repeating.until_answered(counted)).outcome
            except PASSING:
                if tries == self._tries_max:
                    raise
            await self._repeating.wait(tries)
        raise AssertionError("unreachable: the last try returns or raises")

    async def wait(self, tries: int) -> None:
        """Wait before something is done again, after this many tries (1 or more)."""
        self.metrics.retry()
        await self._repeating.wait(tries)


def given_up(what: str, tries: int) -> StoreError:
    """Return the error of a step that could not be done within its bound."""
    return Unreachable(f"{what} could not be written in {tries} tries")
