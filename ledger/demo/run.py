"""One run of the demo: write from every region, read and check all along, merge, compare.

While changes are written, probes check every read from outside (`ledger.demo.harness.probes`). Once
all has replicated, every total of every counter must be the expected one, read after read, while
the compactor goes on merging.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any

import anyio
from prometheus_client import CollectorRegistry

from compactor import Compactor
from ledger.core import amounts
from ledger.core.errors import NotSent
from ledger.demo import naive
from ledger.demo.change_sample import ChangeSample
from ledger.demo.harness.census import Census, take_census, wait_merged
from ledger.demo.harness.probes import PREFIX, Probe
from ledger.demo.harness.table import TestTable, open_table
from ledger.demo.harness.totals import ShownTotals, read_totals
from ledger.demo.report import REGIONS, DemoOptions, DemoProgress, DemoReport
from ledger.runtime.clock import Clock
from ledger.runtime.metrics import summed
from ledger.runtime.tasks import background_tasks, run_all
from ledger.session.ledger import Ledger
from ledger.settings import Settings
from ledger.writes.entry_plan import Change

PROBES = 6
CHUNK = 20
ADDS_AT_ONCE = 8
TRIES_MAX = 20
READ_PAUSE_SECONDS = 0.02
MERGE_EVERY_SECONDS = 0.5
CUT_FROM, CUT_TO = 0.3, 0.7
"""The share of the changes that are written when two regions are cut off, and when they heal."""
TIMES: Mapping[str, Any] = {
    "settle": 4.0,
    "retry_horizon": 1.0,
    "observation_delay": 0.6,
    "write_deadline": 1.0,
}
MERGING = {"fold_min": 20, "fold_age": 8.0, "lease": 6.0, "heartbeat": 1.0}
UNITS = "ledger_consumed_units_total"


async def merge(settings: Settings, registry: CollectorRegistry) -> None:
    """Run the compactor until cancelled; its metrics go to `registry`."""
    await Compactor(settings, registry=registry).run_every(MERGE_EVERY_SECONDS)


async def until_sent(write: Callable[[], Awaitable[object]]) -> None:
    """Make a write, and make it again if a busy machine did not send it in time.

    Raises:
        NotSent: `TRIES_MAX` tries were not sent; nothing was written.
    """
    for _ in range(TRIES_MAX - 1):
        with suppress(NotSent):
            await write()
            return
    await write()


class DemoRun:
    """One run of the demo."""

    def __init__(self, sample: ChangeSample, options: DemoOptions, *, clock: Clock) -> None:
        self.progress = DemoProgress(len(sample.changes))
        self._sample = sample
        self._options = options
        self._clock = clock
        self._random = Random(options.seed)  # noqa: S311 (chooses what is read, nothing secret)
        self._probes = [Probe(f"{PREFIX}{number}") for number in range(PROBES)]
        self._is_replicated = False
        self._registry = CollectorRegistry()

    async def run(self) -> DemoReport:
        """Run it all and report.

        Raises:
            LedgerError: something could not be done; a wrong total is the verdict, not an error.
        """
        started = self._clock.monotonic()
        async with open_table(self._options, REGIONS, **TIMES, compactor=MERGING) as table:
            ledgers = await table.ledgers(registry=self._registry)
            async with background_tasks() as tasks:
                tasks.start_soon(merge, table.settings, self.progress.merging)
                for ledger in ledgers.values():
                    tasks.start_soon(self._read_on, ledger)
                await self._write(table, ledgers)
                self.progress.phase = "merging the rest, reading all the while"
                await wait_merged(lambda: self._census(table), self._clock)
                self.progress.phase = "reading every counter in every region"
                return await self._report(table, ledgers, started)

    async def _write(self, table: TestTable, ledgers: Mapping[str, Ledger]) -> None:
        """Write every change to the ledger and to a single-item counter, from three regions."""
        self.progress.phase = "writing from three regions, merging behind"
        async with anyio.create_task_group() as tasks:
            for place, ledger in enumerate(ledgers.values()):
                changes = self._sample.changes[place :: len(REGIONS)]
                tasks.start_soon(self._write_region, table, ledger, changes)
        self.progress.phase = "waiting until every change has reached every region"
        await table.heal()
        self._is_replicated = True

    def _partition(self, table: TestTable) -> None:
        """Cut the home region off from another while a part of the changes is written."""
        share = self.progress.recorded.total() / len(self._sample.changes)
        is_cut = CUT_FROM <= share < CUT_TO
        if is_cut == bool(self.progress.partition):
            return
        here, there = REGIONS[:2]
        self.progress.partition = f"{here} and {there} are cut off from each other" * is_cut
        if is_cut:
            table.cut([(here, there), (there, here)])
        else:
            table.world.heal_all()

    async def _write_region(
        self, table: TestTable, ledger: Ledger, changes: Sequence[Change]
    ) -> None:
        """Write one region's changes, spread over the time given."""
        region, started = ledger.region, self._clock.monotonic()
        store = table.stores[region]
        pause = self._options.seconds / max(1, len(changes))
        for first in range(0, len(changes), CHUNK):
            chunk = changes[first : first + CHUNK]
            await until_sent(partial(ledger.record_many, chunk))
            self.progress.recorded[region] += len(chunk)
            self._partition(table)
            adds = [
                partial(naive.add, store, change.counter, amounts.exact(change.change))
                for change in chunk
            ]
            self.progress.added[region] += sum(await run_all(adds, at_once=ADDS_AT_ONCE))
            await self._write_probe(ledger)
            due = started + (first + len(chunk)) * pause
            await self._clock.sleep(max(0.0, due - self._clock.monotonic()))

    async def _write_probe(self, ledger: Ledger) -> None:
        probe = self._random.choice(self._probes)
        following = probe.next_change()
        if following is not None:
            number, change = following
            await until_sent(partial(ledger.record, probe.counter, change))
            probe.acknowledge(ledger.region, number)

    async def _read_on(self, ledger: Ledger) -> None:
        """Read and check probes, and once all has replicated the other counters as well."""
        accounts = list(self._sample.expected)
        while True:  # until cancelled
            probe = self._random.choice(self._probes)
            read = probe.begin_read(ledger.region)
            total = await ledger.total(probe.counter, max_age=0)
            self.progress.add_read(probe.end_read(read, total.value))
            if self._is_replicated:
                await self._check(ledger, self._random.choice(accounts))
            await self._clock.sleep(READ_PAUSE_SECONDS)

    async def _check(self, ledger: Ledger, account: str) -> None:
        """Read a counter that has wholly replicated: its total must be the expected one."""
        expected = {account: self._sample.expected[account]}
        self._check_totals(await read_totals({ledger.region: ledger}, expected))

    def _check_totals(self, found: Sequence[ShownTotals]) -> None:
        self.progress.reads += sum(len(totals.expected) for totals in found)
        self.progress.wrong += [sentence for totals in found for sentence in totals.wrong]

    async def _census(self, table: TestTable) -> list[Census]:
        seen = [await take_census(store) for store in table.stores.values()]
        self.progress.entries = {
            region: census.entries.total()
            for region, census in zip(table.regions, seen, strict=True)
        }
        return seen

    async def _report(
        self,
        table: TestTable,
        ledgers: Mapping[str, Ledger],
        started: float,
    ) -> DemoReport:
        changes, expected = len(self._sample.changes), self._sample.expected
        probes = {probe.counter: probe.expected_total() for probe in self._probes}
        found = await read_totals(ledgers, expected)
        self._check_totals([*found, *await read_totals(ledgers, probes)])
        single = {
            region: await naive.read_all(store, list(expected))
            for region, store in table.stores.items()
        }
        probe_changes = sum(probe.written for probe in self._probes)
        census = await take_census(table.stores[table.settings.home])
        folds = self.progress.merged("folds")
        return DemoReport(
            changes=changes,
            ledger=found,
            single=[
                ShownTotals(region, {name: value for name, (value, _) in kept.items()}, expected)
                for region, kept in single.items()
            ],
            lost=[changes - sum(count for _, count in kept.values()) for kept in single.values()],
            reads=self.progress.reads,
            wrong=self.progress.wrong,
            items_before=changes + probe_changes,
            items_after=census.entries.total() + census.nets.total(),
            write_units=summed(self._registry, UNITS, kind="write") - probe_changes,
            merge_units=summed(self.progress.merging, UNITS, kind="write"),
            merge_read_units=summed(self.progress.merging, UNITS, kind="read"),
            entries_per_fold=self.progress.merged("entries_merged") / max(folds, 1.0),
            seconds=self._clock.monotonic() - started,
        )
