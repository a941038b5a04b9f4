"""The model: a global table in virtual time, of which every figure replays from the seed.

It runs the production methods over the simulator's regions, on a loop that never really waits.
Documented by AWS: a partition takes 1,000 write units per second and throttles beyond that; a write
to an item that is part of another transaction is in conflict; the store repeats both, as the real
one does. Assumed: a request travels 1 to 4 ms each way, sometimes 30 ms; a transaction holds its
items for 6 ms; there is no burst capacity, and partitions are not split. Read shapes and ratios,
not milliseconds.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import permutations
from random import Random

import anyio
from prometheus_client import CollectorRegistry
from proof.simulator.clocks import START
from proof.simulator.randomness import stream
from proof.simulator.world import Lag, World, WorldFacts

from ledger.core.capacity import item_size, write_units
from ledger.core.entry import Key, key_of
from ledger.core.errors import SignedTooLate, StoreError, Throttled
from ledger.core.keys import EXPIRES
from ledger.demo.harness.options import REGIONS
from ledger.runtime.metrics import Metrics
from ledger.store.port import Store
from ledger.store.retrier import Retrier
from ledger.store.wrappers.forwarder import Answer, ForwardingStore, Operation
from ledger.store.wrappers.meter import MeteredStore
from ledger.store.writes import (
    Action,
    BatchOutcome,
    BatchWrite,
    EachOutcome,
    Outcome,
    Put,
    Write,
    placed,
    signed_by,
)
from ledger.testing.replicas import Replica

TRIP_SECONDS = (0.001, 0.004)
SLOW_SHARE, SLOW_SECONDS = 0.01, 0.03
TRANSACTION_SECONDS = 0.006
PARTITION_UNITS_PER_SECOND = 1000.0
PARTITION_UNITS_AT_ONCE = 20.0
"""A larger write is taken where so many are left, and the partition takes nothing until it has come
in.
"""
LAG = Lag(usual_seconds=0.25, late_share=0.0)
POLLS_MAX = 1000
TOO_LATE = "signed too late, so it was not sent"


class VirtualClock:
    """The clock of every process in the model."""

    def now(self) -> datetime:
        """Return the time of day."""
        return START + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        """Return seconds of virtual time."""
        return anyio.current_time()

    async def sleep(self, seconds: float) -> None:
        """Advance the clock by this much."""
        await anyio.sleep(seconds)


@dataclass(slots=True)
class Service:
    """What DynamoDB does before it carries a write out: throttle it, or find it in conflict."""

    _left: dict[str, tuple[float, float]] = field(default_factory=dict)
    _held_until: dict[Key, float] = field(default_factory=dict)

    def admit(self, costs: Sequence[tuple[Key, int]], now: float, held_seconds: float) -> str:
        """Return why a write of these items cannot be carried out now, nothing if it can.

        Its items are then held for so long.
        """
        if any(self._held_until.get(key, 0) > now for key, _ in costs):
            return "conflict"
        for key, units in costs:
            if self._units_left(key[0], now) < min(units, PARTITION_UNITS_AT_ONCE):
                return "throttled"
        for key, units in costs:
            self._left[key[0]] = self._units_left(key[0], now) - units, now
            if held_seconds:
                self._held_until[key] = now + held_seconds
        return ""

    def _units_left(self, partition: str, now: float) -> float:
        left, since = self._left.get(partition, (PARTITION_UNITS_AT_ONCE, now))
        return min(PARTITION_UNITS_AT_ONCE, left + (now - since) * PARTITION_UNITS_PER_SECOND)


class ModelStore(ForwardingStore):
    """A `Store` over one region of the model."""

    def __init__(self, replica: Replica, *, metrics: Metrics, randomness: Random) -> None:
        super().__init__(replica)
        self._replica = replica
        self._service = Service()
        self._random = randomness
        self._clock = VirtualClock()
        self._retrier = Retrier(
            clock=self._clock,
            randomness=randomness,
            budget=replica.retry_budget,
            on_retry=lambda operation, cause: metrics.retry(self.region, operation, cause),
        )

    async def write(self, write: Write) -> Outcome:
        """Do one conditional write."""
        return await self._send([write], lambda: self._replica.write(write))

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Do a transaction, which holds its items for a while."""
        serve = lambda: self._replica.transact(actions, token=token)  # noqa: E731 (one line)
        return await self._send(actions, serve, held_seconds=TRANSACTION_SECONDS)

    async def write_batch(self, writes: Sequence[BatchWrite]) -> BatchOutcome:
        """Do a batch: what its partitions do not take is sent again, within the bound."""
        left = list(range(len(writes)))
        async for taken in self._taken(writes, left):
            await self._replica.write_batch([writes[place] for place in taken])
        if len(left) == len(writes):
            raise Throttled(f"{self.region}: still throttled")
        return BatchOutcome(tuple(left), (), "still throttled" if left else "")

    async def write_each(self, writes: Sequence[Write]) -> EachOutcome:
        """Do several conditional writes, each on its own, as a batch."""
        left, outcomes = list(range(len(writes))), dict[int, Outcome | StoreError]()
        async for taken in self._taken(writes, left):
            answer = await self._replica.write_each([writes[place] for place in taken])
            outcomes.update(zip(taken, answer.outcomes, strict=True))
        outcomes.update((place, Throttled(f"{self.region}: still throttled")) for place in left)
        return EachOutcome(tuple(outcomes[place] for place in range(len(writes))))

    async def _taken(self, writes: Sequence[Write], left: list[int]) -> AsyncIterator[list[int]]:
        """Yield the places of writes that partitions take, try by try, and take them out of `left`.

        Those that no partition took stay in it.
        """
        latest, tries = signed_by(writes), self._retrier.begin("batch")
        while left:
            self._check_signed(latest)
            await self._trip()
            now = self._clock.monotonic()
            taken = [
                place
                for place in left
                if not self._service.admit([self._cost(writes[place])], now, 0.0)
            ]
            left[:] = [place for place in left if place not in taken]
            if taken:
                yield taken
            await self._trip()
            if left and not await tries.again("throttled", throttled=True):
                return
        tries.succeeded()

    async def _send(
        self,
        actions: Sequence[Action],
        serve: Callable[[], Awaitable[Outcome]],
        *,
        held_seconds: float = 0.0,
    ) -> Outcome:
        """Send a write, again as long as it is throttled or in conflict, within the bound."""
        latest, operation = signed_by(actions), "transaction" if held_seconds else "write"
        tries = self._retrier.begin(operation)
        while True:
            self._check_signed(latest)
            await self._trip()
            costs = [self._cost(action, is_transaction=held_seconds > 0) for action in actions]
            cause = self._service.admit(costs, self._clock.monotonic(), held_seconds)
            if not cause:
                await self._clock.sleep(held_seconds)
                answer = await self._answer(serve())
                tries.succeeded()
                return answer
            await self._trip()
            if not await tries.again(cause, throttled=cause == "throttled"):
                raise Throttled(f"{self.region}: still {cause} after {tries.requests} tries")

    def _check_signed(self, latest: datetime | None) -> None:
        if latest is not None and self._clock.now() > latest:
            raise SignedTooLate(TOO_LATE)

    def _cost(self, action: Action, *, is_transaction: bool = False) -> tuple[Key, int]:
        name, action = placed(action)
        there = self._replica.table.named(name).get(action.key) or {}
        size = max(item_size(there), item_size(action.item) if isinstance(action, Put) else 0)
        return action.key, write_units(size, transactional=is_transaction)

    async def _carry(self, operation: Operation, send: Callable[[], Awaitable[Answer]]) -> Answer:
        """Carry a request there and its answer back."""
        del operation
        await self._trip()
        return await self._answer(send())

    async def _answer(self, serving: Awaitable[Answer]) -> Answer:
        """Carry a request out and bring its answer back."""
        answer = await serving
        await self._trip()
        return answer

    async def _trip(self) -> None:
        draw = self._random
        most = SLOW_SECONDS if draw.random() < SLOW_SHARE else TRIP_SECONDS[1]
        await self._clock.sleep(draw.uniform(TRIP_SECONDS[0], most))


