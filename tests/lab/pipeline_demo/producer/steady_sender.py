"""Sends records at a steady rate, by the clock, and those again that were refused.

A record is *sent* once the target has acknowledged it. One that was acknowledged, and whose answer
was lost, is sent twice: as with every producer, and the pipeline counts it once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from random import Random

from lab.pipeline_demo.producer.targets import Outgoing, Target
from ledger.core.errors import LedgerError
from ledger.runtime.clock import Clock
from ledger.runtime.tasks import run_all

AT_ONCE = 8
"""Batches in flight."""
TICK_SECONDS = 0.02
AGAIN_SECONDS, AGAIN_SECONDS_MAX = 0.1, 5.0
"""Before what was refused is sent again: twice as long each time, and half of it by chance."""
TRIES_MAX = 60
"""In a row in which nothing is taken: some minutes."""


@dataclass(slots=True)
class Sent:
    """What has been sent so far, and how often a record was refused."""

    began: float = 0.0
    seconds: float = 0.0
    records: int = 0
    refused: int = 0

    @property
    def per_second(self) -> float:
        """The rate so far."""
        return self.records / self.seconds if self.seconds else 0.0


@dataclass(slots=True, kw_only=True)
class Producer:
    """Sends records to a target, until they are over or it is to stop."""

    target: Target
    records: Iterator[Outgoing]
    rate: float
    clock: Clock
    randomness: Random
    is_stopped: bool = False
    sent: Sent = field(default_factory=Sent)

    def stop(self) -> None:
        """Send what is begun, and no more."""
        self.is_stopped = True

    async def run(self) -> None:
        """Send; with a rate of 0, as fast as the target takes it.

        Raises:
            LedgerError: the target cannot be written, or refuses everything for minutes.
        """
        sent = self.sent
        sent.began = self.clock.monotonic()
        while not self.is_stopped:
            room = self._room()
            if room <= 0:
                await self.clock.sleep(TICK_SECONDS)
                continue
            found = list(islice(self.records, room))
            if not found:
                break
            await self._send(found)
            sent.seconds = self.clock.monotonic() - sent.began
        sent.seconds = self.clock.monotonic() - sent.began

    def _room(self) -> int:
        """Return how many are to be sent now: those that are due, or as many as go at once."""
        most = self.target.records_max * AT_ONCE
        if not self.rate:
            return most
        due = int((self.clock.monotonic() - self.sent.began) * self.rate)
        return min(due - self.sent.records, most)

    async def _send(self, records: Sequence[Outgoing]) -> None:
        """Send records until the target has taken every one of them."""
        left, tries = records, 0
        while left:
            jobs = [partial(self._batch, batch) for batch in self._batches(left)]
            again = [outgoing for some in await run_all(jobs, at_once=AT_ONCE) for outgoing in some]
            self.sent.records += len(left) - len(again)
            self.sent.refused += len(again)
            tries = tries + 1 if len(again) == len(left) else 0
            if tries >= TRIES_MAX:
                raise LedgerError(f"nothing was taken in {TRIES_MAX} tries: it takes no more")
            if again:
                seconds = min(AGAIN_SECONDS * 2**tries, AGAIN_SECONDS_MAX)
                await self.clock.sleep(seconds * (0.5 + self.randomness.random() / 2))
            left = again

    async def _batch(self, batch: Sequence[Outgoing]) -> Sequence[Outgoing]:
        """Send a batch; return what was refused."""
        return [batch[place] for place in await self.target.send(batch)]

    def _batches(self, records: Sequence[Outgoing]) -> Iterator[Sequence[Outgoing]]:
        """Divide records into what the target takes at once."""
        batch: list[Outgoing] = []
        size = 0
        for record in records:
            is_full = len(batch) == self.target.records_max
            if batch and (is_full or size + record.size > self.target.bytes_max):
                yield batch
                batch, size = [], 0
            batch.append(record)
            size += record.size
        if batch:
            yield batch
