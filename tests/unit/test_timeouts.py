"""`timeout` of each call: it ends with what is true of its change by then.

On virtual time, where a timer fires once nothing else can happen: so it is the same each time.
"""

from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from decimal import Decimal
from functools import partial
from random import Random
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st
from proof.simulator.loop import run
from support.ledgers import HOME, changes, make_ledger, make_settings, sample, seeded
from support.sharing import GatedStore
from support.silent import SilentStore

from ledger import (
    InvalidInput,
    Ledger,
    LedgerError,
    NotSent,
    OutcomeUnknown,
    ReadTooSlow,
    RetryHorizonPassed,
)
from ledger.core.amounts import total_wide
from ledger.core.contract_item import Contract, contract_item
from ledger.core.values import Entry
from ledger.reads.reader import READ_SECONDS_MIN
from ledger.reads.total_cache import READS_AT_ONCE
from ledger.runtime.services import Services
from ledger.session.assembly import GivenConnections
from ledger.store.memory import MemoryStore
from ledger.store.wrappers.forwarder import Answer, ForwardingStore, Operation
from ledger.store.writes import Put
from ledger.testing.clock import START, ManualClock
from ledger.writes.entry_plan import Change

SECONDS = 5.0
ENTRY = Entry("c", "2026-11-21T06:50:00.000000Z#0000000000000001", Decimal(5))

Write = Callable[..., Awaitable[object]]


async def record_one(book: Ledger, **options: Any) -> object:
    """Record a change that shares requests."""
    return await book.record("c", 5, **options)


async def record_keyed(book: Ledger, **options: Any) -> object:
    """Record a change with a key."""
    return await book.record("c", 5, key="k", at=START, **options)


async def record_combined(book: Ledger, **options: Any) -> object:
    """Record a change that becomes part of a sum."""
    return await book.record("sum", 5, **options)


async def record_many(book: Ledger, **options: Any) -> object:
    """Record changes of several requests, with and without keys."""
    keyed = [Change("c", 1, key=f"k{number}", at=START) for number in range(30)]
    return await book.record_many([*keyed, *[("c", 1)] * 30], **options)


async def record_together(book: Ledger, **options: Any) -> object:
    """Record changes, all or none."""
    return await book.record_together([("c", 2), ("d", 3)], **options)


async def retry(book: Ledger, **options: Any) -> object:
    """Write an entry again."""
    return await book.retry([ENTRY], **options)


async def reconcile(book: Ledger, **options: Any) -> object:
    """Correct a total."""
    return await book.reconcile("c", counted=7, **options)


async def reverse(book: Ledger, **options: Any) -> object:
    """Take an entry back."""
    return await book.reverse(ENTRY, **options)


async def describe(book: Ledger, **options: Any) -> object:
    """Describe a counter."""
    return await book.describe("c", {"unit": "piece"}, **options)


async def total(book: Ledger, **options: Any) -> object:
    """Read a total."""
    return await book.total("c", **options)


async def steady_totals(book: Ledger, **options: Any) -> object:
    """Read totals that are true together."""
    return await book.totals(["c", "d"], steady=True, **options)


async def periods(book: Ledger, **options: Any) -> object:
    """Read sums by period."""
    return await book.periods("c", by="day", **options)


async def history(book: Ledger, **options: Any) -> object:
    """Read a history."""
    return [entry async for entry in book.history("c", **options)]


async def counters(book: Ledger, **options: Any) -> object:
    """List counters."""
    return [counter async for counter in book.counters("", **options)]


async def top(book: Ledger, **options: Any) -> object:
    """Find the largest."""
    return await book.top("", **options)


async def description(book: Ledger, **options: Any) -> object:
    """Read a description."""
    return await book.description("c", **options)


RECORDS = [record_one, record_keyed, record_combined, record_many, record_together, retry]
WRITES = [*RECORDS, reconcile, reverse, describe]
READS = [total, steady_totals, periods, history, counters, top, description]


def ledger_over(store: ForwardingStore, **overrides: Any) -> Ledger:
    """Return a ledger of a table with an index, periods, and a counter that is combined."""
    given = {"index": ("*",), "periods": {"*": {"zone": "UTC"}}, "combine": ("sum",)}
    return make_ledger(store, **{**given, **overrides})


