"""Links that carry changes from one region to another: delayed, reordered, cut off on request.

There is one link per ordered pair of regions. Each item waits its own time, so the items of one
transaction arrive separately and in any order. A held link keeps everything until it is released.

An item that cannot be delivered stays: it is tried again, alone, after a wait that doubles up to
`RETRY_SECONDS_MAX`, and holds up no other item::

    due ---> batch ---- delivered
               |
               `- error -> each item alone -- delivered
                                    |
                                    `- error: shown as a `LinkFailure`, due again after a wait
"""

import asyncio
import heapq
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ledger.local.replication.stamps import Shipment

_LOG = logging.getLogger(__name__)

BATCH_MAX = 100
"""Items handed over at a time; in between, requests get their turn."""
RETRY_SECONDS_FIRST = 0.05
RETRY_SECONDS_MAX = 5.0
ERROR_CHARACTERS_MAX = 300

Deliver = Callable[[str, str, Sequence[Shipment]], Awaitable[None]]
"""Applies items that come from one region in another; all of them may be delivered again."""


class LinkHold(StrEnum):
    """Why a link carries nothing: on request; a region is cut off, its tables are gone, or lost."""

    PAUSED = "paused"
    OUTAGE = "outage"
    UNAVAILABLE = "unavailable"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class LinkFailure:
    """An item that could not be delivered: its last error, and since when, in the time of day."""

    shipment: Shipment
    error: str
    since: float
    tries: int


@dataclass(frozen=True, slots=True, order=True)
class _Sent:
    due: float
    sequence: int
    shipment: Shipment


def doubled(tries: int, *, first: float, most: float) -> float:
    """Return the seconds to wait after this many failed tries: doubled each time, up to `most`."""
    return float(min(most, first * 2.0 ** min(tries - 1, 32)))


