"""The store port for one process and one region of the world, with faults on its requests.

A request is signed when its call begins, after any stall before it, then served at a later moment
and answered at a third; one that would be signed later than its writes allow is not sent. It is
served whether or not its process is still alive or waiting. Writes and their answers can be lost,
and a write can land late, at any moment at which the world still takes its signature for valid.
What DynamoDB's store retries by itself (throttling, conflicts, connections never made) appears here
as its effect: a delay before the request, or the error after the last try.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from ledger.core.clock_offset import ClockOffset, MeasuredOffset, measured
from ledger.core.entry import Item
from ledger.core.errors import (
    LedgerError,
    SignedTooLate,
    StoreError,
    TableMissing,
    Throttled,
    Unreachable,
)
from ledger.core.keys import BUDGET_PREFIX, NET_PREFIX
from ledger.runtime.validity import check_validity, has_validity
from ledger.store.memory import MemoryStore
from ledger.store.reads import FoundItems, Get, Page, Query, Scan, checked_gets
from ledger.store.retry import RetryBudget
from ledger.store.writes import (
    Action,
    BatchOutcome,
    BatchWrite,
    EachOutcome,
    Outcome,
    Put,
    Rejected,
    Unknown,
    Write,
    signed_by,
)
from proof.simulator.clocks import START
from proof.simulator.process import Process

Answer = TypeVar("Answer")

WORK_STEPS = 15
"""How much likelier a process is to fail in the middle of its work (between two pages of a Query,
before a write) than at any other step; most steps are idle ones."""
TOO_LATE = "signed too late, so it was not sent"
SCAN_PAGE_ITEMS_MAX = 40
"""Pages of a Scan are larger than those of a Query: a collection that is cut is visited twice."""
_FATES = ("ok", "ok", "ok", "unprocessed", "lost", "late", "never arrived")
"""Of the parts of a scattered request."""
EACH_SCATTERED_TIMES = 8
"""How much likelier a request of several conditional writes is scattered: there are fewer."""
READS_REPEATED_SHARE = 0.8
"""The share of reads with a fault that succeed in the end, since stores repeat reads."""


@dataclass(frozen=True, slots=True)
class FaultProfile:
    """The shares of requests that meet each fault; by default none does.

    A request takes up to `trip_seconds` each way; a share of `slow` takes up to `slow_seconds`. In
    a share of `scattered` batches each write has a fate of its own. A share of `late_transactions`,
    and of folds, lands late, in addition to those that are `late` as any write may be.
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


NO_FAULTS = FaultProfile()


