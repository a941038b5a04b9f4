"""The end of a run: everything is replicated and merged, then P2 to P5 are checked."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import TypeVar

from lab.faults.report import FaultProgress
from lab.faults.workload import ReadMode, Workload
from ledger.core.errors import ReadTooSlow, StoreError
from ledger.demo.harness.census import Census, take_census, wait_merged
from ledger.demo.harness.table import TestTable
from ledger.runtime.tasks import run_all

READS_AT_ONCE = 3
READ_SECONDS_MAX = 60.0
"""How long a read is repeated before it counts as failed: the machine may be busy."""
READ_PAUSE_SECONDS = 0.5

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class EndChecks:
    """What must hold at the end of a run, once no fault is injected any more."""

    table: TestTable
    workload: Workload
    progress: FaultProgress
    fresh: ReadMode

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
        if not progress.checker.has_lost:  # what arrived in part is completed by merging
            await self._check_totals("before everything is merged")
        progress.phase = "merging the rest, reading all the while"
        await wait_merged(self._census, progress.clock)
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
        progress, checker = self.progress, self.progress.checker
        progress.phase = "reading every counter in every region"
        self.workload.is_reading = False  # these reads are enough for a busy machine
        shown: dict[str, dict[str, Decimal]] = {}
        counters = checker.counters  # calls that are refused may begin others meanwhile
        for region in self.table.regions:
            reads = [partial(self._total, region, counter) for counter in counters]
            totals = await run_all(reads, at_once=READS_AT_ONCE)
            shown[region] = dict(zip(counters, totals, strict=True))
        self.workload.is_reading = True
        for violation in checker.check_rest(shown):
            progress.add(violation)
        progress.checked.append(
            f"P2: {len(counters):,} counters the same in {len(shown)} regions {when};"
            f" P3: all {checker.tally()['acknowledged'] - checker.lost_changes:,} acknowledged"
            f" changes there{self._lost()}"
        )

    def _lost(self) -> str:
        lost = self.progress.checker.lost_changes
        return f", but {lost:,} of the lost region's own" if lost else ""

    async def _total(self, region: str, counter: str) -> Decimal:
        ledger = self.fresh.ledgers[region]
        return (await self._repeat(lambda: ledger.total(counter, max_age=0))).value

    async def _repeat(self, read: Callable[[], Awaitable[Result]]) -> Result:
        """Repeat a read that fails, for a bounded time."""
        clock = self.progress.clock
        give_up = clock.monotonic() + READ_SECONDS_MAX
        while True:
            try:
                return await read()
            except (ReadTooSlow, StoreError):
                if clock.monotonic() > give_up:
                    raise
                await clock.sleep(READ_PAUSE_SECONDS)

    async def _census(self) -> list[Census]:
        seen = [
            await self._repeat(partial(take_census, store)) for store in self.table.stores.values()
        ]
        self.progress.entries = max(census.entries.total() for census in seen)
        self.progress.merged = seen[0].merged
        return seen

    async def _check_collections(self) -> None:
        """Check P4: each collection is one net change in every region, and nothing else."""
        seen = dict(zip(self.table.regions, await self._census(), strict=True))
        partitions = sorted(
            {name for counted in seen.values() for name in (*counted.entries, *counted.nets)}
        )
        for region, census in seen.items():
            for partition in partitions:
                entries, nets = census.entries[partition], census.nets[partition]
                if entries or nets != 1:
                    text = f"{partition} in {region} ends as {nets} net changes, {entries} entries"
                    self.progress.add(self.progress.checker.violation("P4", text, partition))
        self.progress.checked.append(
            f"P4: {len(partitions):,} collections of one net change each,"
            f" {self.progress.merged:,} entries merged"
        )
