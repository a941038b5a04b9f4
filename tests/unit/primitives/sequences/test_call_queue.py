"""The queue of one process: calls go one after another, unless one is not answered."""

from dataclasses import replace
from functools import partial

import anyio
import anyio.lowlevel
import pytest
from lab.harness.model import VirtualClock
from proof.simulator import loop
from support.clients import together
from support.ledgers import HOME, make_services

from ledger.core.entry import Item
from ledger.core.errors import InvalidInput
from ledger.primitives.sequences import Numbered, Queue, SortKeySequence
from ledger.primitives.sequences.sort_key_sequence import AppendOptions
from ledger.store.memory import MemoryStore, MemoryTable
from ledger.store.port import Store
from ledger.store.reads import Page, Query
from ledger.store.wrappers.faults import Fault, FaultCall, FaultyStore, NeverArrived, Slow
from ledger.store.wrappers.forwarder import ForwardingStore
from ledger.store.writes import Outcome, Write
from ledger.testing.clock import ManualClock

CONTENT: Item = {"title": {"S": "a ticket"}}
TRIP_SECONDS = 0.01


class Trips(ForwardingStore):
    """A store to which each request travels, on virtual time; it counts them."""

    def __init__(self, table: MemoryTable) -> None:
        super().__init__(MemoryStore(HOME, table))
        self.queries = self.writes = self.at_once = self.most_at_once = 0

    async def query(self, query: Query) -> Page:
        """Read a page after a trip."""
        self.queries += 1
        await anyio.sleep(TRIP_SECONDS)
        return await self._inner.query(query)

    async def write(self, write: Write) -> Outcome:
        """Write after a trip."""
        self.writes += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await anyio.sleep(TRIP_SECONDS)
        self.at_once -= 1
        return await self._inner.write(write)


class Stale(Trips):
    """A store whose queries leave out the last items."""

    hidden = 0

    async def query(self, query: Query) -> Page:
        """Read a page as it was before those items."""
        page = await super().query(replace(query, limit=1 + self.hidden))
        return Page(page.items[self.hidden :])


def sequence(store: Store, queue: Queue | None = None, *, seed: int = 7) -> SortKeySequence:
    """Return a sequence of one process."""
    clock = ManualClock(instant=True)
    return SortKeySequence(
        store, "p", services=make_services(clock, seed), options=AppendOptions(queue=queue)
    )


def numbers(table: MemoryTable) -> list[int]:
    """Return the numbers of all items."""
    return [int(key) for key in sorted(table.partitions["~sequence~p"])]


async def append_at_once(clients: list[SortKeySequence], count: int) -> list[int]:
    """Append so often at once through each of the clients."""
    answers: list[int] = []

    async def work(client: SortKeySequence) -> None:
        outcome = await client.append(CONTENT)
        assert isinstance(outcome, Numbered)
        answers.append(outcome.number)

    await together([partial(work, client) for client in clients for _ in range(count)])
    return answers


@pytest.mark.parametrize("shared", [True, False])
def test_calls_of_one_process_do_not_race(*, shared: bool) -> None:
    """Fifty calls at once take fifty writes and one query, also through two objects on one queue.

    Through two queues, as in two processes, they race: more than fifty writes.
    """

    async def main() -> None:
        store, queue = Trips(table := MemoryTable()), Queue()
        clients = [sequence(store, queue if shared else None, seed=seed) for seed in (7, 8)]
        answers = await append_at_once(clients, 25)
        assert sorted(answers) == numbers(table) == list(range(1, 51))
        assert (store.most_at_once == 1) == shared
        assert (store.writes == 50) == shared
        if shared:
            assert (answers, store.queries) == (numbers(table), 1)

    loop.run(main)


def test_the_queue_is_bounded() -> None:
    """Calls beyond those that may wait race instead; each still has a number of its own."""

    async def main() -> None:
        store = Trips(table := MemoryTable())
        answers = await append_at_once([sequence(store, Queue(waiting_max=3))], 10)
        assert sorted(answers) == numbers(table) == list(range(1, 11))
        assert store.most_at_once > 1

    loop.run(main)


@pytest.mark.parametrize("waiting_max", [-1, True, 1.0, None])
def test_the_bound_is_a_number(waiting_max: object) -> None:
    """What is no number of calls is refused."""
    with pytest.raises(InvalidInput, match="waiting_max must be a whole number from 0"):
        Queue(waiting_max=waiting_max)  # type: ignore[arg-type]


def test_a_guess_that_is_wrong_is_read_again() -> None:
    """Once another process has put an item the query comes back, and no number is left out."""

    async def main() -> None:
        store = Trips(table := MemoryTable())
        one, other = sequence(store), sequence(store, seed=8)
        assert [await one.append(CONTENT) for _ in range(2)] == [Numbered(1), Numbered(2)]
        assert await other.append(CONTENT) == Numbered(3)
        assert await one.append(CONTENT) == Numbered(4)
        assert (store.queries, store.writes) == (3, 5)
        assert numbers(table) == [1, 2, 3, 4]

    loop.run(main)


def test_a_stale_query_does_not_hide_what_the_process_has_put() -> None:
    """A process offers no number below its own last one, whatever a query shows."""

    async def main() -> None:
        store = Stale(table := MemoryTable())
        one, other = sequence(store), sequence(store, seed=8)
        for client in (one, other, one):
            await client.append(CONTENT)
        store.hidden, store.writes = 2, 0
        assert await one.append(CONTENT) == Numbered(4)
        assert store.writes == 1
        assert numbers(table) == [1, 2, 3, 4]

    loop.run(main)


def test_calls_without_answers_wait_beside_each_other() -> None:
    """Where no write is answered for a while, twenty calls take not twenty times as long as one."""

    async def main() -> None:
        unanswered = 0

        def decide(call: FaultCall) -> Fault | None:
            nonlocal unanswered
            if call.operation != "write" or unanswered == 20:
                return None
            unanswered += 1
            return Slow(after_seconds=30.0, then=NeverArrived())

        store = FaultyStore(MemoryStore(HOME, table := MemoryTable()), decide, clock=VirtualClock())
        answers = await append_at_once([sequence(store)], 20)
        assert sorted(answers) == numbers(table) == list(range(1, 21))
        assert unanswered == 20
        assert anyio.current_time() < 100.0

    loop.run(main)


def test_a_call_that_is_cancelled_while_it_waits_sends_nothing() -> None:
    """Its turn does not come; those before and behind it get consecutive numbers."""

    async def main() -> None:
        store = Trips(table := MemoryTable())
        client = sequence(store)
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.append, {"title": {"S": "first"}})
                await anyio.lowlevel.checkpoint()
                with anyio.CancelScope() as waiting:
                    waiting.cancel()
                    await client.append({"title": {"S": "cancelled"}})
                tasks.start_soon(client.append, {"title": {"S": "last"}})
        assert not scope.cancelled_caught
        items = [
            table.partitions["~sequence~p"][key] for key in sorted(table.partitions["~sequence~p"])
        ]
        assert [item["title"]["S"] for item in items] == ["first", "last"]

    loop.run(main)


def test_a_call_that_is_cancelled_in_flight_passes_its_turn_on() -> None:
    """The next call settles what it finds: no number is left out, and it waits for nothing."""

    async def main() -> None:
        store = Trips(table := MemoryTable())
        client = sequence(store)
        with anyio.move_on_after(TRIP_SECONDS * 1.5):
            await client.append(CONTENT)
        assert await client.append(CONTENT) == Numbered(1)
        assert numbers(table) == [1]

    loop.run(main)