class SimStore:
    """The `Store` of one process over one replica."""

    def __init__(self, process: Process, region: str, faults: FaultProfile) -> None:
        self.region = region
        self.retry_budget = RetryBudget()
        self._process = process
        self._world = process.world
        self._loop = process.world.loop
        self._random = process.random
        self._replica = process.world.replicas[region]
        self._faults = faults
        self._measured: MeasuredOffset | None = None

    @property
    def clock_offset(self) -> ClockOffset | None:
        """What the answers so far tell of the process's clock."""
        return None if self._measured is None else self._measured.offset

    def _measure(self, *, sent: float, served: float) -> None:
        """Look at an answer's `Date`: the right time at which it was served, in whole seconds."""
        self._measured = measured(
            self._measured,
            sent=self._process.clock.wall(sent),
            answered=self._process.clock.wall(self._process.local),
            date=(START + timedelta(seconds=served)).replace(microsecond=0),
        )

    async def write(self, write: Write) -> Outcome:
        """Do one conditional write."""
        await self._begin(WORK_STEPS, is_entry=_is_entry(write))
        await self._check_cool(write.key[0])
        self._check_signed([write])

        def serve() -> Outcome:
            return done(self._replica.write(write))

        return await (self._held_up(serve) if _is_net(write) else self._answered(serve))

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Do up to 100 actions, all or none."""
        await self._begin(WORK_STEPS)
        await self._check_cool(*(action.key[0] for action in actions))
        self._check_signed(actions)

        def serve() -> Outcome:
            return done(self._replica.transact(actions, token=token))

        return await self._held_up(serve)

    async def _held_up(self, serve: Callable[[], Outcome]) -> Outcome:
        """Send a transaction, or a fold; a share of them lands late."""
        if not self._world.is_healed and self._random.random() < self._faults.late_transactions:
            return await self._unanswered(serve, Unknown("no answer"), "late")
        return await self._answered(serve)

    async def _answered(self, serve: Callable[[], Outcome]) -> Outcome:
        return await self._request(serve, Unknown("no answer"))

    async def write_batch(self, writes: Sequence[BatchWrite]) -> BatchOutcome:
        """Do up to 25 unconditional writes; sometimes each has a fate of its own."""
        await self._begin(WORK_STEPS)
        self._check_signed(writes)
        scattered = not self._world.is_healed and self._random.random() < self._faults.scattered
        if not scattered:
            unknown = BatchOutcome(unknown=tuple(range(len(writes))), cause="no answer")
            return await self._request(lambda: done(self._replica.write_batch(writes)), unknown)
        return await self._scatter(writes)

    async def write_each(self, writes: Sequence[Write]) -> EachOutcome:
        """Do up to 25 conditional writes; sometimes each has a fate of its own."""
        await self._begin(WORK_STEPS, is_entry=any(map(_is_entry, writes)))
        self._check_signed(writes)
        faults = self._faults
        share = faults.scattered * EACH_SCATTERED_TIMES
        if share and not self._world.is_healed and self._random.random() < share:
            return await self._scatter_each(writes)
        unknown = EachOutcome((Unknown("no answer"),) * len(writes))
        return await self._request(lambda: done(self._replica.write_each(writes)), unknown)

    async def get(self, get: Get) -> Item | None:
        """Read one item."""

        def serve() -> Item | None:
            return done(self._source(get.key[0], consistent=get.consistent).get(get))

        await self._begin()
        await self._check_cool(get.key[0])
        return await self._request(serve, None)

    async def get_each(self, gets: Sequence[Get]) -> FoundItems:
        """Read several items."""

        def serve() -> FoundItems:
            checked_gets(gets)
            sources = [self._source(get.key[0], consistent=get.consistent) for get in gets]
            pairs = zip(sources, gets, strict=True)
            return FoundItems([done(source.get(get)) for source, get in pairs])

        await self._begin(WORK_STEPS)
        return await self._request(serve, None)

    async def query(self, query: Query) -> Page:
        """Read one page of a partition, as it is or, eventually consistent, as it was."""

        def serve() -> Page:
            return done(self._source(query.partition, consistent=query.consistent).query(query))

        await self._begin(WORK_STEPS if query.after else 1)
        await self._check_cool(query.partition)
        return await self._request(serve, None)

    async def scan(self, scan: Scan) -> Page:
        """Read one page of one segment."""
        table = self._replica.table
        source = MemoryStore(self.region, table, page_items_max=SCAN_PAGE_ITEMS_MAX)
        await self._begin()
        return await self._request(lambda: done(source.scan(scan)), None)

    async def replicas(self) -> dict[str, str] | None:
        """Describe the other replicas; nothing where none is lost: those of the settings are."""
        if self._world.described(self.region) is None:
            return None
        await self._begin()
        return await self._request(lambda: self._world.described(self.region), None)

    async def close(self) -> None:
        """Do nothing: there is nothing to release."""

    async def _begin(self, weight: int = 1, *, is_entry: bool = False) -> None:
        """Begin a request, which is signed once the process is awake.

        Raises:
            ContractStale: the validity around it has ended; nothing is sent.
        """
        await self._process.begin(weight, is_entry=is_entry)
        if has_validity():
            check_validity(self._process.clock.wall(self._loop.time()))

    async def _check_cool(self, *partitions: str) -> None:
        """Throttle requests of control items while the region does so."""
        if self.region in self._world.hot and any(
            partition.startswith(BUDGET_PREFIX) for partition in partitions
        ):
            await self._process.until(self._loop.time() + self._faults.trip_seconds)
            raise self._error("throttled")

    def _check_signed(self, actions: Sequence[Action]) -> None:
        """Check that a request of these may be signed now, by the process's clock.

        Raises:
            SignedTooLate: nothing is sent.
        """
        limit = signed_by(actions)
        if limit is not None and self._process.clock.wall(self._loop.time()) > limit:
            raise SignedTooLate(TOO_LATE)

    def _expires(self) -> float:
        """Return when the signature of a request that is signed now expires.

        The world judges it by the right time, and it bears that of the process's clock.
        """
        now = self._loop.time()
        signed = (self._process.clock.wall(now) - START).total_seconds()
        return max(now, signed + self._world.signature_seconds)

    async def _request(self, serve: Callable[[], Answer], unknown: Answer | None) -> Answer:
        """Send one request and wait for its answer; without an `unknown` answer it is a read."""
        now = self._loop.time()
        answer: asyncio.Future[Answer] = self._loop.create_future()
        there, back = self._trips()
        fate = "ok" if self._world.is_healed else self._fate()
        if unknown is None and fate != "ok" and self._random.random() < READS_REPEATED_SHARE:
            fate, there = "ok", there + self._faults.timeout_seconds * self._random.random()
        if self._world.is_down(self.region):
            fate = "unreachable" if unknown is None or fate == "ok" else "never arrived"
        if fate == "ok":
            lost = self._error("unreachable") if unknown is None else unknown
            self._loop.call_at(now + there, self._serve, serve, answer, back, lost)
            result = await answer
            self._measure(sent=now, served=now + there)
            return result
        if unknown is None or fate in {"throttled", "unreachable"}:
            self._process.wake_at(now + there + back, answer, self._error(fate))
            return await answer
        return await self._unanswered(serve, unknown, fate)

    async def _unanswered(self, serve: Callable[[], Answer], unknown: Answer, fate: str) -> Answer:
        """Send a write that gets no answer; whether and when it lands is its fate."""
        now = self._loop.time()
        silence: asyncio.Future[Answer] = self._loop.create_future()
        self._process.wake_at(now + self._faults.timeout_seconds, silence, unknown)
        self._fly(fate, now + self._random.random() * self._faults.timeout_seconds, serve)
        return await silence

    def _fly(self, fate: str, served: float, serve: Callable[[], object]) -> None:
        """Decide whether a write without an answer lands."""
        if fate == "late":
            # The later of two draws: what is nearly too late matters most.
            share = max(self._random.random(), self._random.random())
            served += share * (self._expires() - served)
        if fate != "never arrived":
            self._loop.call_at(served, self._land, serve, fate)
        if fate != "ok":
            self._world.note(lambda: f"{self._process.name} gets no answer to a write ({fate})")

    def _land(self, serve: Callable[[], object], fate: str) -> None:
        self._world.steps += 1
        if not self._world.is_over and self.region not in self._world.lost:
            self._world.note(lambda: f"{self._process.name}'s unanswered write lands ({fate})")
            serve()

    def _serve(
        self,
        serve: Callable[[], object],
        answer: "asyncio.Future[Any]",
        back: float,
        lost: object,
    ) -> None:
        self._world.steps += 1
        try:
            result = lost if self.region in self._world.lost else serve()
        except LedgerError as error:
            result = error
        self._process.wake_at(self._loop.time() + back, answer, result)

    async def _scatter(self, writes: Sequence[BatchWrite]) -> BatchOutcome:
        """Give each write of a batch a fate of its own."""
        now, draw = self._loop.time(), self._random
        unprocessed, unknown = [], []
        for place, write in enumerate(writes):
            fate = draw.choice(_FATES)
            if fate == "unprocessed":
                unprocessed.append(place)
                continue
            if fate != "ok":
                unknown.append(place)
            self._fly(
                fate,
                now + draw.random() * self._faults.timeout_seconds,
                lambda write=write: done(self._replica.write(write)),  # type: ignore[misc]
            )
        answer: asyncio.Future[BatchOutcome] = self._loop.create_future()
        outcome = BatchOutcome(tuple(unprocessed), tuple(unknown), cause="a batch in parts")
        self._process.wake_at(now + self._faults.timeout_seconds, answer, outcome)
        return await answer

    async def _scatter_each(self, writes: Sequence[Write]) -> EachOutcome:
        """Give each of several conditional writes a fate of its own."""
        now, timeout = self._loop.time(), self._faults.timeout_seconds
        known: dict[int, Outcome | StoreError] = {}
        for place, write in enumerate(writes):
            fate = self._random.choice(_FATES)
            if fate == "unprocessed":
                known[place] = Throttled(f"{self.region}: still throttled after every try")
                continue
            self._fly(
                fate,
                now + self._random.random() * timeout,
                partial(self._serve_one, write, place, known if fate == "ok" else {}),
            )
        silence: asyncio.Future[None] = self._loop.create_future()
        self._process.wake_at(now + timeout, silence, None)
        await silence
        places = range(len(writes))
        return EachOutcome(tuple(known.get(place, Unknown("no answer")) for place in places))

    def _serve_one(self, write: Write, place: int, known: dict[int, Outcome | StoreError]) -> None:
        outcome = done(self._replica.write(write))
        # Beside others a put does not get back what is in its way.
        known[place] = Rejected() if isinstance(outcome, Rejected) else outcome

    def _trips(self) -> tuple[float, float]:
        draw, faults = self._random, self._faults
        slow = not self._world.is_healed and draw.random() < faults.slow
        most = faults.slow_seconds if slow else faults.trip_seconds
        return draw.random() * most, draw.random() * most

    def _fate(self) -> str:
        faults, point = self._faults, self._random.random()
        for fate, share in (
            ("lost", faults.lost),
            ("never arrived", faults.never_arrived),
            ("late", faults.late),
            ("throttled", faults.throttled),
            ("unreachable", faults.unreachable),
        ):
            if point < share:
                return fate
            point -= share
        return "ok"

    def _error(self, fate: str) -> LedgerError:
        if fate == "throttled":
            return Throttled(f"{self.region}: still throttled, or in conflict, after every try")
        if self._world.is_missing(self.region):
            return TableMissing(f"{self.region}: the table is not in this region")
        return Unreachable(f"{self.region}: no connection")

    def _source(self, partition: str, *, consistent: bool) -> MemoryStore:
        """Return what a read is served from: the replica, or a past state of it."""
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


def _is_entry(write: Write) -> bool:
    return isinstance(write, Put) and "change" in write.item and not _is_net(write)


def _is_net(write: Write) -> bool:
    return isinstance(write, Put) and write.item["sk"]["S"].startswith(NET_PREFIX)


def done(coroutine: Coroutine[Any, Any, Answer]) -> Answer:
    """Return the result of a coroutine that never suspends, such as one of a store in memory."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: Answer = stop.value
        return result
    raise AssertionError("a store in memory waited for something")
