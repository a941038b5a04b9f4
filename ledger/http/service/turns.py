"""Turns of requests: a few begin in each round of the event loop, those of each address in turn.

Most requests without a token are answered in one step of the loop. Were all begun that have come,
a round would take as long as all of them; so probes, and whoever asks from elsewhere, would wait
for thousands. Requests that have begun go on as ever. Steps of TLS handshakes have turns of this
kind, too: each may take an operation with the private key. So has what is decrypted and parsed: few
bytes may be many records, empty lines or chunks. What is as short as a probe has a row of its own.
Changes of requests with many have turns of callers: thousands may share one answer of the table.

No clock, no randomness, no I/O.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

BEGUN_AT_ONCE = 8
"""Requests that begin in one round."""
PARSED_AT_ONCE = 2
"""Connections of which much is parsed in one round."""
CallSoon = Callable[[Callable[[], None]], object]
"""Calls in the next round."""


class Turns:
    """Requests that wait for their turn, of which so many begin in a round."""

    def __init__(self, call_soon: CallSoon, at_once: int = BEGUN_AT_ONCE) -> None:
        self._call_soon = call_soon
        self._at_once = at_once
        self._waiting: dict[str | None, deque[Callable[[], None]]] = {}
        self._left = at_once
        self._is_due = False

    def enter(self, address: str | None, begin: Callable[[], None]) -> None:
        """Begin a request of an address: at once, or once it is its turn."""
        if self._left and not self._waiting:
            self._left -= 1
            begin()
        else:
            self._waiting.setdefault(address, deque()).append(begin)
        if not self._is_due:
            self._is_due = True
            self._call_soon(self._go_on)

    async def turn(self, caller: str) -> None:
        """Wait until it is the turn of a caller's request."""
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.enter(caller, partial(_begin, begun))
        await begun

    def _go_on(self) -> None:
        """Begin those whose turn it is in this round."""
        self._left = self._at_once
        while self._left and self._waiting:
            self._left -= 1
            address, begins = next(iter(self._waiting.items()))
            del self._waiting[address]
            begin = begins.popleft()
            if begins:
                self._waiting[address] = begins  # after all other addresses
            begin()
        self._is_due = self._left < self._at_once
        if self._is_due:
            self._call_soon(self._go_on)


def _begin(begun: "asyncio.Future[None]") -> None:
    if not begun.done():  # its caller may have gone
        begun.set_result(None)


@dataclass(frozen=True, slots=True)
class ConnectionTurns:
    """The rows in which the connections of a server wait."""

    requests: Turns
    probes: Turns
    handshakes: Turns
    parsing: Turns
    short_parsing: Turns

    @classmethod
    def of(cls, call_soon: CallSoon) -> "ConnectionTurns":
        """Return empty rows."""
        requests, probes, handshakes, short = (Turns(call_soon) for _ in range(4))
        return cls(requests, probes, handshakes, Turns(call_soon, PARSED_AT_ONCE), short)
