"""A write repeated until it is answered, for writes whose repeat the caller has shown harmless."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ledger.core.errors import StoreError
from ledger.runtime.clock import Clock
from ledger.store.retry import Backoff
from ledger.store.writes import Outcome, Unknown

BACKOFF = Backoff()


@dataclass(frozen=True, slots=True)
class Settled:
    """How the last try ended; `doubt` is the cause of an earlier one without an answer.

    With a doubt, what is rejected now may still have been applied, or land later.
    """

    outcome: Outcome
    doubt: str | None = None


@dataclass(frozen=True, slots=True)
class Repeating:
    """What it takes to repeat a write; `tries_max` of the backoff bounds it."""

    clock: Clock
    randomness: random.Random
    backoff: Backoff = BACKOFF

    async def until_answered(self, send: Callable[[], Awaitable[Outcome]]) -> Settled:
        """Send a write until it is answered; its doubt tells whether some try was not.

        Such a try may have been applied, or may yet be, whatever the answer to a later one is.

        Raises:
            StoreError: no try before was unanswered, so nothing was written, nor will be.
        """
        doubt: str | None = None
        for tries in range(1, self.backoff.tries_max + 1):
            try:
                outcome = await send()
            except StoreError as error:
                if doubt is None:
                    raise
                outcome = Unknown(f"{doubt}; then {error}")
            if not isinstance(outcome, Unknown):
                return Settled(outcome, doubt)
            doubt = outcome.cause
            if tries < self.backoff.tries_max:
                await self.wait(tries)
        return Settled(Unknown(doubt or "not tried"), doubt)

    async def wait(self, tries: int) -> None:
        """Wait after this many failed tries (1 or more)."""
        await self.clock.sleep(self.backoff.wait_seconds(tries, self.randomness))
