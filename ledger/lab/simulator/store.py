"""The store port for one process and one region of the world, and all that can go wrong with it.

A request is signed when its call begins, after any stall before it, served at a moment of its own
and answered at a third; one that would be signed later than its writes allow is not sent.
Whether the process still lives, or waits, by then is nothing to the request. Writes can be lost on
the way, their answers can be lost, and they can land late, within `signature_lifetime` of being
signed. What DynamoDB's store repeats by itself (throttling, conflicts, connections never made)
appears here as what remains of it: a delay before the request, or the error after its last try.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ledger.core.entry import Item, Key
from ledger.core.errors import LedgerError, Throttled, Unreachable
from ledger.lab.simulator.process import Process
from ledger.store.memory import MemoryStore
from ledger.store.port import (
    Action,
    BatchOutcome,
    BatchWrite,
    Outcome,
    Page,
    Unknown,
    Write,
    signed_by,
)

Answer = TypeVar("Answer")

WORK_STEPS = 15
"""A process is so much likelier to crash or stall in the midst of its work (between two pages of a
Query, before a write) than at any other step, of which idle ones make the most."""
TOO_LATE = "signed too late, so it was not sent"
SCAN_PAGE_ITEMS_MAX = 40
"""Pages of a Scan are larger than those of a Query: cut collections are searched twice at worst."""
READS_REPEATED_SHARE = 0.8
"""Of the reads that meet a fault so many are answered in the end, since stores repeat reads."""


@dataclass(frozen=True, slots=True)
class Weather:
    """How requests fare, as shares of them; in a calm world all go well.

    `trip_seconds` is the usual longest way there, and back; a share of `slow` takes up to
    `slow_seconds` each way. Of the writes of a batch each can have a fate of its own (`scattered`);
    `late_transactions` land late besides those that do as any write.
    """

    trip_seconds: float = 0.05
    slow: float = 0.0
    slow_seconds: float = 4.0
    lost: float = 0.0
    never_arrived: float = 0.0
    late: float = 0.0
    throttled: float = 0.0
    unreachable: float = 0.0
    scattered: float = 0.0
    late_transactions: float = 0.0
    timeout_seconds: float = 5.0
    signature_lifetime_seconds: float = 300.0


class SimStore:
    """A `Store` over one replica, as one process reaches it."""

    def __init__(self, process: Process, region: str, weather: Weather) -> None:
        self.region = region
        self._process = process
        self._world = process.world
        self._loop = process.world.loop
        self._random = process.random
        self._replica = process.world.replicas[region]
        self._weather = weather

    async def write(self, write: Write) -> Outcome:
        """Do one conditional write."""
        await self._process.begin(WORK_STEPS)
        if self._is_late([write]):
            return Unknown(TOO_LATE)
        return await self._request(lambda: done(self._replica.write(write)), Unknown("no answer"))

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Do up to 100 actions, all or none."""
        await self._process.begin(WORK_STEPS)
        if self._is_late(actions):
            return Unknown(TOO_LATE)

        def serve() -> Outcome:
            return done(self._replica.transact(actions, token=token))

        if not self._world.is_calm and self._random.random() < self._weather.late_transactions:
            return await self._unanswered(serve, Unknown("no answer"), "late")
        return await self._request(serve, Unknown("no answer"))

    async def write_batch(self, writes: Sequence[BatchWrite]) -> BatchOutcome:
        """Do up to 25 unconditional writes; now and then each has a fate of its own."""
        await self._process.begin(WORK_STEPS)
        if self._is_late(writes):
            return BatchOutcome(unknown=tuple(range(len(writes))), cause=TOO_LATE)
        scattered = not self._world.is_calm and self._random.random() < self._weather.scattered
        if not scattered:
            unknown = BatchOutcome(unknown=tuple(range(len(writes))), cause="no answer")
            return await self._request(lambda: done(self._replica.write_batch(writes)), unknown)
        return await self._scatter(writes)

    async def get(self, key: Key, *, consistent: bool = True) -> Item | None:
        """Read one item."""

        def serve() -> Item | None:
            return done(self._source(key[0], consistent=consistent).get(key))

        await self._process.begin()
        return await self._request(serve, None)

    async def query(
        self,
        partition: str,
        *,
        consistent: bool = True,
        after: Key | None = None,
        first: str | None = None,
        last: str | None = None,
        attributes: Sequence[str] = (),
        limit: int | None = None,
        descending: bool = False,
    ) -> Page:
        """Read one page of a partition, as it is, or as it was a moment ago."""

        def serve() -> Page:
            source = self._source(partition, consistent=consistent)
            return done(
                source.query(
                    partition,
                    consistent=consistent,  # for its price: the source is as old as it may be
                    after=after,
                    first=first,
                    last=last,
                    attributes=attributes,
                    limit=limit,
                    descending=descending,
                )
            )

        await self._process.begin(WORK_STEPS if after else 1)
        return await self._request(serve, None)

    async def scan(
        self,
        *,
        segment: int = 0,
        segments: int = 1,
        after: Key | None = None,
        attributes: Sequence[str] = (),
        limit: int | None = None,
    ) -> Page:
        """Read one page of one segment."""
        table = self._replica.table
        source = MemoryStore(self.region, table, page_items_max=SCAN_PAGE_ITEMS_MAX)

        def serve() -> Page:
            return done(
                source.scan(
                    segment=segment,
                    segments=segments,
                    after=after,
                    attributes=attributes,
                    limit=limit,
                )
            )

        await self._process.begin()
        return await self._request(serve, None)

    async def close(self) -> None:
        """Nothing to give back."""

    def _is_late(self, actions: Sequence[Action]) -> bool:
        """Tell whether a request of these, signed now by the process's clock, would be too late."""
        limit = signed_by(actions)
        return limit is not None and self._process.clock.wall(self._loop.time()) > limit

    async def _request(self, serve: Callable[[], Answer], unknown: Answer | None) -> Answer:
        """Send one request and wait for its answer; without an `unknown` one it is a read."""
        now = self._loop.time()
        answer: asyncio.Future[Answer] = self._loop.create_future()
        there, back = self._trips()
        fate = "ok" if self._world.is_calm else self._fate()
        if unknown is None and fate != "ok" and self._random.random() < READS_REPEATED_SHARE:
            fate, there = "ok", there + self._weather.timeout_seconds * self._random.random()
        if self.region in self._world.down:
            fate = "unreachable" if unknown is None or fate == "ok" else "never arrived"
        if fate == "ok":
            self._loop.call_at(now + there, self._serve, serve, answer, back)
        elif unknown is None or fate in {"throttled", "unreachable"}:
            self._process.wake_at(now + there + back, answer, self._error(fate))
        else:
            return await self._unanswered(serve, unknown, fate)
        return await answer

    async def _unanswered(self, serve: Callable[[], Answer], unknown: Answer, fate: str) -> Answer:
        """Let a write go without an answer; whether and when it lands is its fate."""
        now = self._loop.time()
        silence: asyncio.Future[Answer] = self._loop.create_future()
        self._process.wake_at(now + self._weather.timeout_seconds, silence, unknown)
        self._fly(fate, now + self._random.random() * self._weather.timeout_seconds, serve)
        return await silence

    def _fly(self, fate: str, served: float, serve: Callable[[], object]) -> None:
        """Let a write whose answer nobody gets land, or not."""
        if fate == "late":
            served += self._random.random() * (self._weather.signature_lifetime_seconds - 15.0)
        if fate != "never arrived":
            self._loop.call_at(served, self._land, serve, fate)
        if fate != "ok":
            self._world.note(lambda: f"{self._process.name} hears nothing of a write ({fate})")

    def _land(self, serve: Callable[[], object], fate: str) -> None:
        self._world.steps += 1
        if not self._world.is_over:
            self._world.note(lambda: f"{self._process.name}'s unanswered write lands ({fate})")
            serve()

    def _serve(
        self, serve: Callable[[], object], answer: "asyncio.Future[Any]", back: float
    ) -> None:
        self._world.steps += 1
        try:
            result = serve()
        except LedgerError as error:
            result = error
        self._process.wake_at(self._loop.time() + back, answer, result)

    async def _scatter(self, writes: Sequence[BatchWrite]) -> BatchOutcome:
        """Give each write of a batch a fate of its own."""
        now, draw = self._loop.time(), self._random
        unprocessed, unknown = [], []
        for place, write in enumerate(writes):
            fate = draw.choice(("ok", "ok", "ok", "unprocessed", "lost", "late", "never arrived"))
            if fate == "unprocessed":
                unprocessed.append(place)
                continue
            if fate != "ok":
                unknown.append(place)
            self._fly(
                fate,
                now + draw.random() * self._weather.timeout_seconds,
                lambda write=write: done(self._replica.write(write)),  # type: ignore[misc]
            )
        answer: asyncio.Future[BatchOutcome] = self._loop.create_future()
        outcome = BatchOutcome(tuple(unprocessed), tuple(unknown), cause="a batch in parts")
        self._process.wake_at(now + self._weather.timeout_seconds, answer, outcome)
        return await answer

    def _trips(self) -> tuple[float, float]:
        draw, weather = self._random, self._weather
        slow = not self._world.is_calm and draw.random() < weather.slow
        most = weather.slow_seconds if slow else weather.trip_seconds
        return draw.random() * most, draw.random() * most

    def _fate(self) -> str:
        weather, point = self._weather, self._random.random()
        for fate, share in (
            ("lost", weather.lost),
            ("never arrived", weather.never_arrived),
            ("late", weather.late),
            ("throttled", weather.throttled),
            ("unreachable", weather.unreachable),
        ):
            if point < share:
                return fate
            point -= share
        return "ok"

    def _error(self, fate: str) -> LedgerError:
        if fate == "throttled":
            return Throttled(f"{self.region}: still throttled, or in conflict, after every try")
        return Unreachable(f"{self.region}: no connection")

    def _source(self, partition: str, *, consistent: bool) -> MemoryStore:
        """Return what a read is served from: the replica, or a past of it."""
        world, staleness = self._world, self._world.staleness
        if consistent or staleness <= 0:
            return self._replica
        now, draw = self._loop.time(), self._random
        oldest = now - draw.random() * staleness
        if draw.random() < 0.5:  # noqa: PLR2004 (a coin): the whole page from one moment

            def moment() -> float:
                return oldest
        else:  # or each item from one of its own

            def moment() -> float:
                return draw.uniform(oldest, now)

        table = world.table_at(self.region, partition, moment)
        return MemoryStore(self.region, table, page_items_max=self._replica.page_items_max)


def done(coroutine: Coroutine[Any, Any, Answer]) -> Answer:
    """Return the result of a coroutine that waits for nothing, such as a store in memory."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: Answer = stop.value
        return result
    raise AssertionError("a store in memory waited for something")
