"""A lane whose records come as AWS Lambda hands them in: events, of which parts come again.

The lane's file stands for a shard of a Kinesis stream. An invocation that fails, or answers that
records must come again, ends its environment: a new one, which remembers nothing, goes on.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from random import Random
from typing import Any

from lab.pipeline_demo.faults import Crashed
from ledger.core.errors import LedgerError
from ledger.pipeline.aws.invocations import Invocations
from ledger.pipeline.core.records import Delivery
from ledger.pipeline.metrics import PipelineMetrics
from ledger.pipeline.sources.dead_letters import LetterSink
from ledger.pipeline.sources.file_positions import place_of
from ledger.pipeline.sources.source import Source
from ledger.runtime.clock import Clock
from ledger.runtime.services import Services
from ledger.settings import Settings
from ledger.store.port import Store

STREAM = "demo"
ACCOUNT = "111122223333"
TIMEOUT_SECONDS = 60.0
TRIES_MAX = 100
"""Of one event; Lambda itself repeats it for as long as the stream keeps the records."""


@dataclass(frozen=True, slots=True)
class Connected:
    """The connections of an environment: stores that are open already."""

    stores: Mapping[str, Store]
    given: Settings
    letters: LetterSink

    async def store(self, region: str) -> Store:
        """Return the store of a region."""
        return self.stores[region]

    async def settings(self, region: str) -> Settings:
        """Return the settings, the same in each region."""
        del region
        return self.given

    async def following(self, region: str, lane: str, position: str) -> str | None:
        """Find nothing: the shard is not looked at."""
        del region, lane, position
        return None

    async def dead_letters(self, region: str) -> LetterSink:
        """Return the file that stands for the queue."""
        del region
        return self.letters


@dataclass(slots=True)
class ShardOfEvents:
    """Hands the records of a source to the function, event by event, each until it is through.

    `on_counted` is called with the position of each event's last record; `failed` counts the
    invocations that failed, or left records to come again.
    """

    lane: str
    region: str
    connected: Connected
    clock: Clock
    randomness: Random
    metrics: PipelineMetrics
    on_counted: Callable[[str], None]
    failed: int = 0
    _environment: Invocations = field(init=False)

    def __post_init__(self) -> None:
        self._environment = self._made()

    async def run(self, source: Source, *, most: int) -> None:
        """Hand in all records, up to `most` in an event.

        Raises:
            LedgerError: an event was not through after `TRIES_MAX` invocations.
        """
        async with aclosing(source.batches("", most=most)) as batches:
            async for deliveries in batches:
                await self._hand_in(deliveries)
                self.on_counted(deliveries[-1].position)

    async def _hand_in(self, deliveries: Sequence[Delivery]) -> None:
        left = [self._record(delivery) for delivery in deliveries]
        for _ in range(TRIES_MAX):
            try:
                answer = await self._environment.answer({"Records": left}, seconds=TIMEOUT_SECONDS)
            except (Crashed, LedgerError):
                self._end()
                continue
            if not answer.again:
                return
            left = left[-answer.again :]
            self._end()
        raise LedgerError(f"lane {self.lane}: an event failed in {TRIES_MAX} invocations")

    def _end(self) -> None:
        """Count an invocation that failed; its environment ends with it."""
        self.failed += 1
        self._environment = self._made()

    def _made(self) -> Invocations:
        return Invocations(
            self.connected.given,
            self.connected,
            services=Services.of(clock=self.clock, randomness=self.randomness),
            metrics=self.metrics,
        )

    def _record(self, delivery: Delivery) -> dict[str, Any]:
        """Return a record as Lambda has it; the sequence number is the place in the file."""
        number = str(place_of(delivery.position))
        return {
            "kinesis": {
                "sequenceNumber": number,
                "data": base64.b64encode(delivery.raw).decode(),
                "approximateArrivalTimestamp": self.clock.now().timestamp(),
            },
            "eventSource": "aws:kinesis",
            "eventID": f"{self.lane}:{number}",
            "eventSourceARN": f"arn:aws:kinesis:{self.region}:{ACCOUNT}:stream/{STREAM}",
        }


def lane_of_shard(name: str) -> str:
    """Return the lane of a shard, by the name that its events give it."""
    return f"{STREAM}/{name}"
