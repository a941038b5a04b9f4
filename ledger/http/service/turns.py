"""Turns and slots of requests.

A few begin in each round of the event loop, those of each address in turn, and of one caller so
many are carried out at a time.

Most requests without a token are answered in one step of the loop. Were all begun that have come,
a round would take as long as all of them; so probes, and whoever asks from elsewhere, would wait
for thousands. Requests that have begun go on as ever. Steps of TLS handshakes have turns of this
kind, too: each may take an operation with the private key. So has what is decrypted and parsed: few
bytes may be many records, empty lines or chunks. What is as short as a probe has a row of its own.
Changes of requests with many have turns of callers: thousands may share one answer of the table.

No clock, no randomness, no I/O.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from ledger.core.errors import LedgerError
from ledger.runtime.call_deadlines import NEVER, not_sent
from ledger.runtime.tasks import CallSoon, Turns

BEGUN_AT_ONCE = 8
"""Requests that begin in one round."""
PARSED_AT_ONCE = 2
"""Connections of which much is parsed in one round."""
LEFT_AT_ONCE = 16
"""Connections that are forgotten in one round, with what was under way for their callers."""


class Slots:
    """What so many requests are carried out in at a time; more wait, first come first served.

    Waits that are over end in `turns`: very many may be over at once.
    """

    def __init__(self, count: int, turns: Turns) -> None:
        self._free = count
        self._turns = turns
        self._waiting: dict[asyncio.Future[None], float] = {}

    @asynccontextmanager
    async def until(
        self, end: float = NEVER, late: Callable[[], LedgerError] = not_sent
    ) -> AsyncIterator[None]:
        """Hold a slot, which is waited for until a time of the event loop.

        Raises:
            LedgerError: `late`: it has come.
        """
        await self.enter(end, late)
        try:
            yield
        finally:
            self.leave()

    async def enter(self, end: float, late: Callable[[], LedgerError] = not_sent) -> None:
        """Take a slot, which `leave` gives back; wait for one until a time of the event loop.

        Raises:
            LedgerError: `late`: it has come.
        """
        if self._free > len(self._waiting):
            self._free -= 1
            return
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiting[waiter] = end
        timer = None
        if end != NEVER:
            timer = loop.call_at(end, self._turns.enter, None, partial(_end, waiter, late))
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():  # the slot came too late
                self.leave()
            raise
        finally:
            if timer is not None:
                timer.cancel()
            self._waiting.pop(waiter, None)
            del waiter  # it holds the error, whose traceback holds this frame

    def leave(self) -> None:
        """Give a slot back: to who has waited longest, if anybody waits and has time left.

        A few begin in each round: those that have little would end at once, and give it on.
        """
        self._free += 1
        if self._waiting:
            self._turns.enter(None, self._begin_next)

    def _begin_next(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._waiting and self._free:
            waiter, end = next(iter(self._waiting.items()))
            del self._waiting[waiter]
            if now < end and not waiter.done():
                self._free -= 1
                waiter.set_result(None)
                return


def _end(waiter: "asyncio.Future[None]", late: Callable[[], LedgerError]) -> None:
    if not waiter.done():
        waiter.set_exception(late())


@dataclass(frozen=True, slots=True)
class ConnectionTurns:
    """The rows in which the connections of a server wait."""

    requests: Turns
    probes: Turns
    handshakes: Turns
    parsing: Turns
    short_parsing: Turns
    leaving: Turns

    @classmethod
    def of(cls, call_soon: CallSoon) -> "ConnectionTurns":
        """Return empty rows."""
        requests, probes, handshakes, short = (Turns(call_soon, BEGUN_AT_ONCE) for _ in range(4))
        parsing, leaving = Turns(call_soon, PARSED_AT_ONCE), Turns(call_soon, LEFT_AT_ONCE)
        return cls(requests, probes, handshakes, parsing, short, leaving)
