"""Turns of requests: a few begin in each round of the event loop, those of each address in turn.

Most requests without a token are answered in one step of the loop. Were all begun that have come,
a round would take as long as all of them; so probes, and whoever asks from elsewhere, would wait
for thousands. Requests that have begun go on as ever. Steps of TLS handshakes have turns of this
kind, too: each may take an operation with the private key. So has what is parsed: few bytes may
be many empty lines, or many chunks.

Pure: no clock, no randomness, no I/O.
"""

from collections import deque
from collections.abc import Callable

BEGUN_AT_ONCE = 8
"""Requests that begin in one round."""


class Turns:
    """Requests that wait for their turn; `call_soon` calls in the next round."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._waiting: dict[str | None, deque[Callable[[], None]]] = {}
        self._left = BEGUN_AT_ONCE
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

    def _go_on(self) -> None:
        """Begin those whose turn it is in this round."""
        self._left = BEGUN_AT_ONCE
        while self._left and self._waiting:
            self._left -= 1
            address, begins = next(iter(self._waiting.items()))
            del self._waiting[address]
            begin = begins.popleft()
            if begins:
                self._waiting[address] = begins  # after all other addresses
            begin()
        self._is_due = self._left < BEGUN_AT_ONCE
        if self._is_due:
            self._call_soon(self._go_on)
