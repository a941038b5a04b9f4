"""The cache of totals: how fresh, how shared, how bounded."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.clock import START, FakeClock
from support.ledgers import HOME, sample

from ledger.core.errors import LedgerError, Throttled
from ledger.runtime.metrics import Metrics
from ledger.settings.groups import CacheSettings
from ledger.totals.cache import TOTALS_AT_ONCE, TotalCache
from ledger.totals.reader import Total

Read = Callable[[str], Awaitable[Total]]


@dataclass
class Source:
    """A table of one number whose reads wait, half-way, until the test lets them answer.

    The number is read when a read begins: a change made while it waits is not in it.
    """

    value: int = 0
    reads: int = 0
    asleep: list[anyio.Event] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)
    free: bool = False

    async def read(self, counter: str) -> Total:
        """Read the number, then wait for `answer`."""
        self.reads += 1
        seen = self.value
        if not self.free:
            gate = anyio.Event()
            self.asleep.append(gate)
            await gate.wait()
        if self.errors:
            raise self.errors.pop(0)
        return Total(counter, Decimal(seen), START, HOME, entries=0)

    def answer(self) -> None:
        """Let the oldest waiting read answer."""
        self.asleep.pop(0).set()


class NaiveSingleFlight:
    """The mutant: every call joins the read that is under way, however long it has run."""

    def __init__(self, read: Read, tasks: anyio.abc.TaskGroup) -> None:
        self._read = read
        self._tasks = tasks
        self._done: anyio.Event | None = None
        self._total: Total | None = None

    async def total(self, counter: str, max_age: float | None = None) -> Total:
        """Join the read under way, or begin one."""
        del max_age
        if self._done is None:
            self._done = anyio.Event()
            self._tasks.start_soon(self._fly, counter)
        await self._done.wait()
        assert self._total is not None
        return self._total

    async def _fly(self, counter: str) -> None:
        self._total = await self._read(counter)
        done, self._done = self._done, None
        assert done is not None
        done.set()


@dataclass
class World:
    """A cache over a source, on a clock that only the test moves."""

    source: Source
    clock: FakeClock
    cache: TotalCache
    metrics: Metrics
    tasks: anyio.abc.TaskGroup
    totals: dict[int, Total] = field(default_factory=dict)
    errors: dict[int, Exception] = field(default_factory=dict)
    calls: int = 0

    async def ask(self, max_age: float | None = None, counter: str = "c") -> int:
        """Ask in a task of its own, let it run, and return the number of the call."""
        self.calls += 1
        number = self.calls
        self.tasks.start_soon(self._ask, number, max_age, counter)
        await self.clock.run_pending()
        return number

    async def _ask(self, number: int, max_age: float | None, counter: str) -> None:
        try:
            self.totals[number] = await self.cache.total(counter, max_age)
        except LedgerError as error:
            self.errors[number] = error

    async def answer(self) -> None:
        """Let the oldest read answer, and everybody hear it."""
        self.source.answer()
        await self.clock.run_pending()

    def counted(self, name: str) -> float:
        """Return a metric of the cache."""
        return sample(self.metrics, f"ledger_cache_{name}", region=HOME)


@asynccontextmanager
async def world(*, free: bool = False, **settings: Any) -> AsyncIterator[World]:
    """Open a cache; what still waits at the end is cancelled."""
    source, clock, metrics = Source(free=free), FakeClock(), Metrics()
    async with anyio.create_task_group() as tasks:
        cache = TotalCache(
            source.read,
            region=HOME,
            settings=CacheSettings(**settings),
            clock=clock,
            metrics=metrics,
            tasks=tasks,
        )
        yield World(source, clock, cache, metrics, tasks)
        tasks.cancel_scope.cancel()


async def test_young_total_is_given_without_a_read() -> None:
    """Up to its `max_age` a kept total is given again, says so, and its age is counted."""
    async with world(free=True, max_age=1) as w:
        first = await w.cache.total("c")
        w.source.value = 5
        await w.clock.advance(1)
        second = await w.cache.total("c")

        assert (first.value, first.cached) == (Decimal(0), False)
        assert second == replace(first, cached=True)
        assert w.source.reads == 1
        assert w.counted("hits_total") == w.counted("misses_total") == 1
        assert w.counted("age_seconds_sum") == 1


async def test_old_total_is_read_again() -> None:
    """Past its `max_age` a kept total is read again."""
    async with world(free=True, max_age=1) as w:
        await w.cache.total("c")
        w.source.value = 5
        await w.clock.advance(1.001)
        total = await w.cache.total("c")

        assert (total.value, total.cached) == (Decimal(5), False)
        assert w.counted("misses_total") == 2


async def test_age_counts_from_the_beginning_of_the_read() -> None:
    """A slow read's total is as old as its beginning: what came while it ran is not in it."""
    async with world(max_age=1) as w:
        await w.ask()
        await w.clock.advance(0.9)
        await w.answer()
        await w.clock.advance(0.2)
        await w.ask()

        assert w.source.reads == 2


