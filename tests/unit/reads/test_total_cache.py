"""The cache of totals: how fresh, how shared, how bounded."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from decimal import Decimal

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.caching import Read, World, world

from ledger.core.errors import Throttled
from ledger.reads.total import Total
from ledger.reads.total_cache import AHEAD_MAX, READS_AT_ONCE


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


async def test_young_total_is_given_without_a_read() -> None:
    """Up to its `max_age` a kept total is given again, says so, and its age is counted."""
    async with world(free=True, max_age=1) as w:
        first = await w.cache.total("c")
        w.source.value = 5
        await w.clock.advance(1)
        second = await w.cache.total("c")

        assert (first.value, first.cached) == (Decimal(0), False)
        assert second == replace(first, cached=True)
        assert await w.cache.total("c", 5) is second  # made once
        assert w.source.reads == 1
        assert (w.counted("hits_total"), w.counted("misses_total")) == (2, 1)
        assert w.counted("age_seconds_sum") == 2


async def test_old_total_is_read_again() -> None:
    """Past its `max_age` a kept total is read again."""
    async with world(free=True, max_age=1) as w:
        await w.cache.total("c")
        w.source.value = 5
        await w.clock.advance(1.001)
        total = await w.cache.total("c")

        assert (total.value, total.cached) == (Decimal(5), False)
        assert w.counted("misses_total") == 2


@pytest.mark.parametrize("ages", [{"max_age": 1}, {"max_age": 1, "stale_max": 60}])
async def test_a_total_from_before_a_suspension_is_old(ages: dict[str, float]) -> None:
    """Ten hours by the wall clock make a total ten hours old, whatever the monotonic clock says."""
    async with world(free=True, **ages) as w:
        await w.cache.total("c")
        w.source.value = 5
        w.clock.suspend(36_000)

        assert (await w.cache.total("c")).value == Decimal(5)


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
        assert w.source.reads == READS_AT_ONCE
        await w.answer()
        assert w.source.reads == READS_AT_ONCE + 1


async def test_a_call_for_many_totals_leaves_a_bounded_number_of_reads_behind() -> None:
    """If it is cancelled, no more reads follow than it had asked for ahead."""
    async with world(free=True) as w:
        w.source.free = False
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(w.cache.totals, [f"c{number}" for number in range(1000)])
                await w.clock.run_pending()
                w.source.free = True
                scope.cancel()
        while w.source.asleep:
            await w.answer()
        assert w.source.reads == AHEAD_MAX


async def test_reads_take_turns() -> None:
    """A counter that is asked for all the time holds up no other: its next read waits its turn."""
    async with world() as w:
        for number in range(READS_AT_ONCE):
            await w.ask(0, f"c{number}")
            await w.ask(0, f"c{number}")
        last = await w.ask(0, "other")
        assert w.source.reads == READS_AT_ONCE

        await w.answer()  # of the first counter, which has been asked for again
        for _ in range(READS_AT_ONCE):
            await w.answer()
        assert last in w.totals


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
