"""The end of a run: everything is replicated and merged, then P2 to P5 are checked."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import TypeVar

from prometheus_client import CollectorRegistry

from lab.faults.report import FaultProgress
from lab.faults.workload import ReadMode, Workload
from lab.harness.config import without_terms
from ledger.core import amounts, ids
from ledger.core.errors import ReadTooSlow, StoreError
from ledger.core.values import Entry
from ledger.demo.harness.census import Census, take_census, wait_merged
from ledger.demo.harness.digit_tags import digits
from ledger.demo.harness.table import TestTable
from ledger.runtime.tasks import run_all
from ledger.session.ledger import Ledger

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
        if self.table.settings.archive:
            await self._check_histories()

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

    async def _check_histories(self) -> None:
        """Check that each history has what its total counts, change by change, in order."""
        progress, counters = self.progress, self.progress.checker.counters
        progress.phase = "reading every history in every region"
        found = Counter[str]()
        settings = without_terms(self.table.settings)
        for region in self.table.regions:
            opening = Ledger.open(settings, region=region, registry=CollectorRegistry())
            async with opening as ledger:
                for counter in counters:
                    entries = await self._repeat(partial(_history, ledger, counter))
                    found["changes"] += len(entries)
                    found["parts"] += sum(ids.split(entry.id)[1] is not None for entry in entries)
                    if said := wrong_history(entries, await self._total(region, counter)):
                        text = f"the history of {counter} in {region}: {said}"
                        progress.add(progress.checker.violation("history", text, counter))
        progress.checked.append(
            f"history: {found['changes']:,} changes once each in {len(self.table.regions)} regions,"
            f" {found['parts']:,} of them in items that several may share"
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


async def _history(ledger: Ledger, counter: str) -> list[Entry]:
    return [entry async for entry in ledger.history(counter)]


def wrong_history(entries: Sequence[Entry], total: Decimal) -> str:
    """Return what is wrong with a history, of which each entry is to be one change of a total.

    Empty if nothing is: a right total counts each change once, so the sum says which are there.
    """
    for before, entry in zip(("", *(one.id for one in entries)), entries, strict=False):
        if entry.id <= before:
            return f"{entry.id} comes after {before}"
        if [*digits(entry.change).values()] != [1] or entry.count != 1:
            return f"{entry.id} is {entry.change}, which is not one change"
    found = amounts.total_wide([entry.change for entry in entries])
    return "" if found == total else f"it adds up to {found}, and the total is {total}"
