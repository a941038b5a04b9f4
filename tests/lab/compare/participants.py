"""The clients of one counter: what they send, which answers they lose, which they get."""

from collections import Counter as Tally
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from operator import sub
from random import Random
from types import TracebackType
from typing import NamedTuple, Self

import anyio
from anyio.abc import TaskGroup
from proof.simulator.randomness import stream

from lab.compare.figures import LEDGER_COMBINED
from lab.compare.ways import WAYS, combined_counter
from lab.harness.latency import LatencyRecorder
from lab.harness.model import Model
from ledger.core.errors import StoreError
from ledger.demo.harness.table import TestTable
from ledger.primitives.counters import Counter, new_token
from ledger.runtime.clock import Clock
from ledger.runtime.metrics import summed
from ledger.runtime.services import Services
from ledger.runtime.tasks import run_all
from ledger.store.wrappers.faults import Fault, FaultCall, FaultyStore, Lost, NeverArrived
from ledger.store.wrappers.forwarder import READS
from ledger.store.writes import Applied, Outcome

ComparedTable = TestTable | Model
"""A global table: metered stores by region, home first; `registry` has their meters."""

APPLIED_SHARE = 0.5
"""Share of the writes without an answer that are applied: only their answer was lost."""


class AnswerLoss:
    """Lets a share of one client's writes go without an answer, decided by its own draws alone."""

    def __init__(self, randomness: Random, share: float) -> None:
        self.writes = 0
        self._random = randomness
        self._share = share

    def __call__(self, call: FaultCall) -> Fault | None:
        """Return the fault of a call, if any; reads have none."""
        if call.operation in READS:
            return None
        self.writes += 1
        is_lost, is_applied = self._random.random(), self._random.random()
        if is_lost >= self._share:
            return None
        return Lost() if is_applied < APPLIED_SHARE else NeverArrived()


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers that callers got by kind, None for an error of the store, and their latencies."""

    counts: Tally[type[Outcome] | None] = field(default_factory=Tally)
    latencies: LatencyRecorder = field(default_factory=LatencyRecorder)


@dataclass(frozen=True, slots=True)
class Client:
    """One process that changes a counter, with a store, draws and faults of its own."""

    clock: Clock
    counter: Counter
    loss: AnswerLoss
    randomness: Random
    answers: Answers

    async def add(self, change: int, token: str | None = None) -> bool:
        """Make one change and count the answer; return whether it is "applied"."""
        started = self.clock.monotonic()
        outcome: Outcome | None = None
        with suppress(StoreError):
            outcome = await self.counter.add(change, token=token or self.token())
        self.answers.latencies.add(self.clock.monotonic() - started)
        self.answers.counts[type(outcome) if outcome else None] += 1
        return isinstance(outcome, Applied)

    def token(self) -> str:
        """Return a token for a change made now."""
        return new_token(self.clock.now(), self.randomness)


@dataclass(frozen=True, slots=True)
class Participants:
    """The clients of one counter; `lost` is the share of their writes without an answer.

    Each is a process of its own. But callers of a combined counter share one in each region, which
    sends within `async with`.
    """

    table: ComparedTable
    method: str
    name: str
    seed: int
    lost: float = 0.0
    limits: Mapping[str, int] = field(default_factory=dict)
    answers: Answers = field(default_factory=Answers)
    _shared: dict[str, tuple[Counter, AnswerLoss]] = field(default_factory=dict, init=False)
    _tasks: TaskGroup = field(default_factory=anyio.create_task_group, init=False)

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._tasks.cancel_scope.cancel()
        await self._tasks.__aexit__(kind, error, traceback)

    @property
    def home(self) -> str:
        """The home region."""
        return next(iter(self.table.stores))

    def client(self, name: str, region: str | None = None, *, is_reliable: bool = False) -> Client:
        """Return a client in a region, by default at home.

        A reliable one loses no answers, and its calls are not counted in `answers`.
        """
        where = region or self.home
        label = f"{self.method}/{self.name}/{where}/{name}"
        if self.method == LEDGER_COMBINED and not is_reliable:
            if where not in self._shared:
                self._shared[where] = self._counter(where, label, self.lost, is_shared=True)
            counter, loss = self._shared[where]
        else:
            counter, loss = self._counter(where, label, 0.0 if is_reliable else self.lost)
        draws = stream(self.seed, f"{label}/tokens")
        answers = Answers() if is_reliable else self.answers
        return Client(self.table.clock, counter, loss, draws, answers)

    def _counter(
        self, where: str, label: str, lost: float, *, is_shared: bool = False
    ) -> tuple[Counter, AnswerLoss]:
        """Return a counter over a store that loses answers, and what decides which."""
        loss, clock = AnswerLoss(stream(self.seed, f"{label}/lost"), lost), self.table.clock
        store = FaultyStore(self.table.stores[where], loss, clock=clock)
        name = f"{self.name}-{self.method}".replace(", ", "-")
        services = Services.of(clock=clock, randomness=stream(self.seed, f"{label}/tags"))
        if is_shared:
            return combined_counter(store, name, services=services, tasks=self._tasks), loss
        return WAYS[self.method].make(store, name, services=services, **self.limits), loss

    def clients(self, count: int) -> list[Client]:
        """Return clients at home."""
        return [self.client(f"writer {place}") for place in range(count)]

    async def add_first(self) -> None:
        """Make a change that is sure to arrive: it creates the items that a method needs."""
        await self.client("first", is_reliable=True).add(1)

    async def value(self, region: str | None = None) -> int:
        """Return the value that a region shows."""
        return int(await self.client("reader", region, is_reliable=True).counter.value())


def requests_of(clients: Sequence[Client]) -> int:
    """Return how many writes clients have sent, without the store's own retries."""
    return sum(loss.writes for loss in {client.loss for client in clients})


async def share(clients: Sequence[Client], changes: int, change: int = 1) -> None:
    """Divide changes among clients, which make them concurrently, each one after another."""

    async def work(client: Client, count: int) -> None:
        for _ in range(count):
            await client.add(change)

    each, more = divmod(changes, len(clients))
    jobs = [partial(work, one, each + (place < more)) for place, one in enumerate(clients)]
    await run_all(jobs, at_once=len(jobs))


class Spent(NamedTuple):
    """What the stores of a table have taken."""

    write_units: float = 0.0
    read_units: float = 0.0
    retries: float = 0.0


def spent(table: ComparedTable, since: Spent = Spent()) -> Spent:  # noqa: B008 (a constant)
    """Return what the stores have taken since an earlier moment, or so far."""
    units = partial(summed, table.registry, "ledger_consumed_units_total")
    retries = summed(table.registry, "ledger_retries_total")
    return Spent(*map(sub, (units(kind="write"), units(kind="read"), retries), since))