@pytest.mark.parametrize(("max_age", "reads"), [(5, 1), (2, 1), (1.9, 2), (0, 2)])
async def test_a_call_sets_its_own_max_age(max_age: float, reads: int) -> None:
    """An explicit `max_age` counts instead of the settings', shorter or longer."""
    async with world(free=True, max_age=1) as w:
        await w.cache.total("c")
        await w.clock.advance(2)
        await w.cache.total("c", max_age)

        assert w.source.reads == reads


async def test_max_age_zero_reads_though_no_time_passed() -> None:
    """With `max_age=0` even a total of this very moment is read again."""
    async with world(free=True, max_age=0) as w:
        await w.cache.total("c")
        w.source.value = 1

        assert (await w.cache.total("c")).value == 1
        assert (await w.cache.total("c", 0)).cached is False


async def test_a_thousand_readers_share_two_reads() -> None:
    """A thousand calls at once cost one read, or two when one was under way before them."""
    async with world(max_age=0) as w:
        await w.ask(0)
        w.source.value = 7
        others = [await w.ask(0) for _ in range(3)]
        async with anyio.create_task_group() as tasks:
            for _ in range(997):
                tasks.start_soon(w.cache.total, "c", 0)
            await w.clock.run_pending()
            await w.answer()
            await w.answer()

        assert w.source.reads == 2
        assert w.totals[1].value == 0
        assert {w.totals[other].value for other in others} == {Decimal(7)}
        assert w.counted("misses_total") == 2
        assert w.counted("shared_total") == 999


async def test_positive_max_age_joins_a_read_that_is_young_enough() -> None:
    """A call joins the read under way if that began within its `max_age`, else the next one."""
    async with world(max_age=1) as w:
        first = await w.ask()
        await w.clock.advance(0.8)
        young = await w.ask(0.8)
        old = await w.ask(0.7)
        w.source.value = 3
        await w.answer()

        assert w.totals[young] == w.totals[first]
        assert old not in w.totals
        await w.answer()
        assert w.totals[old].value == 3


async def test_different_counters_share_nothing() -> None:
    """Reads of two counters run side by side."""
    async with world() as w:
        await w.ask(counter="a")
        await w.ask(counter="b")

        assert len(w.source.asleep) == 2


STEPS = st.lists(st.sampled_from(["change", "ask", "answer"]), min_size=3, max_size=24)


@given(steps=STEPS)
async def test_property_max_age_zero_sees_every_change_before_the_call(steps: list[str]) -> None:
    """However changes, calls and answers interleave, each call sees the changes before it.

    Of one counter there are never two reads at once, and never more reads than calls.
    """
    async with world(max_age=60) as w:
        missed = await missed_changes(w, w.cache.total, steps)

        assert missed == []
        assert w.source.reads <= max(1, w.calls)


async def test_naive_single_flight_misses_changes() -> None:
    """The mutant: a call that joins a read begun earlier misses a change acknowledged."""
    steps = ["ask", "change", "ask", "answer"]
    async with world() as w:
        naive = NaiveSingleFlight(w.source.read, w.tasks)

        assert await missed_changes(w, naive.total, steps) == [2]
    async with world() as w:
        assert await missed_changes(w, w.cache.total, steps) == []


