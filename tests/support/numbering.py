"""Workloads of sequences on virtual time, and what they cost."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import anyio
from lab.harness.model import ModelStore, VirtualClock
from prometheus_client import CollectorRegistry
from proof.simulator.process import RELIABLE, Process
from proof.simulator.randomness import stream
from proof.simulator.world import World
from support.clients import Client, Clients, together
from support.ledgers import HOME, sample

from ledger.core.entry import Item
from ledger.core.errors import StoreError
from ledger.primitives.sequences import CounterSequence, MaybeNumbered, Numbered, SortKeySequence
from ledger.primitives.sequences.sort_key_sequence import AppendOptions
from ledger.runtime.metrics import Metrics
from ledger.store.port import Store
from ledger.store.wrappers.forwarder import ForwardingStore
from ledger.store.wrappers.meter import MeteredStore
from ledger.store.writes import Applied, Outcome, Unknown, Write

RESUMED_MAX = 50
STALENESS_SECONDS = 0.1
"""How far an eventually consistent read may look back: as far as a trip takes."""
RATE_SECONDS = 2.0


@dataclass
class Taken:
    """What clients were told: the number of each content, and of each bare number its takers."""

    numbers: list[int] = field(default_factory=list)
    of_content: dict[str, int] = field(default_factory=dict)
    started: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)

    async def append(self, client: SortKeySequence, content: str) -> None:
        """Put one content, going on with it for as long as it stays open."""
        self.started.add(content)
        attributes = {"content": {"S": content}}
        try:
            outcome = await client.append(attributes)
        except StoreError:
            self.refused.add(content)
            return
        for _ in range(RESUMED_MAX):
            if not isinstance(outcome, MaybeNumbered):
                break
            outcome = await client.append(attributes, resume=outcome)
        if isinstance(outcome, Numbered):
            self.of_content[content] = outcome.number
        else:
            self.refused.add(content)

    async def take(self, client: CounterSequence) -> None:
        """Take one number."""
        try:
            outcome = await client.next()
        except StoreError:
            return
        if isinstance(outcome, Numbered):
            self.numbers.append(outcome.number)


class LossCounter(ForwardingStore):
    """Counts, from outside, the numbers that a counter sequence takes through it and may lose."""

    def __init__(self, inner: Store, *, block: int = 1) -> None:
        super().__init__(inner)
        self.unanswered = self.taken = 0
        self._block = block

    async def write(self, write: Write) -> Outcome:
        """Count what is taken, and what no answer tells of; a cancelled call is not answered."""
        self.unanswered += self._block
        try:
            outcome = await self._inner.write(write)
        except StoreError:
            self.unanswered -= self._block
            raise
        if not isinstance(outcome, Unknown):
            self.unanswered -= self._block
        if isinstance(outcome, Applied):
            self.taken += self._block
        return outcome


def counting(client: Client, *, block: int = 1, store: Store | None = None) -> CounterSequence:
    """Return a client's counter sequence, through its own store or one in front of that."""
    return CounterSequence(store or client.store, "s", services=client.services, block=block)


def appending(
    client: Client, *, after_race: str = "query", consistent: bool = True
) -> SortKeySequence:
    """Return a client's sequence by sort keys."""
    assert after_race in {"query", "add_one"}
    return SortKeySequence(
        client.store,
        "s",
        services=client.services,
        options=AppendOptions(
            after_race="add_one" if after_race == "add_one" else "query", consistent=consistent
        ),
    )


