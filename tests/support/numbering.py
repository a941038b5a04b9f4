"""Workloads of sequences on virtual time, and what they cost."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from support.clients import Client, Clients, together

from ledger.core.errors import StoreError
from ledger.primitives.sequences import CounterSequence, MaybeNumbered, Numbered, SortKeySequence
from ledger.store.port import Store
from ledger.store.wrappers.forwarding import ForwardingStore
from ledger.store.writes import Applied, Outcome, Unknown, Write

RESUMED_MAX = 50
NUMBERS_EACH = 20
STALENESS_SECONDS = 0.1
"""How far an eventually consistent read may look back: as far as a trip takes."""


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
    return CounterSequence(
        store or client.store, "s", clock=client.clock, randomness=client.randomness, block=block
    )


def appending(
    client: Client, *, after_race: str = "query", consistent: bool = True
) -> SortKeySequence:
    """Return a client's sequence by sort keys."""
    assert after_race in {"query", "add_one"}
    return SortKeySequence(
        client.store,
        "s",
        clock=client.clock,
        randomness=client.randomness,
        after_race="add_one" if after_race == "add_one" else "query",
        consistent=consistent,
    )


WAYS: dict[str, Callable[[Client], CounterSequence | SortKeySequence]] = {
    "counter item": counting,
    "counter item, `block=10`": partial(counting, block=10),
    "sort key, `query`": appending,
    "sort key, `query`, `consistent=False`": partial(appending, consistent=False),
    "sort key, `add_one`": partial(appending, after_race="add_one"),
}


@dataclass(frozen=True, slots=True)
class Cost:
    """Units for each number that was got, and how many were got in a second of the world."""

    write_units: float
    read_units: float
    per_second: float


async def cost_of(way: str, writers: int) -> Cost:
    """Let so many writers take 20 numbers each, one after another, over trips of up to 0.1 s."""
    clients = Clients(seed=3, staleness_seconds=STALENESS_SECONDS)
    taken = Taken()

    async def work(name: str) -> None:
        sequence = WAYS[way](clients.client(name))
        for number in range(NUMBERS_EACH):
            if isinstance(sequence, CounterSequence):
                await taken.take(sequence)
            else:
                await taken.append(sequence, f"{name}/{number}")

    began = clients.world.loop.time()
    await together([partial(work, f"writer {number}") for number in range(writers)])
    seconds = clients.world.loop.time() - began
    got = len(taken.numbers) + len(taken.of_content)
    assert got == writers * NUMBERS_EACH
    return Cost(clients.units("write") / got, clients.units("read") / got, got / seconds)
