"""The end of a run: everything is replicated and merged, then P2 to P5 are checked."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import TypeVar

from ledger.core.errors import ReadTooSlow, StoreError
from ledger.lab.chaos.report import ChaosProgress
from ledger.lab.chaos.workload import ReadMode, Workload
from ledger.lab.harness.census import Census, take_census
from ledger.lab.harness.checker import TaggedChecker
from ledger.lab.harness.table import TestTable
from ledger.runtime.clock import Clock
from ledger.runtime.tasks import run_all
from ledger.store.port import Store

STILL_SECONDS_MAX = 60.0
"""How long merging may make no progress before it counts as done, or stuck."""
MERGE_POLL_SECONDS = 0.5
READS_AT_ONCE = 3
READ_SECONDS_MAX = 60.0
"""How long a read is repeated before it counts as failed: the machine may be busy."""

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class EndChecks:
    """What must hold at the end of a run, once no fault is injected any more."""

    table: TestTable
    checker: TaggedChecker
    workload: Workload
    progress: ChaosProgress
    fresh: ReadMode
    clock: Clock

    async def run(self, stop_merging: Callable[[], Awaitable[None]]) -> None:
        """Check everything; violations go to the progress.

        Raises:
            StoreError, ReadTooSlow: a region cannot be read, although nothing is wrong with it.
            LocalTableError: what was written does not arrive.
        """
        progress = self.progress
        progress.phase = "waiting for the last calls to end"
        await self.workload.stop_writing()
        progress.phase = "waiting until every change has reached every region"
        await self.table.wait_replicated()
        await self._check_totals("before everything is merged")
        progress.phase = "merging the rest, reading all the while"
        await self._wait_merged()
        await stop_merging()
        await self.table.wait_replicated()
        await self._check_collections()
        progress.phase = "repeating keyed calls, too late"
        await self.workload.repeat_late()
        repeats, refused = progress.repeats.total(), progress.repeats["late"]
        progress.checked.append(
            f"P5: {repeats:,} repeats, {refused:,} too late and refused; no change counted twice"
        )
        await self.table.wait_replicated()
        await self._check_totals("after everything is merged")

    async def _check_totals(self, when: str) -> None:
        """Check P2 and P3: all regions show the same, and all that was acknowledged."""
        self.progress.phase = "reading every counter in every region"
        self.workload.is_reading = False  # these reads are enough for a busy machine
        counters = self.checker.counters
        shown = {
            region: dict(
                await run_all(
                    [partial(self._total, region, counter) for counter in counters],
                    at_once=READS_AT_ONCE,
                )
            )
            for region in self.table.regions
        }
        self.workload.is_reading = True
        for violation in self.checker.check_rest(shown):
            self.progress.add(violation)
        durable = self.checker.tally()["acknowledged"]
        self.progress.checked.append(
            f"P2: {len(counters):,} counters the same in {len(shown)} regions {when};"
            f" P3: all {durable:,} acknowledged changes there"
        )

    async def _total(self, region: str, counter: str) -> tuple[str, Decimal]:
        ledger = self.fresh.ledgers[region]
        total = await self._repeat(lambda: ledger.total(counter, max_age=0))
        return counter, total.value

    async def _repeat(self, read: Callable[[], Awaitable[Result]]) -> Result:
        """Repeat a read that fails, for a bounded time."""
        give_up = self.clock.monotonic() + READ_SECONDS_MAX
        while True:
            try:
                return await read()
            except (ReadTooSlow, StoreError):
                if self.clock.monotonic() > give_up:
                    raise
                await self.clock.sleep(MERGE_POLL_SECONDS)

    async def _wait_merged(self) -> None:
        """Wait until no region shows an entry any more, or merging makes no progress.

        What is left then is a broken promise (P4), found by `_check_collections`.
        """
        before, since = "", self.clock.monotonic()
        while self.clock.monotonic() - since < STILL_SECONDS_MAX:
            seen = [await self._census(store) for store in self.table.stores.values()]
            if not any(census.entries for census in seen):
                return
            now = str([(census.entries.total(), census.merged) for census in seen])
            if now != before:
                before, since = now, self.clock.monotonic()
            await self.clock.sleep(MERGE_POLL_SECONDS)

    async def _census(self, store: Store) -> Census:
        census = await self._repeat(lambda: take_census(store))
        self.progress.entries, self.progress.merged = census.entries.total(), census.merged
        return census

    async def _check_collections(self) -> None:
        """Check P4: each collection is one net change in every region, and nothing else."""
        partitions: set[str] = set()
        for region, store in self.table.stores.items():
            census = await self._census(store)
            partitions |= census.partitions
            for partition in sorted(partitions):
                entries, nets = census.entries[partition], census.nets[partition]
                if entries or nets != 1:
                    text = f"{partition} in {region} ends as {nets} net changes, {entries} entries"
                    self.progress.add(self.checker.violation("P4", text, partition))
        self.progress.checked.append(
            f"P4: {len(partitions):,} collections of one net change each,"
            f" {self.progress.merged:,} entries merged"
        )
