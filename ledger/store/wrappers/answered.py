"""A store for callers whose writes may be repeated without harm: no outcome is unknown.

A write of unknown outcome is sent again until it is answered. A conditional write that was applied
without an answer is then rejected: the caller reads again, as after any rejection.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from random import Random

from ledger.core.errors import Unreachable
from ledger.runtime.clock import Clock
from ledger.store.port import Store
from ledger.store.retrier import Retrier
from ledger.store.wrappers.forwarding import ForwardingStore
from ledger.store.writes import Action, Outcome, Unknown, Write


class AnsweredStore(ForwardingStore):
    """A `Store` whose single writes and transactions are applied, are rejected, or raise.

    Raises:
        Unreachable: from `write` and `transact`: no request was answered; it may have
            been applied.
    """

    def __init__(self, inner: Store, *, clock: Clock, randomness: Random) -> None:
        super().__init__(inner)
        self._retrier = Retrier.of(inner, clock=clock, randomness=randomness)

    async def write(self, write: Write) -> Outcome:
        """Do one conditional write."""
        return await self._answered(partial(self._inner.write, write))

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Do a transaction."""
        return await self._answered(partial(self._inner.transact, actions, token=token))

    async def _answered(self, send: Callable[[], Awaitable[Outcome]]) -> Outcome:
        outcome = (await self._retrier.until_answered(send)).outcome
        if isinstance(outcome, Unknown):
            raise Unreachable.unanswered(
                f"{self.region}: a write was not answered ({outcome.cause}), and may have been"
                " applied: run this again to continue"
            )
        return outcome