async def missed_changes(
    w: World, total: Callable[[str, float | None], Awaitable[Total]], steps: list[str]
) -> list[int]:
    """Do the steps, let everything answer, and return the calls that saw too little."""
    due: dict[int, int] = {}

    async def ask(number: int) -> None:
        w.totals[number] = await total("c", 0)

    async with anyio.create_task_group() as tasks:
        for step in steps:
            match step:
                case "change":
                    w.source.value += 1
                case "ask":
                    w.calls += 1
                    due[w.calls] = w.source.value
                    tasks.start_soon(ask, w.calls)
                case "answer" if w.source.asleep:
                    w.source.answer()
            await w.clock.run_pending()
            assert len(w.source.asleep) <= 1
        w.source.free = True
        while w.source.asleep:
            await w.answer()
    assert due.keys() == w.totals.keys()
    return [number for number, value in due.items() if w.totals[number].value < value]


@pytest.mark.parametrize("cancelled", [0, 1, 2])
async def test_cancelled_caller_harms_no_other(cancelled: int) -> None:
    """Of three callers of a read any may be cancelled, the one that began it too."""
    async with world(max_age=1) as w:
        scopes = [anyio.CancelScope() for _ in range(3)]
        heard: list[int] = []

        async def ask(number: int) -> None:
            with scopes[number]:
                await w.cache.total("c")
                heard.append(number)

        async with anyio.create_task_group() as tasks:
            for number in range(3):
                tasks.start_soon(ask, number)
                await w.clock.run_pending()
            scopes[cancelled].cancel()
            await w.clock.run_pending()
            await w.answer()

        assert heard == [number for number in range(3) if number != cancelled]
        assert w.source.reads == 1
        assert (await w.cache.total("c")).cached


async def test_error_reaches_everybody_and_is_not_kept() -> None:
    """All who wait for a read hear its error; the next call reads again."""
    async with world(max_age=60) as w:
        w.source.errors = [Throttled("slow down")]
        calls = [await w.ask() for _ in range(3)]
        await w.answer()
        w.source.free = True

        assert [type(w.errors[call]) for call in calls] == [Throttled] * 3
        assert (await w.cache.total("c")).cached is False
        assert w.source.reads == 2


async def test_error_of_one_read_spares_those_who_wait_for_the_next() -> None:
    """A call that waits for the read after a failed one gets that read's total."""
    async with world() as w:
        w.source.errors = [Throttled("slow down")]
        first, second = await w.ask(0), await w.ask(0)
        await w.answer()
        await w.answer()

        assert first in w.errors
        assert w.totals[second].value == 0


async def test_error_leaves_a_kept_total_alone() -> None:
    """After a failed read a total that is young enough for another call is still given."""
    async with world(max_age=60) as w:
        await w.ask()
        await w.answer()
        w.source.errors = [Throttled("slow down")]
        failed = await w.ask(0)
        await w.answer()

        assert failed in w.errors
        assert (await w.cache.total("c")).cached


async def test_least_recently_used_is_given_up() -> None:
    """At most `counters_max` totals are kept; the one unused for longest goes first."""
    async with world(free=True, max_age=60, counters_max=3) as w:
        for counter in ("a", "b", "c", "a", "d"):
            await w.cache.total(counter)
        assert w.counted("counters") == 3
        reads = w.source.reads
        kept = [(await w.cache.total(counter)).cached for counter in ("a", "c", "d", "b")]

        assert reads == 4
        assert kept == [True, True, True, False]
        assert w.counted("counters") == 3


async def test_stale_total_is_given_while_a_new_one_is_read() -> None:
    """Within `stale_max` beyond `max_age` the old total is given at once, a new one read behind."""
    async with world(max_age=1, stale_max=5) as w:
        await w.ask()
        await w.answer()
        w.source.value = 9
        await w.clock.advance(6)
        stale = [await w.ask() for _ in range(3)]

        assert [w.totals[one].value for one in stale] == [0, 0, 0]
        assert w.source.reads == 2
        await w.answer()
        fresh = await w.ask()
        assert w.totals[fresh].value == 9
        assert w.source.reads == 2


