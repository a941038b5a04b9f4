"""Links that carry changes from one region to another: delayed, reordered, cut off on request.

There is one link per ordered pair of regions. Each item waits its own time, so the items of one
transaction arrive separately and in any order. A paused link holds everything until it is healed.
"""

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Sequence

from ledger.local.replication.stamps import Shipment

BATCH_MAX = 100
"""Items handed over at a time; in between, requests get their turn."""

Deliver = Callable[[str, str, Sequence[Shipment]], Awaitable[None]]
"""Applies items that come from one region in another."""


class Link:
    """Changes on their way from `source` to `target`. Lives in the server's event loop."""

    def __init__(
        self, source: str, target: str, *, deliver: Deliver, delay: Callable[[], float]
    ) -> None:
        self.source = source
        self.target = target
        self.up = True
        self._deliver = deliver
        self._delay = delay
        self._heap: list[tuple[float, int, Shipment]] = []
        self._sequence = 0
        self._changed = asyncio.Event()
        self._delivering = asyncio.Lock()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def waiting(self) -> int:
        """How many items are on their way."""
        return len(self._heap)

    @property
    def idle(self) -> bool:
        """Whether nothing is on its way or being applied."""
        return self._idle.is_set()

    def push(self, shipment: Shipment) -> None:
        """Send one item; it arrives after a delay of its own."""
        due = asyncio.get_running_loop().time() + self._delay()
        self._sequence += 1
        heapq.heappush(self._heap, (due, self._sequence, shipment))
        self._idle.clear()
        if self._heap[0][1] == self._sequence:
            self._changed.set()  # the first one due is a new one

    async def pause(self) -> None:
        """Hold everything from now on; nothing arrives once this returns."""
        self.up = False
        async with self._delivering:
            pass

    def heal(self) -> None:
        """Resume delivery."""
        self.up = True
        self._changed.set()

    async def until_idle(self) -> None:
        """Wait until nothing is on its way."""
        await self._idle.wait()

    async def run(self) -> None:
        """Deliver items when they are due, until cancelled."""
        while True:
            self._changed.clear()
            await self._sleep()
            async with self._delivering:
                batch = self._due()
                if batch:
                    await self._deliver(self.source, self.target, batch)
            if not self._heap:
                self._idle.set()
            await asyncio.sleep(0)

    async def _sleep(self) -> None:
        """Wait until the first item is due, or something changes."""
        loop = asyncio.get_running_loop()
        if self._heap and self.up:
            seconds = self._heap[0][0] - loop.time()
            if seconds <= 0:
                return
            timer = loop.call_later(seconds, self._changed.set)
            try:
                await self._changed.wait()
            finally:
                timer.cancel()
        else:
            await self._changed.wait()

    def _due(self) -> list[Shipment]:
        now = asyncio.get_running_loop().time()
        batch: list[Shipment] = []
        while self.up and self._heap and self._heap[0][0] <= now and len(batch) < BATCH_MAX:
            batch.append(heapq.heappop(self._heap)[2])
        return batch