async def in_silence(call: Write, **options: Any) -> tuple[LedgerError, SilentStore, Ledger]:
    """Make a call while the store is silent; return how it ended, and after how many requests."""
    store = SilentStore()
    book = ledger_over(store)
    async with book:
        store.is_silent = True
        began = anyio.current_time()
        with pytest.raises(LedgerError) as caught:
            await call(book, **options)
        assert anyio.current_time() - began == pytest.approx(SECONDS)
        store.is_silent = False
    return caught.value, store, book


@pytest.mark.parametrize("call", RECORDS)
def test_a_change_without_an_answer_is_unknown_and_can_be_retried(call: Write) -> None:
    """It ends on time, with the entries: written again, each counts once."""

    async def main() -> None:
        error, store, book = await in_silence(call, timeout=SECONDS)
        assert isinstance(error, OutcomeUnknown)
        assert ("the same call is safe" in str(error)) == (call in {record_keyed, retry})
        assert "timeout ended" in str(error)
        assert error.retryable == (call in {record_keyed, retry})
        async with book:
            await book.retry(error.entries, together=error.together)
            found = await book.totals(["c", "d", "sum"], max_age=0)
        assert total_wide(one.value for one in found.values()) == (60 if call is record_many else 5)
        assert store.requests > 0

    run(main)


@pytest.mark.parametrize("call", [reconcile, reverse, describe])
def test_a_write_of_several_steps_is_unknown(call: Write) -> None:
    """It says how the call is repeated; a count names its token."""

    async def main() -> None:
        error, _, _ = await in_silence(call, timeout=SECONDS)
        assert isinstance(error, OutcomeUnknown)
        assert "timeout ended" in str(error)
        assert "repeat the call" in str(error)
        assert error.retryable == (call is not reconcile)  # which was given no token
        assert ("token '2026-" in str(error)) == (call is reconcile)

    run(main)


@pytest.mark.parametrize("call", READS)
def test_a_read_without_an_answer_is_too_slow(call: Write) -> None:
    """Each ends on time, as an error that is counted."""

    async def main() -> None:
        error, _, book = await in_silence(call, timeout=SECONDS)
        assert isinstance(error, ReadTooSlow)
        assert "timeout ended" in str(error)
        assert sample(book.metrics, "ledger_errors_total", kind="ReadTooSlow") == 1

    run(main)


@pytest.mark.parametrize("call", [*RECORDS, *READS])
def test_a_call_in_time_is_as_without(call: Write) -> None:
    """With an answer in time the call returns what it would return, and leaves no timer."""

    async def main() -> None:
        async with ledger_over(SilentStore()) as book:
            await call(book, timeout=SECONDS)
            await call(book, timeout=SECONDS)

    run(main)


@pytest.mark.parametrize("call", [*WRITES, *READS])
@pytest.mark.parametrize("timeout", [0, -1, float("nan"), "5", True])
def test_a_timeout_must_be_seconds(call: Write, timeout: object) -> None:
    """Anything but a number above 0 is refused by value and rule, before anything is sent."""

    async def main() -> None:
        store = SilentStore()
        async with ledger_over(store) as book:
            with pytest.raises(InvalidInput, match=f"seconds above 0, got {timeout!r}"):
                await call(book, timeout=timeout)
        assert store.requests == 0

    run(main)


@pytest.mark.parametrize("queue_max", [1, 10])
@pytest.mark.parametrize("call", [record_one, record_keyed, record_combined])
def test_a_change_that_waits_is_not_sent(call: Write, queue_max: int) -> None:
    """Behind one that gets no answer, in the queue or before it, it ends as not sent, for good."""

    async def main() -> None:
        store = SilentStore()
        limits = {"in_flight": 1, "queue_max": queue_max}
        async with ledger_over(store, writer=limits) as book, anyio.create_task_group() as tasks:
            store.is_silent = True
            tasks.start_soon(_unknown, book.record("first", 1, timeout=2 * SECONDS))
            while not store.requests:
                await checkpoint()
            with pytest.raises(NotSent, match="timeout ended before anything was sent"):
                await call(book, timeout=SECONDS)
            store.is_silent = False
        async with book:
            await book.record("last", 1)
            found = await book.totals(["c", "sum", "first", "last"], max_age=0)
        assert [one.value for one in found.values()] == [0, 0, 1, 1]

    run(main)


async def _unknown(call: Coroutine[Any, Any, Entry]) -> None:
    with pytest.raises(OutcomeUnknown):
        await call


