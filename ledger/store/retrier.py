"""The one loop that repeats requests. Two levels use it, each for what only it can judge.

- The store repeats what is known not to have been applied (throttling, conflicts, connections never
  made), and reads: at most `Backoff().throttled_tries_max`, 4, requests of a call that is
  throttled, and `Backoff().tries_max`, 8, of any call.
- A caller repeats a write whose outcome is unknown, if it has shown that the repeat is harmless
  (`Retrier.until_answered`). Outcomes and errors report how many requests they took, and those
  count: at most 8 that are never answered, and never more than 15, if the last of eight calls gets
  conflicts as its answers eight times.

Both draw on one `RetryBudget`, the store's. Levels above the store do not repeat on its errors:
longer waits are bounded by a deadline (a write by `write_deadline`, an import by four of them), or
restart the work (a pipeline's worker, a compactor's pass).
"""

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Self

from ledger.core.errors import StoreError
from ledger.runtime.call_deadlines import has_ended, note_doubt, until_end
from ledger.runtime.clock import Clock
from ledger.store.port import Store
from ledger.store.retry import SUCCESS_TOKENS, Backoff, RetryBudget
from ledger.store.writes import Applied, FinalOutcome, Outcome, Unknown

BACKOFF = Backoff()
DEADLINE_BACKOFF = Backoff(longest_seconds=2.0)
"""The longest wait of calls with a deadline: they notice within 2 s that the table is back."""


def _ignored(_operation: str, _cause: str) -> None:
    """Do not count repeats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrier:
    """Repeats requests of one client; `on_retry` is called with the operation and the cause."""

    clock: Clock
    randomness: Random
    budget: RetryBudget
    backoff: Backoff = BACKOFF
    on_retry: Callable[[str, str], None] = _ignored

    @classmethod
    def of(
        cls, store: Store, *, clock: Clock, randomness: Random, backoff: Backoff = BACKOFF
    ) -> Self:
        """Return a retrier for callers of a store, with the shared budget."""
        return cls(clock=clock, randomness=randomness, budget=store.retry_budget, backoff=backoff)

    def begin(self, operation: str, *, deadline: float | None = None) -> "Tries":
        """Begin a call, bounded by the backoff and the budget, or by a deadline.

        The deadline is a moment of the monotonic clock.
        """
        return Tries(self, operation, deadline)

    async def until_answered(
        self, send: Callable[[], Awaitable[Outcome]], operation: str = "write"
    ) -> FinalOutcome:
        """Send a write until it is answered, for writes whose repeat is harmless.

        Raises:
            StoreError: every try before was answered, so nothing was written, nor will be.
        """
        tries = self.begin(operation)
        doubt: str | None = None
        while True:
            try:
                outcome = await send()
            except StoreError as error:
                if doubt is None:
                    raise
                outcome = Unknown(f"{doubt}; then {error}", requests=error.requests)
            if not isinstance(outcome, Unknown):
                tries.succeeded()
                if doubt is not None and not isinstance(outcome, Applied):
                    note_doubt()
                return FinalOutcome(outcome, doubt)
            doubt = outcome.cause
            if not await tries.again("unanswered", requests=outcome.requests):
                note_doubt()
                return FinalOutcome(outcome, doubt)

    async def pause_within(self, tries: int, *, deadline: float) -> bool:
        """Wait after so many lost races, as `pause`; False, without a wait, at the deadline.

        The deadline is a moment of the monotonic clock.
        """
        if self.clock.monotonic() >= deadline:
            return False
        await self.pause(tries)
        return True

    async def pause(self, tries: int) -> None:
        """Wait after `lost` lost races: others made progress, so this does not use the budget."""
        self.on_retry("write", "contention")
        wait = self.backoff.wait_seconds(tries, self.randomness.random())
        await until_end(self.clock.sleep(wait))


class Tries:
    """The tries of one call; `requests` counts the requests that were sent."""

    __slots__ = ("_deadline", "_operation", "_paid", "_retrier", "_tries", "requests")

    def __init__(self, retrier: Retrier, operation: str, deadline: float | None) -> None:
        self.requests: int = 0
        self._retrier = retrier
        self._operation = operation
        self._deadline = deadline
        self._paid = SUCCESS_TOKENS
        self._tries = 0

    def succeeded(self) -> None:
        """Record that the call was answered."""
        self._retrier.budget.give(self._paid)

    async def again(
        self,
        cause: str,
        *,
        requests: int = 1,
        throttled: bool = False,
        retry_after_seconds: float = 0.0,
    ) -> bool:
        """Wait for the next try after one that took `requests` requests; False if there is none.

        False also at the end of the public call that they belong to.
        """
        retrier = self._retrier
        self.requests += requests
        self._tries += 1
        paid = None if has_ended() else self._pay(throttled=throttled)
        if paid is None:
            return False
        wait = retrier.backoff.wait_seconds(
            self._tries,
            retrier.randomness.random(),
            throttled=throttled,
            retry_after_seconds=retry_after_seconds,
        )
        if not paid:
            wait = max(wait, retrier.backoff.longest_seconds)
        retrier.on_retry(self._operation, cause)
        await until_end(retrier.clock.sleep(min(wait, self._left_seconds())))
        return True

    def _pay(self, *, throttled: bool) -> int | None:
        """Pay for the next try; returns None if there must be none."""
        if self._deadline is None:
            if not self._retrier.backoff.allows(self.requests, throttled=throttled):
                return None
        elif self._left_seconds() <= 0:
            return None
        paid = self._retrier.budget.take(throttled=throttled)
        if paid:
            self._paid = paid
        return paid if paid or self._deadline is not None else None

    def _left_seconds(self) -> float:
        if self._deadline is None:
            return math.inf
        return self._deadline - self._retrier.clock.monotonic()
