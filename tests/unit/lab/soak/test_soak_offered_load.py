"""The load of a soak: calls at a fixed rate, and what is found if the service loses or doubles."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import anyio
import pytest
from lab.faults.calls import Call, CallResult
from lab.faults.workload import ReadMode, Writer
from lab.soak import offered_load
from lab.soak.offered_load import OfferedWorkload
from support.soaking import REGION, Soaked, soaked

from ledger.demo.harness.checker import Outcome
from ledger.testing import ManualClock

A = Call("record", (("a", 0),))


@asynccontextmanager
async def a_workload(
    place: Soaked, writer: Writer, *, rate: float = 1.0
) -> AsyncIterator[OfferedWorkload]:
    """Open a workload over what writes; it ends with the block."""
    async with anyio.create_task_group() as tasks:
        yield OfferedWorkload(
            place.progress,
            rate=rate,
            settings=place.table.settings,
            writers={REGION: writer},
            read_modes=(fresh(place),),
            tasks=tasks,
        )
        tasks.cancel_scope.cancel()


def fresh(place: Soaked) -> ReadMode:
    """Return reads over HTTP."""
    return ReadMode("fresh", {REGION: place.service}, 0.0, 0.0)


@dataclass(slots=True)
class Answering:
    """Answers at once, but for a stall that ends at a moment."""

    clock: ManualClock
    outcome: Outcome = "acknowledged"
    stalled_until: float = 0.0

    async def call(self, call: Call) -> CallResult | None:
        """Answer a call."""
        await self.clock.sleep(max(0.0, self.stalled_until - self.clock.monotonic()))
        return CallResult(call.number, self.outcome)


@dataclass(frozen=True, slots=True)
class Losing:
    """Acknowledges what it does not write."""

    async def call(self, call: Call) -> CallResult | None:
        """Say that a call was done."""
        return CallResult(call.number, "acknowledged")


@dataclass(frozen=True, slots=True)
class Doubling:
    """Writes all twice."""

    place: Soaked

    async def call(self, call: Call) -> CallResult | None:
        """Make a call twice."""
        await self.place.service.call(call)
        return await self.place.service.call(call)


async def test_a_service_that_writes_what_it_acknowledges_is_right() -> None:
    """Over HTTP, as the run does it."""
    async with soaked() as place, a_workload(place, place.service) as workload:
        assert await workload.call(REGION, A) == "acknowledged"
        await workload.read(REGION, fresh(place), "a")
        assert place.rules == []
        assert place.progress.checker.reads == {"fresh": 1}


async def test_an_acknowledged_change_that_is_lost_is_found() -> None:
    """By the next fresh read of its region."""
    async with soaked() as place, a_workload(place, Losing()) as workload:
        await workload.call(REGION, A)
        await workload.read(REGION, fresh(place), "a")
        assert place.rules == ["P1"]
        assert "change 0 is not counted" in place.progress.wrong[0].text


async def test_a_change_that_counts_twice_is_found() -> None:
    """A call that is carried out again under another key."""
    async with soaked() as place, a_workload(place, Doubling(place)) as workload:
        await workload.call(REGION, A)
        await workload.read(REGION, fresh(place), "a")
        assert place.rules == ["P1"]
        assert "change 0 counted 2 times" in place.progress.wrong[0].text


async def test_in_a_rolling_restart_alone_no_call_may_fail() -> None:
    """While something else is wrong it may."""
    async with soaked() as place:
        refusing = Answering(place.table.clock, "refused")
        async with a_workload(place, refusing) as workload:
            await workload.call(REGION, A)
            assert place.rules == []
            place.progress.is_calm = True
            await workload.call(REGION, replace(A, changes=(("a", 1),)))
            assert place.rules == ["rolling restart"]
            place.progress.late.append((place.table.clock.monotonic(), 1.0))
            await workload.call(REGION, replace(A, changes=(("a", 2),)))
            assert place.rules == ["rolling restart"], "the client was late"
    assert place.progress.curves.intervals[0].outcomes == {"refused": 3}


async def test_a_latency_counts_from_when_its_call_was_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was due while the service was stalled has waited, whenever it was answered."""
    monkeypatch.setattr(offered_load, "WRITE_SHARE", 1.1)
    clock = ManualClock()
    async with soaked() as place:
        place.progress.clock = clock
        stalled = Answering(clock, stalled_until=clock.monotonic() + 10.0)
        async with a_workload(place, stalled, rate=0.5) as workload:
            workload.start()
            await clock.advance(11.0)
            [*_, interval] = place.progress.curves.intervals
            assert interval.calls["write"] == 6
            assert interval.latencies["write"].worst == pytest.approx(10.0)
            assert 3.0 < interval.latencies["write"].p50 < 7.0


async def test_beyond_so_many_under_way_calls_are_counted_not_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No load generator holds an unbounded number of them; the report says how many it left out."""
    monkeypatch.setattr(offered_load, "WRITE_SHARE", 1.1)
    monkeypatch.setattr(offered_load, "UNDER_WAY_MAX", 2)
    clock = ManualClock()
    async with soaked() as place:
        place.progress.clock = clock
        stalled = Answering(clock, stalled_until=clock.monotonic() + 1e6)
        async with a_workload(place, stalled) as workload:
            workload.start()
            await clock.advance(4.5)
            left_out = sum(
                interval.calls["not offered"] for interval in place.progress.curves.intervals
            )
            assert left_out == 3