def test_one_of_a_sum_leaves_the_others() -> None:
    """Of changes that wait to be combined one runs out of time: the others are written."""

    async def main() -> None:
        store = GatedStore()
        book = make_ledger(store, writer={"in_flight": 1}, combine=("sum",))
        async with book, anyio.create_task_group() as tasks:
            store.shut()
            tasks.start_soon(book.record, "c", 1)
            while not store.sizes:
                await checkpoint()
            tasks.start_soon(_not_sent, book.record("sum", 1, timeout=SECONDS))
            tasks.start_soon(book.record, "sum", 2)
            await anyio.sleep(2 * SECONDS)
            store.gate.set()
        assert changes(store.table, "sum") == [2]

    run(main)


async def _not_sent(call: Coroutine[Any, Any, Entry]) -> None:
    with pytest.raises(NotSent):
        await call


@pytest.mark.parametrize("call", WRITES)
def test_a_contract_that_cannot_be_read_in_time_sends_nothing(call: Write) -> None:
    """The contract is read again first: a call that ends there has sent nothing."""

    async def main() -> None:
        store, clock = SilentStore(), ManualClock(instant=True)
        settings = make_settings()
        await store.write(Put(contract_item(Contract(terms=settings.terms))))
        book = Ledger(
            settings,
            region=HOME,
            given=GivenConnections(store=store, contract=True),
            services=Services.of(clock=clock, randomness=seeded()),
        )
        async with book:
            clock.pass_by(61.0)
            store.is_silent = True
            with pytest.raises(NotSent, match="timeout ended"):
                await call(book, timeout=SECONDS)

    run(main)


def test_a_late_call_is_refused_as_without() -> None:
    """A call past the retry horizon is told so, not that it was not sent."""

    async def main() -> None:
        async with ledger_over(SilentStore()) as book:
            at = START - timedelta(days=1)
            with pytest.raises(RetryHorizonPassed):
                await book.record("c", 1, key="k", at=at, timeout=SECONDS)

    run(main)


class WaywardStore(ForwardingStore):
    """Takes some seconds before it does what it is asked, and some more to answer."""

    def __init__(self, chance: Random) -> None:
        super().__init__(MemoryStore(HOME))
        self._chance = chance

    async def _carry(self, operation: Operation, send: Callable[[], Awaitable[Answer]]) -> Answer:
        del operation
        await anyio.sleep(self._chance.choice([0.0, 0.1, 3.0]))
        answer = await send()
        await anyio.sleep(self._chance.choice([0.0, 0.1, 3.0]))
        return answer


@pytest.mark.slow
@given(
    seed=st.integers(0, 2**32),
    in_flight=st.integers(1, 3),
    queue_max=st.integers(1, 40),
    calls=st.integers(1, 60),
)
def test_property_each_call_ends_in_what_is_true(
    seed: int, in_flight: int, queue_max: int, calls: int
) -> None:
    """Whatever the pace: what was not sent is never there; all else is once the unknown is retried.

    One call in three is of 30 changes; those of the others to one counter are combined.
    """
    chance = seeded(seed)
    unknown: dict[str, Entry] = {}
    counted: list[int] = []

    async def one(book: Ledger, number: int) -> None:
        await anyio.sleep(chance.random() * 4)
        timeout = chance.choice([None, 0.05, 1.0, 3.05, 5.0])
        many = [Change("c", 1, key=f"k{number}-{each}", at=START) for each in range(30)]
        size = 1 if number % 3 else len(many)
        try:
            if size > 1:
                await book.record_many(many, timeout=timeout)
            else:
                await book.record(chance.choice(["c", "sum"]), 1, timeout=timeout)
        except NotSent:
            return
        except OutcomeUnknown as error:
            unknown.update({entry.id: entry for entry in error.entries})
        counted.append(size)

    async def main() -> None:
        limits = {"in_flight": in_flight, "queue_max": queue_max}
        async with ledger_over(WaywardStore(chance), writer=limits) as book:
            async with anyio.create_task_group() as tasks:
                for number in range(calls):
                    tasks.start_soon(one, book, number)
            await anyio.sleep(60.0)
            await book.retry(list(unknown.values()))
            found = await book.totals(["c", "sum"], max_age=0)
        assert total_wide(total.value for total in found.values()) == sum(counted)

    run(main)