async def test_too_stale_total_is_waited_for() -> None:
    """Beyond `max_age` and `stale_max`, or with an explicit `max_age`, a call waits for a read."""
    async with world(max_age=1, stale_max=5) as w:
        await w.ask()
        await w.answer()
        await w.clock.advance(2)
        explicit = await w.ask(1)
        await w.clock.advance(4.001)
        late = await w.ask()

        assert not {explicit, late} & w.totals.keys()


async def test_failed_refresh_is_nobodys_error() -> None:
    """A read behind a stale total may fail: the stale one is given until it is too old."""
    async with world(max_age=1, stale_max=5) as w:
        await w.ask()
        await w.answer()
        w.source.errors = [Throttled("slow down")]
        await w.clock.advance(2)
        await w.ask()
        await w.answer()
        again = await w.ask()

        assert w.errors == {}
        assert w.totals[again].value == 0
        assert w.source.reads == 3


@pytest.mark.parametrize("turns", [0, 1, 5])
async def test_closing_ends_every_wait(turns: int) -> None:
    """When the cache's tasks are cancelled all callers get an error, however far their read is."""
    source, clock = Source(), FakeClock()
    errors: list[LedgerError] = []
    async with anyio.create_task_group() as callers:
        async with anyio.create_task_group() as tasks:
            cache = TotalCache(
                source.read,
                region=HOME,
                settings=CacheSettings(),
                clock=clock,
                metrics=Metrics(),
                tasks=tasks,
            )

            async def ask(max_age: float) -> None:
                try:
                    await cache.total("c", max_age)
                except LedgerError as error:
                    errors.append(error)

            for max_age in (0, 1, 0):
                callers.start_soon(partial(ask, max_age))
            for _ in range(turns):
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        callers.cancel_scope.deadline = anyio.current_time() + 5

    assert [str(error) for error in errors] == (["the ledger was closed during a read"] * 3)


async def test_many_totals_come_in_order_and_share_reads() -> None:
    """Each counter asked for is there once, read once, with other calls for it sharing the read."""
    async with world() as w:
        found: dict[str, Total] = {}

        async def ask() -> None:
            found.update(await w.cache.totals(["b", "a", "b"], max_age=0))

        w.tasks.start_soon(ask)
        await w.clock.run_pending()
        assert w.source.reads == 2
        w.source.free = True
        for _ in range(2):
            await w.answer()
        assert list(found) == ["b", "a"]
        assert [total.counter for total in found.values()] == ["b", "a"]
        again = await w.cache.totals(["a", "c"], max_age=1)
        assert [total.cached for total in again.values()] == [True, False]
        assert w.source.reads == 3
        assert await w.cache.totals([]) == {}


async def test_many_totals_are_read_a_bounded_number_at_a_time() -> None:
    """Of a thousand counters no more than the bound are read side by side."""
    async with world() as w:
        w.tasks.start_soon(w.cache.totals, [f"c{number}" for number in range(1000)])
        await w.clock.run_pending()
        assert w.source.reads == TOTALS_AT_ONCE
        await w.answer()
        assert w.source.reads == TOTALS_AT_ONCE + 1


@pytest.mark.parametrize("counters", [["a", "b"], ["b"]])
async def test_many_totals_are_all_or_an_error_that_names_the_counter(counters: list[str]) -> None:
    """One that fails gives up the rest; of several its name is in the message, of its own kind."""
    async with world() as w:
        read = w.source.read

        async def read_or_fail(counter: str) -> Total:
            if counter == "b":
                raise Throttled("slow down")
            return await read(counter)

        w.cache._read = read_or_fail
        with pytest.raises(Throttled) as caught:
            await w.cache.totals(counters)
        message = "total of 'b': slow down" if len(counters) > 1 else "slow down"
        assert str(caught.value) == message