@dataclass(frozen=True, slots=True)
class Model:
    """A global table in virtual time: metered stores by region, home first."""

    world: World
    stores: Mapping[str, Store]
    clock: VirtualClock
    registry: CollectorRegistry

    def cut(self) -> None:
        """Hold everything between all regions."""
        for source, target in permutations(self.stores, 2):
            self.world.pause(source, target)

    async def heal(self) -> None:
        """Heal all links, and wait until everything has been applied everywhere."""
        for source, target in permutations(self.stores, 2):
            self.world.heal(source, target)
        for _ in range(POLLS_MAX):
            if not self.world.in_flight:
                return
            await self.clock.sleep(LAG.usual_seconds)
        raise AssertionError(f"replication is not finished after {POLLS_MAX} polls")

    def expire(self) -> None:
        """Delete every item whose time to live has passed."""
        now = self.clock.now().timestamp()
        for replica in self.world.replicas.values():
            for item in list(replica.table.items()):
                if EXPIRES in item and float(item[EXPIRES]["N"]) < now:
                    replica.table.set(key_of(item), None)


@asynccontextmanager
async def open_model(regions: int, seed: int) -> AsyncIterator[Model]:
    """Make a model of so many regions from a seed; it needs the virtual loop to run on."""
    names, registry, clock = REGIONS[:regions], CollectorRegistry(), VirtualClock()
    metrics = Metrics.of(registry)
    world = World(
        names,
        loop=asyncio.get_running_loop(),
        randomness=stream(seed, "world"),
        facts=WorldFacts(LAG),
        clock=clock,
    )

    def store(region: str) -> MeteredStore:
        draws = stream(seed, f"trips {region}")
        inner = ModelStore(world.replicas[region], metrics=metrics, randomness=draws)
        return MeteredStore(inner, metrics=metrics, clock=clock)

    yield Model(world, {region: store(region) for region in names}, clock, registry)
