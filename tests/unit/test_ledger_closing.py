"""Opening and closing: calls under way, errors inside, what is given back."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint
from support.ledgers import AWAY, HOME, make_ledger, make_settings
from support.tables import make_table
from support.tiers import with_slow

import ledger.session.assembly
import ledger.store.connections
from ledger.core.contract_item import Contract, contract_item
from ledger.core.errors import (
    LedgerError,
    OutcomeUnknown,
    SettingsError,
    Throttled,
)
from ledger.core.values import Entry
from ledger.session.ledger import Ledger
from ledger.store.memory import MemoryStore
from ledger.store.wrappers.faults import (
    FaultyStore,
    Raises,
)
from ledger.store.writes import Action, BatchOutcome, BatchWrite, Outcome, Put, Write
from ledger.table import Table
from ledger.testing.clock import START


class HangingStore(MemoryStore):
    """A store whose queries never answer."""

    async def query(self, *_: Any, **__: Any) -> Any:
        """Wait for good."""
        await anyio.sleep_forever()


class SlowStore(MemoryStore):
    """A store whose writes take some turns of the loop, before and after they are durable."""

    async def write(self, write: Write) -> Outcome:
        """Do a single write."""
        await turns(3)
        outcome = await super().write(write)
        await turns(3)
        return outcome

    async def write_batch(self, writes: Sequence[BatchWrite]) -> BatchOutcome:
        """Do a batch."""
        await turns(3)
        outcome = await super().write_batch(writes)
        await turns(3)
        return outcome

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Do a transaction."""
        await turns(3)
        outcome = await super().transact(actions, token=token)
        await turns(3)
        return outcome


async def turns(count: int) -> None:
    """Let everything else go on for some turns of the loop."""
    for _ in range(count):
        await checkpoint()


async def test_open_takes_the_home_region() -> None:
    """Without a region a ledger is that of the home region; an unknown one is refused by name."""
    assert Ledger.open(make_settings()).region == HOME
    assert Ledger.open(make_settings(), region=AWAY).region == AWAY
    with pytest.raises(SettingsError, match="us-west-9"):
        Ledger.open(make_settings(), region="us-west-9")


async def call_total(book: Ledger) -> object:
    """Ask for a total."""
    return await book.total("c")


async def call_record(book: Ledger) -> object:
    """Record a change."""
    return await book.record("c", 1)


async def call_history(book: Ledger) -> object:
    """Read a history."""
    return [entry async for entry in book.history("c")]


@pytest.mark.parametrize("call", [call_total, call_record, call_history])
async def test_closed_ledger_says_so(call: Callable[[Ledger], Any]) -> None:
    """Before it is opened and after it is closed a ledger is no use, and says why."""
    book = make_ledger()

    with pytest.raises(LedgerError, match=r"not open.*async with"):
        await call(book)
    async with book:
        await call(book)
    with pytest.raises(LedgerError, match="not open"):
        await call(book)


async def test_closing_again_and_opening_again() -> None:
    """Closing twice is harmless, and a closed ledger can be opened again."""
    book = make_ledger()
    async with book:
        await book.record("c", 1)
        await book.close()
        await book.close()
    async with book:
        assert (await book.total("c", max_age=0)).value == 1


class Fixture:
    """What pytest-asyncio does with a fixture: set-up, test and tear-down are three tasks."""

    def __init__(self, opened: AbstractAsyncContextManager[Ledger | Table]) -> None:
        self._opened = opened

    async def run(self, test: Callable[[], Awaitable[object]]) -> None:
        """Run a test between set-up and tear-down."""
        await asyncio.create_task(in_a_task(self._opened.__aenter__))
        await asyncio.create_task(in_a_task(test))
        await asyncio.create_task(in_a_task(lambda: self._opened.__aexit__(None, None, None)))


async def in_a_task(call: Callable[[], Awaitable[object]]) -> None:
    """Make a call."""
    await call()


async def test_a_fixture_opens_and_closes_a_ledger() -> None:
    """Set-up and tear-down are different tasks: neither fails, and what was written is there."""
    book = make_ledger()
    await Fixture(book).run(lambda: book.record("c", 1))
    async with book:
        assert (await book.total("c")).value == 1


async def test_a_fixture_opens_and_closes_a_table() -> None:
    """The same of a table, and of a lease that is held in it."""
    async with make_table() as table:
        held = table.lease("job").held()
        await asyncio.create_task(in_a_task(held.__aenter__))
        await asyncio.create_task(in_a_task(lambda: held.__aexit__(None, None, None)))
    await Fixture(table).run(lambda: table.ledger.record("c", 1))


def test_two_notebook_cells() -> None:
    """Each cell is a task of one loop: one opens a ledger, one uses it, and one closes it."""
    book = make_ledger()
    with asyncio.Runner() as notebook:
        notebook.run(book.__aenter__())
        notebook.run(in_a_task(lambda: book.record("c", 1)))
        assert notebook.run(book.total("c", max_age=0)).value == 1
        notebook.run(book.close())


async def test_closing_in_a_task_of_its_own() -> None:
    """`create_task(ledger.close())` closes it, while the block goes on."""
    async with make_ledger() as book:
        await asyncio.create_task(book.close())
        with pytest.raises(LedgerError, match="not open"):
            await book.total("c")


async def test_opening_within_a_time_limit() -> None:
    """`wait_for` opens in a task of its own before Python 3.12; the ledger outlives that."""
    book = make_ledger()
    await asyncio.wait_for(asyncio.create_task(book.__aenter__()), 60.0)
    await book.record("c", 1)
    await book.close()


