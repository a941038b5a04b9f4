"""The end of a run: all heals, arrives and is merged to rest; then P2 to P5 are checked."""

from collections.abc import Awaitable, Callable, Mapping
from decimal import Decimal
from functools import partial
from typing import TypeVar

from ledger.core.errors import ReadTooSlow, StoreError
from ledger.lab.chaos.judge import Judge, Wrong
from ledger.lab.chaos.state import Progress
from ledger.lab.chaos.workload import Reading, Workload
from ledger.lab.harness.census import Census, take_census
from ledger.local import LocalGlobalTable
from ledger.runtime.clock import Clock
from ledger.runtime.tasks import run_all
from ledger.store.port import Store

STILL_SECONDS_MAX = 60.0
"""How long merging may stand still before it counts as done, or stuck."""
MERGE_POLL_SECONDS = 0.5
READS_AT_ONCE = 3
READ_SECONDS_MAX = 60.0
"""How long something is asked for before it counts as unreadable: the machine may be busy."""

Result = TypeVar("Result")


class Ending:
    """Brings a run to rest and checks what must hold there; faults and cuts are over by now."""

    def __init__(
        self,
        world: LocalGlobalTable,
        judge: Judge,
        workload: Workload,
        progress: Progress,
        *,
        stores: Mapping[str, Store],
        fresh: Reading,
        clock: Clock,
    ) -> None:
        self._world = world
        self._judge = judge
        self._workload = workload
        self._progress = progress
        self._stores = stores
        self._fresh = fresh
        self._clock = clock

    async def check(self, stop_merging: Callable[[], Awaitable[None]]) -> None:
        """Check everything; what is wrong is told to the workload.

        Raises:
            StoreError, ReadTooSlow: a region cannot be read, although nothing is wrong with it.
            LocalTableError: what was written does not arrive.
        """
        progress = self._progress
        progress.phase = "waiting for the last calls to end"
        await self._workload.stop_writing()
        progress.phase = "waiting until every change has reached every region"
        await self._world.wait_replicated()
        progress.phase = "reading every counter in every region"
        await self._check_totals("before all is merged")
        progress.phase = "merging the rest, reading all the while"
        await self._merge()
        await stop_merging()
        await self._world.wait_replicated()
        await self._check_small()
        progress.phase = "repeating keyed calls, too late"
        await self._workload.repeat_late()
        refused = progress.repeats["late"]
        told = f"{sum(progress.repeats.values()):,} repeats, {refused:,} too late and refused"
        progress.checked.append(f"P5: {told}; no change counted twice")
        progress.phase = "reading every counter in every region"
        await self._world.wait_replicated()
        await self._check_totals("after all is merged")

    async def _check_totals(self, when: str) -> None:
        """Check P2 and P3: all regions show the same, and all that was acknowledged."""
        self._workload.is_reading = False  # a busy machine has enough to do with these
        shown = {
            region: dict(
                await run_all(
                    [partial(self._total, region, counter) for counter in self._judge.counters],
                    at_once=READS_AT_ONCE,
                )
            )
            for region in self._stores
        }
        self._workload.is_reading = True
        for wrong in self._judge.at_rest(shown):
            self._workload.wrong(wrong)
        counters, durable = len(self._judge.counters), self._judge.tally()["acknowledged"]
        told = f"{counters:,} counters the same in {len(shown)} regions {when}"
        self._progress.checked.append(f"P2: {told}; P3: all {durable:,} acknowledged changes there")

    async def _total(self, region: str, counter: str) -> tuple[str, Decimal]:
        ledger = self._fresh.ledgers[region]
        total = await self._patiently(lambda: ledger.total(counter, max_age=0))
        return counter, total.value

    async def _patiently(self, read: Callable[[], Awaitable[Result]]) -> Result:
        """Read what cannot be read at once again, for a bounded time."""
        give_up = self._clock.monotonic() + READ_SECONDS_MAX
        while True:
            try:
                return await read()
            except (ReadTooSlow, StoreError):
                if self._clock.monotonic() > give_up:
                    raise
                await self._clock.sleep(MERGE_POLL_SECONDS)

    async def _merge(self) -> None:
        """Wait until no region shows an entry any more, or merging stands still.

        What is left then is a broken promise (P4), told by `_check_small`.
        """
        before, since = "", self._clock.monotonic()
        while self._clock.monotonic() - since < STILL_SECONDS_MAX:
            seen = [await self._census(store) for store in self._stores.values()]
            if not any(census.entries for census in seen):
                return
            now = str([(census.entries.total(), census.merged) for census in seen])
            if now != before:
                before, since = now, self._clock.monotonic()
            await self._clock.sleep(MERGE_POLL_SECONDS)

    async def _census(self, store: Store) -> Census:
        census = await self._patiently(lambda: take_census(store))
        self._progress.entries, self._progress.merged = census.entries.total(), census.merged
        return census

    async def _check_small(self) -> None:
        """Check P4: each collection is one net change in every region, and nothing else."""
        partitions: set[str] = set()
        for region, store in self._stores.items():
            census = await self._census(store)
            partitions |= census.partitions
            for partition in sorted(partitions | census.partitions):
                entries, nets = census.entries[partition], census.nets[partition]
                if entries or nets != 1:
                    text = f"{partition} in {region} ends as {nets} net changes, {entries} entries"
                    knew = self._judge.knows(partition)
                    self._workload.wrong(Wrong("P4", text, partition, knew))
        told = f"{len(partitions):,} collections of one net change each"
        self._progress.checked.append(f"P4: {told}, {self._progress.merged:,} entries merged")