def described(error: BaseException) -> str:
    """Return an error, the first of a group, in at most `ERROR_CHARACTERS_MAX` characters."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return (str(error) or repr(error))[:ERROR_CHARACTERS_MAX]


class Link:
    """Changes on their way from `source` to `target`. Lives in the server's event loop."""

    def __init__(
        self,
        source: str,
        target: str,
        *,
        deliver: Deliver,
        delay: Callable[[], float],
        rested: Callable[[], None] = lambda: None,
        retry_first: float = RETRY_SECONDS_FIRST,
    ) -> None:
        self.source = source
        self.target = target
        self.holds: set[LinkHold] = set()
        self._deliver = deliver
        self._delay = delay
        self._rested = rested
        self._retry_first = retry_first
        self._heap: list[_Sent] = []
        self._handing: Sequence[_Sent] = ()
        self._failures: dict[int, LinkFailure] = {}
        self._sequence = 0
        self._changed = asyncio.Event()
        self._delivering = asyncio.Lock()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def up(self) -> bool:
        """Whether nothing holds the link."""
        return not self.holds

    @property
    def waiting(self) -> int:
        """The number of items in flight, including those being applied."""
        return len(self._heap) + len(self._handing)

    @property
    def shipments(self) -> Sequence[Shipment]:
        """The items in flight."""
        return [sent.shipment for sent in (*self._handing, *self._heap)]

    @property
    def failures(self) -> Collection[LinkFailure]:
        """The items that could not be delivered yet, the one that waits longest first."""
        return self._failures.values()

    @property
    def idle(self) -> bool:
        """Whether nothing is on its way or being applied."""
        return self._idle.is_set()

    def push(self, shipment: Shipment) -> None:
        """Send one item; it arrives after its own delay."""
        if LinkHold.LOST in self.holds:
            return
        self._sequence += 1
        self._wait(_Sent(_now() + self._delay(), self._sequence, shipment))

    def _wait(self, sent: _Sent) -> None:
        heapq.heappush(self._heap, sent)
        self._idle.clear()
        if self._heap[0] is sent:
            self._changed.set()  # the first one due is a new one

    async def hold(self, reason: LinkHold) -> None:
        """Hold everything from now on; nothing arrives once this returns."""
        self.holds.add(reason)
        async with self._delivering:
            pass

    async def end(self) -> None:
        """Drop what is on its way, and carry nothing any more, for good."""
        await self.hold(LinkHold.LOST)
        self.clear()
        self._idle.set()

    def release(self, reason: LinkHold) -> None:
        """Resume delivery, unless there is another reason to hold."""
        self.holds.discard(reason)
        self._changed.set()

    def clear(self) -> None:
        """Drop everything that waits; what is being applied continues."""
        self._heap.clear()
        self._failures.clear()
        self._changed.set()

    async def until_idle(self) -> None:
        """Wait until nothing is on its way."""
        await self._idle.wait()

    async def run(self) -> None:
        """Deliver items when they are due, until cancelled."""
        while True:
            try:
                await self._turn()
            except Exception:  # noqa: BLE001 (a link never ends)
                _LOG.exception("%s -> %s continues after an error", self.source, self.target)
                await asyncio.sleep(RETRY_SECONDS_FIRST)

    async def _turn(self) -> None:
        """Wait for items that are due, and deliver them."""
        self._changed.clear()
        await self._sleep()
        async with self._delivering:
            await self._hand_over(self._due())
        if not self._heap and not self._idle.is_set():
            self._idle.set()
            self._rested()
        await asyncio.sleep(0)

    async def _sleep(self) -> None:
        """Wait until the first item is due, or something changes."""
        if self._heap and self.up:
            seconds = self._heap[0].due - _now()
            if seconds <= 0:
                return
            timer = asyncio.get_running_loop().call_later(seconds, self._changed.set)
            try:
                await self._changed.wait()
            finally:
                timer.cancel()
        elif self._heap or self._idle.is_set():
            await self._changed.wait()

    def _due(self) -> list[_Sent]:
        now = _now()
        batch: list[_Sent] = []
        while self.up and self._heap and self._heap[0].due <= now and len(batch) < BATCH_MAX:
            batch.append(heapq.heappop(self._heap))
        return batch

    async def _hand_over(self, batch: Sequence[_Sent]) -> None:
        """Deliver these together, or else one by one; what fails, or is held meanwhile, waits."""
        if not batch:
            return
        self._handing = batch
        try:
            if await self._try(batch) is None:
                self._delivered(batch)
                return
            for index, sent in enumerate(batch):
                if not self.up:
                    self._put_back(batch[index:])
                    return
                error = await self._try([sent])
                self._handing = batch[index + 1 :]
                if error is None:
                    self._delivered([sent])
                else:
                    self._put_off(sent, error)
        finally:
            self._handing = ()

    async def _try(self, batch: Sequence[_Sent]) -> Exception | None:
        try:
            await self._deliver(self.source, self.target, [sent.shipment for sent in batch])
        except Exception as error:  # noqa: BLE001 (whatever it is: shown, and tried again)
            _LOG.debug("%s -> %s failed", self.source, self.target, exc_info=True)
            return error
        return None

    def _delivered(self, batch: Iterable[_Sent]) -> None:
        for sent in batch:
            self._failures.pop(sent.sequence, None)

    def _put_back(self, batch: Iterable[_Sent]) -> None:
        for sent in batch:
            self._wait(sent)

    def _put_off(self, sent: _Sent, error: Exception) -> None:
        if not self._failures:
            _LOG.warning("%s -> %s fails: %s", self.source, self.target, described(error))
        before = self._failures.get(sent.sequence)
        tries = before.tries + 1 if before else 1
        since = before.since if before else time.time()
        self._failures[sent.sequence] = LinkFailure(sent.shipment, described(error), since, tries)
        wait = doubled(tries, first=self._retry_first, most=RETRY_SECONDS_MAX)
        self._wait(_Sent(_now() + wait, sent.sequence, sent.shipment))


def _now() -> float:
    return asyncio.get_running_loop().time()