async def test_two_ledgers_are_closed_in_the_order_of_opening() -> None:
    """Closing the first cancels nothing: the second goes on."""
    first, second = make_ledger(), make_ledger()
    await first.__aenter__()
    await second.__aenter__()
    await first.close()
    await second.record("c", 1)
    await second.close()
    with pytest.raises(LedgerError, match="not open"):
        await second.total("c")


async def test_an_open_ledger_is_not_opened_again() -> None:
    """Entering it a second time is refused, and it stays open."""
    async with make_ledger() as book:
        with pytest.raises(LedgerError, match="already open"):
            await book.__aenter__()
        await book.record("c", 1)


async def many_changes(book: Ledger) -> list[Entry]:
    """Record many changes, each on its own."""
    return await book.record_many([("c", 2**number) for number in range(50)])


async def changes_together(book: Ledger) -> list[Entry]:
    """Record many changes, all or none."""
    return await book.record_together([("c", 2**number) for number in range(50)])


async def one_keyed(book: Ledger) -> list[Entry]:
    """Record a change that another process may repeat."""
    return [await book.record("c", 1, key="k", at=START)]


async def one_shared(book: Ledger) -> list[Entry]:
    """Record a change that shares requests."""
    return [await book.record("c", 1)]


@pytest.mark.parametrize("turns_before", with_slow(range(0, 40, 2), slow=range(2, 40, 4)))
@pytest.mark.parametrize("call", [many_changes, changes_together, one_keyed, one_shared])
async def test_closing_while_writing_ends_in_what_is_true(
    call: Callable[[Ledger], Awaitable[list[Entry]]], turns_before: int
) -> None:
    """A call under way returns what is durable, or names it as unknown: then a retry is whole."""
    store = SlowStore(HOME)
    book = make_ledger(store, compactor={"hint_every": 1})
    ended: list[Sequence[Entry] | LedgerError] = []

    async def ask() -> None:
        try:
            ended.append(await call(book))
        except LedgerError as error:
            ended.append(error)

    async with anyio.create_task_group() as tasks:
        async with book:
            tasks.start_soon(ask)
            await turns(turns_before)
        await turns(20)
        durable = set(store.table.partitions.get("c", {}))

    (outcome,) = ended
    if isinstance(outcome, OutcomeUnknown):
        async with book:
            await book.retry(outcome.entries, together=outcome.together)
            total = await book.total("c", max_age=0)
        assert total.value == (2**50 - 1 if call in {many_changes, changes_together} else 1)
    elif isinstance(outcome, LedgerError):
        assert "not open" in str(outcome) or "not written" in str(outcome)
        assert durable == set()
    else:
        assert {entry.id for entry in outcome} == durable


async def test_closing_ends_writes_that_get_no_answer() -> None:
    """A call whose request hangs does not outlive the ledger by its write deadline."""
    errors: list[OutcomeUnknown] = []

    class SilentStore(MemoryStore):
        async def write_batch(self, writes: Sequence[BatchWrite]) -> BatchOutcome:
            await anyio.sleep_forever()
            raise AssertionError(writes)

    async def ask(book: Ledger) -> None:
        with pytest.raises(OutcomeUnknown, match=r"50 of 50 .*closed") as caught:
            await many_changes(book)
        errors.append(caught.value)

    async with anyio.create_task_group() as tasks, make_ledger(SilentStore(HOME)) as book:
        tasks.start_soon(ask, book)
        await turns(5)
    assert len(errors[0].entries) == 50


@pytest.mark.parametrize("hanging", [0, 3])
async def test_error_inside_comes_out_plain(hanging: int) -> None:
    """An error of the block is raised as itself, not in a group, though reads are under way."""
    error = KeyError("mine")
    ended: list[str] = []

    async def ask(book: Ledger, number: int) -> None:
        try:
            await book.total(f"c{number}")
        except LedgerError as failed:
            ended.append(str(failed))

    async def block(tasks: TaskGroup) -> None:
        async with make_ledger(HangingStore(HOME)) as book:
            for number in range(hanging):
                tasks.start_soon(ask, book, number)
            await checkpoint()
            raise error

    async with anyio.create_task_group() as tasks:
        with pytest.raises(KeyError) as caught:
            await block(tasks)

    assert caught.value is error
    assert ended == ["the ledger was closed during a read"] * hanging


async def test_error_of_the_store_inside_comes_out_plain() -> None:
    """An error of the library that ends the block is raised as itself, too."""
    store = FaultyStore(MemoryStore(HOME), lambda _: Raises(Throttled("slow down")))

    with pytest.raises(Throttled, match="slow down"):
        async with make_ledger(store) as book:
            await book.total("c")


async def test_cancelling_the_block_is_clean() -> None:
    """A block that is cancelled while it waits for a total ends as cancelled, with no error."""
    with anyio.CancelScope() as scope:
        async with make_ledger(HangingStore(HOME)) as book, anyio.create_task_group() as tasks:
            tasks.start_soon(book.total, "c")
            await checkpoint()
            scope.cancel()

    assert scope.cancelled_caught
    with pytest.raises(LedgerError, match="not open"):
        await book.total("c")


async def test_failed_opening_gives_everything_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """If opening fails, the store that was already open is closed and the error is plain."""
    closed: list[str] = []

    class Opened:
        async def __aenter__(self) -> MemoryStore:
            store = MemoryStore(HOME)
            await store.write(Put(contract_item(Contract(terms=make_settings().terms))))
            return store

        async def __aexit__(self, *_: object) -> None:
            closed.append("store")

    def fail(*_: object, **__: object) -> None:
        raise LedgerError("no reader")

    monkeypatch.setattr(ledger.store.connections, "open_store", lambda *_, **__: Opened())
    monkeypatch.setattr(ledger.session.assembly, "Reader", fail)
    with pytest.raises(LedgerError, match="no reader"):
        await Ledger.open(make_settings()).__aenter__()

    assert closed == ["store"]
