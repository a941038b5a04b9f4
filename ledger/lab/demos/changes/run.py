"""One run of the demo: write from every region, read and check all along, merge, compare.

While changes are written, probes check every read from outside (`ledger.lab.harness.probes`). Once
all has replicated, every total of every counter must be the expected one, read after read, while
the compactor goes on merging.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from random import Random
from typing import Any

import anyio
from prometheus_client import CollectorRegistry

from ledger.core import amounts
from ledger.lab.demos.changes import naive
from ledger.lab.demos.changes.report import REGIONS, DemoOptions, DemoProgress, DemoReport, Outcome
from ledger.lab.demos.changes.sample import Sample
from ledger.lab.harness.census import take_census
from ledger.lab.harness.compactor_process import CompactorProcess, run_compactor
from ledger.lab.harness.probes import PREFIX, Probe
from ledger.lab.harness.table import TestTable, open_table
from ledger.ledger import Ledger
from ledger.runtime.clock import Clock
from ledger.runtime.metrics import summed
from ledger.runtime.tasks import background_tasks, run_all
from ledger.store.port import Store
from ledger.writing.plan import Change

PROBES = 6
CHUNK = 20
ADDS_AT_ONCE = 8
READS_AT_ONCE = 16
READ_PAUSE_SECONDS = 0.02
WATCH_SECONDS = 0.5
MERGE_SECONDS_MAX = 600.0
PARTITION_FROM, PARTITION_TO = 0.3, 0.7
TIMES: Mapping[str, Any] = {
    "settle": 4.0,
    "retry_horizon": 1.0,
    "observation_delay": 0.6,
    "write_deadline": 1.0,
}
MERGING = {"fold_min": 20, "fold_age": 8.0, "lease": 6.0, "heartbeat": 1.0}


@dataclass(frozen=True, slots=True)
class _Participants:
    """What takes part in a run; `registry` has what its ledgers consume."""

    table: TestTable
    ledgers: Mapping[str, Ledger]
    compactor: CompactorProcess
    registry: CollectorRegistry


class DemoRun:
    """One run of the demo."""

    def __init__(self, sample: Sample, options: DemoOptions, *, clock: Clock) -> None:
        self.progress = DemoProgress(sample)
        self._sample = sample
        self._options = options
        self._clock = clock
        self._random = Random(options.seed)  # noqa: S311 (chooses what is read, nothing secret)
        self._probes = [Probe(f"{PREFIX}{number}") for number in range(PROBES)]
        self._is_replicated = False

    async def run(self) -> DemoReport:
        """Run it all and report.

        Raises:
            LedgerError: something could not be done; a wrong total is the verdict, not an error.
        """
        started, registry = self._clock.monotonic(), CollectorRegistry()
        async with open_table(self._options, REGIONS, **TIMES, compactor=MERGING) as table:
            ledgers = await table.ledgers(registry=registry)
            async with run_compactor(table.settings, table.folder, every="500ms") as compactor:
                participants = _Participants(table, ledgers, compactor, registry)
                async with background_tasks() as tasks:
                    for ledger in ledgers.values():
                        tasks.start_soon(self._read_on, ledger)
                    tasks.start_soon(self._watch, compactor)
                    await self._write(participants)
                    await self._wait_merged(table)
                self.progress.phase = "reading every counter in every region"
                return await self._report(participants, started)

    async def _write(self, participants: _Participants) -> None:
        """Write every change to the ledger and to a single-item counter, from three regions."""
        self.progress.phase = "writing from three regions, merging behind"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._partition, participants.table)
            for place, ledger in enumerate(participants.ledgers.values()):
                changes = self._sample.changes[place :: len(REGIONS)]
                store = participants.table.stores[ledger.region]
                tasks.start_soon(self._write_region, ledger, store, changes)
        self.progress.phase = "waiting until every change has reached every region"
        await participants.table.heal()
        self._is_replicated = True

    async def _partition(self, table: TestTable) -> None:
        """Cut the home region off from another for a while, in both directions."""
        here, there = REGIONS[:2]
        await self._clock.sleep(self._options.seconds * PARTITION_FROM)
        table.cut([(here, there), (there, here)])
        self.progress.partition = f"{here} and {there} are cut off from each other"
        await self._clock.sleep(self._options.seconds * (PARTITION_TO - PARTITION_FROM))
        table.world.heal_all()
        self.progress.partition = ""

    async def _write_region(self, ledger: Ledger, store: Store, changes: Sequence[Change]) -> None:
        """Write one region's changes, spread over the time given."""
        region, started = ledger.region, self._clock.monotonic()
        chunks = [changes[start : start + CHUNK] for start in range(0, len(changes), CHUNK)]
        pause = self._options.seconds / max(1, len(chunks))
        for number, chunk in enumerate(chunks, start=1):
            await ledger.record_many(chunk)
            self.progress.recorded[region] += len(chunk)
            adds = [
                partial(naive.add, store, one.counter, amounts.exact(one.change)) for one in chunk
            ]
            self.progress.added[region] += sum(await run_all(adds, at_once=ADDS_AT_ONCE))
            await self._write_probe(ledger)
            await self._clock.sleep(max(0.0, started + number * pause - self._clock.monotonic()))

    async def _write_probe(self, ledger: Ledger) -> None:
        probe = self._random.choice(self._probes)
        following = probe.next_change()
        if following is not None:
            number, change = following
            await ledger.record(probe.counter, change)
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

    async def _check(self, ledger: Ledger, account: str) -> Decimal:
        """Read a counter that has wholly replicated: its total must be the expected one."""
        total = await ledger.total(account, max_age=0)
        expected = self._sample.expected[account]
        wrong = f"{account} in {ledger.region}: {total.value} instead of {expected}"
        self.progress.add_read(wrong if total.value != expected else None)
        return total.value

    async def _watch(self, compactor: CompactorProcess) -> None:
        while True:  # until cancelled
            compactor.check_running()
            self.progress.compactor = await compactor.metrics()
            await self._clock.sleep(WATCH_SECONDS)

    async def _wait_merged(self, table: TestTable) -> None:
        """Wait until nothing but net changes is left in any region."""
        self.progress.phase = "merging the rest, reading all the while"
        give_up = self._clock.monotonic() + MERGE_SECONDS_MAX
        while self._clock.monotonic() < give_up:
            for region, store in table.stores.items():
                self.progress.entries[region] = (await take_census(store)).entries.total()
            if not any(self.progress.entries.values()):
                return
            await self._clock.sleep(WATCH_SECONDS)

    async def _report(self, participants: _Participants, started: float) -> DemoReport:
        sample, table = self._sample, participants.table
        ledger = [await self._ledger_outcome(one) for one in participants.ledgers.values()]
        for probe in self._probes:
            for one in participants.ledgers.values():
                total = await one.total(probe.counter, max_age=0)
                wrong = f"{probe.counter} in {one.region} ends with {total.value}"
                self.progress.add_read(None if total.value == probe.expected_total() else wrong)
        single = [await self._single_outcome(store) for store in table.stores.values()]
        probe_changes = sum(probe.written for probe in self._probes)
        census = await take_census(table.stores[table.settings.home])
        compactor = await participants.compactor.metrics()
        folds = compactor.get("compactor_folds_total", 0.0)
        consumed = partial(summed, participants.registry, "ledger_consumed_units_total")
        return DemoReport(
            expected=amounts.total(sample.expected.values()),
            counters=len(sample.expected),
            changes=len(sample.changes),
            ledger=ledger,
            single=single,
            reads=self.progress.reads,
            wrong=self.progress.wrong,
            items_before=len(sample.changes) + probe_changes,
            items_after=census.entries.total() + census.nets.total(),
            write_units=consumed(kind="write") - probe_changes,
            merge_units=compactor.get("ledger_consumed_units_total:write", 0.0),
            merge_read_units=compactor.get("ledger_consumed_units_total:read", 0.0),
            single_units=float(len(sample.changes)),
            entries_per_fold=compactor.get("compactor_entries_merged_total", 0.0) / max(folds, 1.0),
            seconds=self._clock.monotonic() - started,
        )

    async def _ledger_outcome(self, ledger: Ledger) -> Outcome:
        accounts = list(self._sample.expected)
        reads = [partial(self._check, ledger, account) for account in accounts]
        values = await run_all(reads, at_once=READS_AT_ONCE)
        return self._outcome(ledger.region, dict(zip(accounts, values, strict=True)), lost=0)

    async def _single_outcome(self, store: Store) -> Outcome:
        found = await naive.read_all(store, list(self._sample.expected))
        kept = sum(changes for _, changes in found.values())
        values = {account: value for account, (value, _) in found.items()}
        return self._outcome(store.region, values, lost=len(self._sample.changes) - kept)

    def _outcome(self, region: str, values: Mapping[str, Decimal], *, lost: int) -> Outcome:
        expected = self._sample.expected
        errors = {account: values[account] - total for account, total in expected.items()}
        exact = sum(not error for error in errors.values())
        return Outcome(region, amounts.total(values.values()), exact, lost, errors)