class SlowStore(ForwardingStore):
    """Answers each request after `seconds`."""

    def __init__(self) -> None:
        super().__init__(MemoryStore(HOME))
        self.seconds = 0.0

    async def _carry(self, operation: Operation, send: Callable[[], Awaitable[Answer]]) -> Answer:
        del operation
        await anyio.sleep(self.seconds)
        return await send()


def took(call: Callable[[Ledger], Awaitable[object]], *, seconds: float, is_due: bool) -> float:
    """Return how long a call took, without a timeout, where each request takes so long.

    With `is_due` the contract is read again before.
    """

    async def main() -> float:
        store, clock, settings = SlowStore(), ManualClock(), make_settings()
        await store.write(Put(contract_item(Contract(terms=settings.terms))))
        book = Ledger(
            settings,
            region=HOME,
            given=GivenConnections(store=store, contract=True),
            services=Services.of(clock=clock, randomness=seeded()),
        )
        async with book:
            if is_due:
                clock.pass_by(61.0)
            store.seconds = seconds
            began = anyio.current_time()
            with pytest.raises((ReadTooSlow, NotSent, OutcomeUnknown)):
                await call(book)
            ended = anyio.current_time()
            store.seconds = 0.0
            return ended - began

    return run(main)


TOTALS = [
    partial(Ledger.total, counter="c"),
    partial(Ledger.total, counter="c", max_age=0),
    partial(Ledger.totals, counters=["c", "d"], max_age=0),
]
STEADY = [
    partial(Ledger.total, counter="c", steady=True),
    partial(Ledger.totals, counters=["c", "d"], steady=True),
    partial(Ledger.description, counter="c"),
]


async def first_of_history(book: Ledger) -> Entry | None:
    """Read a history up to its first entry."""
    return await anext(book.history("c"), None)


@pytest.mark.parametrize("seconds", [10.0, 1_000_000.0])
@pytest.mark.parametrize("asked", [*TOTALS, *STEADY])
def test_a_read_ends_in_its_time_with_what_the_contract_took(
    seconds: float, asked: Callable[[Ledger], Awaitable[object]]
) -> None:
    """One deadline covers both, whichever of them is not answered in time."""
    assert took(asked, seconds=seconds, is_due=True) == READ_SECONDS_MIN
    if seconds > READ_SECONDS_MIN and asked in TOTALS:
        assert took(asked, seconds=seconds, is_due=False) == READ_SECONDS_MIN


def test_reads_in_turn_have_a_deadline_each() -> None:
    """Only so many counters are read at a time: what the contract took is of the first of them."""
    asked = partial(Ledger.totals, counters=[f"c{n}" for n in range(READS_AT_ONCE + 1)], max_age=0)
    assert took(asked, seconds=10.0, is_due=True) > READ_SECONDS_MIN


@pytest.mark.parametrize("asked", [first_of_history, partial(Ledger.feed_page, prefix="c/")])
def test_a_contract_that_is_not_read_ends_every_read(
    asked: Callable[[Ledger], Awaitable[object]],
) -> None:
    """Also one whose own requests have bounds of their own."""
    assert took(asked, seconds=1_000_000.0, is_due=True) == READ_SECONDS_MIN


@pytest.mark.parametrize("call", [record_one, record_keyed, record_many, record_together, retry])
def test_a_write_ends_in_its_time_with_what_the_contract_took(call: Write) -> None:
    """`write_deadline` begins with the call."""
    most = make_settings().write_deadline
    assert took(call, seconds=most / 2 + 1, is_due=True) == most
    assert took(call, seconds=1_000_000.0, is_due=True) == most


def test_after_a_renewal_that_was_cut_off_calls_go_on_with_a_view_that_is_valid() -> None:
    """Not each of them waits for a contract that cannot be read: it is tried again soon."""

    async def main() -> None:
        store, clock, settings = SilentStore(), ManualClock(), make_settings()
        await store.write(Put(contract_item(Contract(terms=settings.terms))))
        book = Ledger(
            settings,
            region=HOME,
            given=GivenConnections(store=store, contract=True),
            services=Services.of(clock=clock, randomness=seeded()),
        )
        async with book:
            clock.pass_by(61.0)
            store.is_silent = True
            with pytest.raises(ReadTooSlow):
                await book.total("c", max_age=0, timeout=SECONDS)
            store.is_silent = False
            before = store.requests
            await book.total("c", max_age=0)
            assert store.requests == before + 1

    run(main)
