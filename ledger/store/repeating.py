"""A write repeated until it is answered, for writes whose repeat the caller has shown harmless."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ledger.clock import Clock
from ledger.core.errors import StoreError
from ledger.store.port import Outcome, Unknown
from ledger.store.retry import Backoff

BACKOFF = Backoff()


@dataclass(frozen=True, slots=True)
class Repeating:
    """What it takes to repeat a write; `tries_max` of the backoff bounds it."""

    clock: Clock
    randomness: random.Random
    backoff: Backoff = BACKOFF

    async def until_answered(self, send: Callable[[], Awaitable[Outcome]]) -> tuple[Outcome, bool]:
        """Send a write until it is answered; also tells whether some try was not.

        Such a try may have been applied, or may yet be, whatever the answer to a later one is.

        Raises:
            StoreError: no try before was unanswered, so nothing was written, nor will be.
        """
        unknown: Unknown | None = None
        for tries in range(1, self.backoff.tries_max + 1):
            try:
                outcome = await send()
            except StoreError as error:
                if unknown is None:
                    raise
                outcome = Unknown(f"{unknown.cause}; then {error}")
            if not isinstance(outcome, Unknown):
                return outcome, unknown is not None
            unknown = outcome
            if tries < self.backoff.tries_max:
                await self.wait(tries)
        return unknown or Unknown("not tried"), True

    async def wait(self, tries: int) -> None:
        """Wait after this many failed tries (1 or more)."""
        await self.clock.sleep(self.backoff.wait_seconds(tries, self.randomness))