Sequence = CounterSequence | SortKeySequence
Ask = Callable[[Sequence, str], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Way:
    """One way to numbers: the sequence of a process, and the call for one name, or several."""

    make: Callable[[Client], Sequence]
    ask: Ask


async def _next(sequence: Sequence, name: str) -> object:
    assert isinstance(sequence, CounterSequence)
    del name
    return await sequence.next()


async def _next_with_token(sequence: Sequence, name: str) -> object:
    assert isinstance(sequence, CounterSequence)
    return await sequence.next(token=name)


async def _put_next(sequence: Sequence, name: str) -> object:
    assert isinstance(sequence, CounterSequence)
    return await sequence.put_next(partial(_order, name), token=name)


def _order(name: str, number: int) -> Item:
    return {"pk": {"S": f"order-{number}"}, "sk": {"S": "order"}, "name": {"S": name}}


async def _append(sequence: Sequence, name: str) -> object:
    assert isinstance(sequence, SortKeySequence)
    return await sequence.append({"content": {"S": name}})


async def _append_with_token(sequence: Sequence, name: str) -> object:
    assert isinstance(sequence, SortKeySequence)
    return await sequence.append({"content": {"S": name}}, token=name)


async def _append_many(count: int, sequence: Sequence, name: str) -> object:
    assert isinstance(sequence, SortKeySequence)
    return await sequence.append_many([{"content": {"S": name}}] * count)


WAYS: dict[str, Way] = {
    "`next()`": Way(counting, _next),
    "`next()`, `block=10`": Way(partial(counting, block=10), _next),
    "`next(token=)`": Way(counting, _next_with_token),
    "`put_next(token=)`": Way(counting, _put_next),
    "`append`": Way(appending, _append),
    "`append`, `add_one`": Way(partial(appending, after_race="add_one"), _append),
    "`append`, `consistent=False`": Way(partial(appending, consistent=False), _append),
    "`append(token=)`": Way(appending, _append_with_token),
    "`append_many`, 5 each": Way(appending, partial(_append_many, 5)),
    "`append_many`, 10 each": Way(appending, partial(_append_many, 10)),
}


@dataclass
class Cost:
    """Units for each number that was got, how many were got in a second, and calls given up."""

    write_units: float = 0.0
    read_units: float = 0.0
    per_second: float = 0.0
    given_up: int = 0


def calls_each(writers: int) -> int:
    """Return how often each of so many writers asks."""
    return max(3, 60 // writers)


async def cost_of(way: str, writers: int, processes: int) -> Cost:
    """Let writers in so many processes ask one call after another, over trips of up to 0.1 s."""
    clients = Clients(seed=3, staleness_seconds=STALENESS_SECONDS)
    sequences = [WAYS[way].make(clients.client(f"process {n}")) for n in range(processes)]
    cost, got = Cost(), 0

    async def work(writer: int) -> None:
        nonlocal got
        for number in range(calls_each(writers)):
            outcome = await WAYS[way].ask(sequences[writer % processes], f"{writer}/{number}")
            if isinstance(outcome, Numbered):
                got += outcome.count
            else:
                cost.given_up += 1

    began = clients.world.loop.time()
    await together([partial(work, writer) for writer in range(writers)])
    cost.write_units, cost.read_units = clients.units("write") / got, clients.units("read") / got
    cost.per_second = got / (clients.world.loop.time() - began)
    return cost


@dataclass(frozen=True, slots=True)
class Rate:
    """Numbers and write units a second where a partition takes 1,000 units a second."""

    numbers: float
    units: float


async def rate_of(way: str, processes: int, writers: int) -> Rate:
    """Let writers ask all the time in the model of `lab compare`, which bounds partitions."""
    clock, registry = VirtualClock(), CollectorRegistry()
    metrics = Metrics.of(registry)
    world = World(
        (HOME,), loop=asyncio.get_running_loop(), randomness=stream(1, "world"), clock=clock
    )
    model = ModelStore(world.replicas[HOME], metrics=metrics, randomness=stream(1, "trips"))
    store = MeteredStore(model, metrics=metrics, clock=clock)
    process = Process(
        "all",
        world=world,
        randomness=stream(1, "all"),
        reliability=RELIABLE,
        skew_seconds=0,
        span=1,
    )
    sequences = [
        WAYS[way].make(Client(store, clock, stream(1, f"process {number}"), process))
        for number in range(processes)
    ]
    got = 0

    async def work(writer: int) -> None:
        nonlocal got
        number = 0
        while True:
            number += 1
            with suppress(StoreError):
                outcome = await WAYS[way].ask(sequences[writer % processes], f"{writer}/{number}")
                got += outcome.count if isinstance(outcome, Numbered) else 0

    with anyio.move_on_after(RATE_SECONDS):
        await together([partial(work, writer) for writer in range(writers)])
    units = sample(metrics, "ledger_consumed_units_total", kind="write")
    return Rate(got / RATE_SECONDS, units / RATE_SECONDS)
