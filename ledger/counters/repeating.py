"""Making a try until its outcome is known, for writes that may be repeated."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random

from ledger.clock import Clock
from ledger.core.errors import StoreError
from ledger.store import port
from ledger.store.retry import Backoff

REPEATS = Backoff(tries_max=5)


@dataclass(frozen=True, slots=True)
class Settled:
    """How the last try ended; `doubt` is the cause of an earlier one without an answer.

    With a doubt, what is rejected now may still have been applied, or land later.
    """

    outcome: port.Outcome
    doubt: str | None = None


async def until_known(
    attempt: Callable[[], Awaitable[port.Outcome]],
    *,
    clock: Clock,
    randomness: Random,
    backoff: Backoff = REPEATS,
) -> Settled:
    """Repeat a try that got no answer, up to `backoff.tries_max` tries in all.

    Raises:
        StoreError: the first try could not be made; nothing was written.
    """
    doubt: str | None = None
    for tries in range(1, backoff.tries_max + 1):
        try:
            outcome = await attempt()
        except StoreError as error:
            if doubt is None:
                raise
            outcome = port.Unknown(str(error))
        if not isinstance(outcome, port.Unknown):
            return Settled(outcome, doubt)
        doubt = outcome.cause
        if tries < backoff.tries_max:
            await clock.sleep(backoff.wait_seconds(tries, randomness))
    return Settled(port.Unknown(doubt or ""), doubt)
