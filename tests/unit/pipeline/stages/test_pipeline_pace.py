"""How often a source that goes on is read: few records do not pay for a batch of their own."""

from collections import Counter
from collections.abc import AsyncGenerator, Sequence

import anyio
import pytest
from support.lanes import lane_worker
from support.ledgers import HOME
from support.pipelines import deliveries, message, shown, truth

from ledger.pipeline.core.records import Delivery
from ledger.pipeline.stages.read_pace import TOGETHER, ReadPace
from ledger.store.memory import MemoryStore
from ledger.store.wrappers.faults import FaultCall, FaultyStore
from ledger.testing.clock import ManualClock

LOOK_SECONDS = 0.02
RATE = 150
RAWS = [message(f"T{number % 40}", number, number) for number in range(1, 3 * RATE + 1)]


def test_a_lane_reads_once_enough_records_have_come_by_the_rate_of_the_last_ones() -> None:
    """At 1,000 a second that takes a tenth of a second, at 10 a second the longest wait."""
    pace = ReadPace(1.0, at=10.0)
    pace.read(500, at=10.5)
    assert pace.next() == pytest.approx(10.5 + TOGETHER / 1000)
    pace.read(100, at=11.0)  # a full batch, and what was left after it
    pace.read(1, at=11.01)
    assert pace.next() == pytest.approx(11.01 + 0.51 * TOGETHER / 101)
    pace.read(1, at=11.11)
    assert pace.next() == pytest.approx(12.11)
    assert pace.next() == pytest.approx(11.11)


class Growing:
    """A file to which records are added at a steady rate, and that is looked at often."""

    def __init__(self, records: Sequence[Delivery], clock: ManualClock, *, is_live: bool) -> None:
        self.is_live = is_live
        self._records = records
        self._clock = clock

    async def batches(self, after: str, *, most: int) -> AsyncGenerator[Sequence[Delivery], None]:
        """Yield what has come."""
        left = [record for record in self._records if record.position > after]
        gone = len(self._records) - len(left)
        while left:
            await self._clock.sleep(LOOK_SECONDS)
            come = int(self._clock.monotonic() * RATE) - gone
            if found := left[: min(come, most)]:
                yield found
                left, gone = left[len(found) :], gone + len(found)


@pytest.mark.parametrize(
    ("is_live", "reduce_every", "transactions"),
    [(True, 0.25, range(6, 11)), (True, 0, range(200, 400)), (False, 0.25, range(20, 400))],
)
async def test_records_of_a_live_source_share_a_batch(
    *, is_live: bool, reduce_every: float, transactions: range
) -> None:
    """At 150 a second a batch holds most of a second's, unless nothing is to be gathered."""
    store, clock, operations = MemoryStore(HOME), ManualClock(instant=True), Counter[str]()

    def count(call: FaultCall) -> None:
        operations[call.operation] += 1

    source = Growing(deliveries(RAWS), clock, is_live=is_live)
    worker = lane_worker(source, FaultyStore(store, count), clock=clock, reduce_every=reduce_every)
    await worker.run()
    assert shown(store.table) == truth(RAWS)
    assert operations["transact"] in transactions  # half of them commit


async def test_a_lane_that_is_stopped_does_not_wait_for_more() -> None:
    """What was read is brought in at once."""
    store, clock = MemoryStore(HOME), ManualClock()

    class Waiting(Growing):
        async def batches(
            self, after: str, *, most: int
        ) -> AsyncGenerator[Sequence[Delivery], None]:
            assert not after
            await self._clock.sleep(5.0)
            yield self._records[: min(1, most)]
            raise AssertionError("read after the stop")

    worker = lane_worker(
        Waiting(deliveries(RAWS), clock, is_live=True), store, clock=clock, reduce_every=60
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(worker.run)
        await clock.advance(6.0)
        worker.stop()
        await clock.advance(61.0)
    assert shown(store.table) == truth(RAWS[:1])
