"""The course of the demo: write from every region, read and check all along, merge, compare.

While changes are written, probes check every read from outside (`ledger.lab.harness.probes`). Once
all has replicated, every total of every counter must be the truth, read after read, while the
compactor goes on merging.
"""

import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from random import Random

import anyio
from prometheus_client import CollectorRegistry

from ledger.core import amounts
from ledger.lab.demos.changes import naive
from ledger.lab.demos.changes.sample import Sample
from ledger.lab.demos.changes.state import Outcome, Progress, Verdict
from ledger.lab.harness.census import take_census
from ledger.lab.harness.compactor_process import CompactorProcess, run_compactor
from ledger.lab.harness.probes import PREFIX, Probe
from ledger.ledger import Ledger
from ledger.local import LocalGlobalTable
from ledger.runtime.clock import Clock
from ledger.runtime.metrics import summed
from ledger.runtime.tasks import run_all
from ledger.settings import Settings
from ledger.store.opening import open_store
from ledger.store.port import Store
from ledger.writing.plan import Change

REGIONS = ("us-east-1", "eu-west-1", "ap-southeast-1")
PROBES = 6
CHUNK = 20
ADDS_AT_ONCE = 8
READS_AT_ONCE = 16
MERGE_SECONDS_MAX = 600.0
PARTITION_FROM, PARTITION_TO = 0.3, 0.7
_TIMES = {"settle": 4.0, "retry_horizon": 1.0, "observation_delay": 0.6}
_COMPACTOR = {"fold_min": 20, "fold_age": 8.0, "lease": 6.0, "heartbeat": 1.0}


@dataclass(frozen=True, slots=True)
class Options:
    """How the demo runs: `seconds` is how long writing is spread over."""

    engine: str
    seed: int
    lag: float
    jitter: float
    seconds: float


@dataclass(frozen=True, slots=True)
class _Stage:
    """What is open while the demo runs."""

    world: LocalGlobalTable
    settings: Settings
    ledgers: Mapping[str, Ledger]
    stores: Mapping[str, Store]
    compactor: CompactorProcess
    registry: CollectorRegistry


class Story:
    """One run of the demo."""

    def __init__(self, sample: Sample, options: Options, *, clock: Clock) -> None:
        self.progress = Progress(sample, REGIONS)
        self._sample = sample
        self._options = options
        self._clock = clock
        self._random = Random(options.seed)  # noqa: S311 (chooses what is read, nothing secret)
        self._probes = [Probe(f"{PREFIX}{number}") for number in range(PROBES)]
        self._written = False

    async def run(self) -> Verdict:
        """Run it all and return the verdict.

        Raises:
            LedgerError: something could not be done; a wrong total is no error but the verdict.
        """
        started = self._clock.monotonic()
        verdict: Verdict | None = None
        async with self._stage() as stage:
            async with anyio.create_task_group() as tasks:
                for region in REGIONS:
                    tasks.start_soon(self._poll, stage, region)
                tasks.start_soon(self._watch_compactor, stage)
                await self._write(stage)
                await self._merge(stage)
                tasks.cancel_scope.cancel()
            self.progress.phase = "reading every counter in every region"
            verdict = await self._verdict(stage, started)
        return verdict  # noqa: RET504 (to mypy, the block above may end without its return)

    @asynccontextmanager
    async def _stage(self) -> AsyncIterator[_Stage]:
        options = self._options
        async with AsyncExitStack() as stack:
            self.progress.phase = "starting a global table of three regions on this machine"
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ledger-demo-")))
            world = await stack.enter_async_context(
                LocalGlobalTable.spawn(
                    regions=REGIONS,
                    engine=options.engine,
                    lag=options.lag,
                    jitter=options.jitter,
                    seed=options.seed,
                )
            )
            settings = world.settings(**_TIMES, write_deadline=1.0, compactor=_COMPACTOR)
            registry = CollectorRegistry()
            ledgers = {
                region: await stack.enter_async_context(
                    Ledger.open(settings, region=region, registry=registry)
                )
                for region in REGIONS
            }
            stores = {
                region: await stack.enter_async_context(open_store(settings, region))
                for region in REGIONS
            }
            compactor = await stack.enter_async_context(
                run_compactor(settings, folder, every="500ms")
            )
            yield _Stage(world, settings, ledgers, stores, compactor, registry)

    async def _write(self, stage: _Stage) -> None:
        """Write every change to the ledger and to a single-item counter, from three regions."""
        self.progress.phase = "writing from three regions, merging behind"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._partition, stage)
            for place, region in enumerate(REGIONS):
                changes = self._sample.changes[place :: len(REGIONS)]
                tasks.start_soon(self._write_region, stage, region, changes)
        self._written = True
        self.progress.phase = "waiting until every change has reached every region"
        stage.world.heal_all()
        await stage.world.wait_replicated()

    async def _partition(self, stage: _Stage) -> None:
        """Cut the home region off from another for a while, in both directions."""
        here, there = REGIONS[0], REGIONS[1]
        await self._clock.sleep(self._options.seconds * PARTITION_FROM)
        stage.world.pause(here, there)
        stage.world.pause(there, here)
        self.progress.partition = f"{here} and {there} are cut off from each other"
        await self._clock.sleep(self._options.seconds * (PARTITION_TO - PARTITION_FROM))
        stage.world.heal_all()
        self.progress.partition = ""

    async def _write_region(self, stage: _Stage, region: str, changes: Sequence[Change]) -> None:
        """Write one region's changes, spread over the time given."""
        chunks = [changes[start : start + CHUNK] for start in range(0, len(changes), CHUNK)]
        pause = self._options.seconds / max(1, len(chunks))
        started = self._clock.monotonic()
        for number, chunk in enumerate(chunks, start=1):
            await stage.ledgers[region].record_many(chunk)
            self._count(self.progress.recorded, region, len(chunk))
            adds = [partial(self._add, stage.stores[region], change) for change in chunk]
            known = await run_all(adds, at_once=ADDS_AT_ONCE)
            self._count(self.progress.added, region, sum(known))
            await self._write_probe(stage, region)
            await self._clock.sleep(max(0.0, started + number * pause - self._clock.monotonic()))

    async def _add(self, store: Store, change: Change) -> bool:
        return await naive.add(store, change.counter, amounts.exact(change.change))

    async def _write_probe(self, stage: _Stage, region: str) -> None:
        probe = self._random.choice(self._probes)
        following = probe.next_change()
        if following is not None:
            number, change = following
            await stage.ledgers[region].record(probe.counter, change)
            probe.acknowledge(region, number)

    async def _poll(self, stage: _Stage, region: str) -> None:
        """Read and check without end: a probe, and once all is written a counter as well."""
        accounts = list(self._sample.truth)
        ledger = stage.ledgers[region]
        while True:
            probe = self._random.choice(self._probes)
            read = probe.begin_read(region)
            total = await ledger.total(probe.counter, max_age=0)
            self.progress.judged(probe.end_read(read, total.value))
            if self._written and not self.progress.phase.startswith("waiting"):
                account = self._random.choice(accounts)
                await self._check(ledger, account)
            await self._clock.sleep(0.02)

    async def _check(self, ledger: Ledger, account: str) -> Decimal:
        """Read a counter that has wholly replicated: it must be the truth."""
        total = await ledger.total(account, max_age=0)
        truth = self._sample.truth[account]
        wrong = f"{account} in {ledger.region}: {total.value} instead of {truth}"
        self.progress.judged(wrong if total.value != truth else None)
        return total.value

    async def _watch_compactor(self, stage: _Stage) -> None:
        while True:
            stage.compactor.check_running()
            self.progress.compactor = await stage.compactor.metrics()
            await self._clock.sleep(0.5)

    async def _merge(self, stage: _Stage) -> None:
        """Wait until nothing but net changes is left in any region."""
        self.progress.phase = "merging the rest, reading all the while"
        give_up = self._clock.monotonic() + MERGE_SECONDS_MAX
        while self._clock.monotonic() < give_up:
            for region, store in stage.stores.items():
                self.progress.entries[region] = (await take_census(store)).entries.total()
            if not any(self.progress.entries.values()):
                return
            await self._clock.sleep(0.5)

    async def _verdict(self, stage: _Stage, started: float) -> Verdict:
        sample = self._sample
        ledger = [await self._ledger_outcome(stage.ledgers[region]) for region in REGIONS]
        for probe in self._probes:
            for region in REGIONS:
                total = await stage.ledgers[region].total(probe.counter, max_age=0)
                wrong = f"{probe.counter} in {region} ends with {total.value}"
                self.progress.judged(None if total.value == probe.expected_total() else wrong)
        single = [await self._single_outcome(region, stage.stores[region]) for region in REGIONS]
        probe_changes = sum(probe.written for probe in self._probes)
        census = await take_census(stage.stores[REGIONS[0]])
        compactor = await stage.compactor.metrics()
        merged = compactor.get("compactor_entries_merged_total", 0.0)
        folds = compactor.get("compactor_folds_total", 0.0)
        return Verdict(
            truth=amounts.total(sample.truth.values()),
            counters=len(sample.truth),
            changes=len(sample.changes),
            ledger=ledger,
            single=single,
            reads=self.progress.reads,
            wrong=self.progress.wrong,
            items_before=len(sample.changes) + probe_changes,
            items_after=census.entries.total() + census.nets.total(),
            write_units=_units(stage.registry, "write") - probe_changes,
            merge_units=compactor.get("ledger_consumed_units_total:write", 0.0),
            merge_read_units=compactor.get("ledger_consumed_units_total:read", 0.0),
            single_units=float(len(sample.changes)),
            entries_per_fold=merged / folds if folds else 0.0,
            seconds=self._clock.monotonic() - started,
        )

    async def _ledger_outcome(self, ledger: Ledger) -> Outcome:
        accounts = list(self._sample.truth)
        reads = [partial(self._check, ledger, account) for account in accounts]
        values = await run_all(reads, at_once=READS_AT_ONCE)
        return self._outcome(ledger.region, dict(zip(accounts, values, strict=True)), lost=0)

    async def _single_outcome(self, region: str, store: Store) -> Outcome:
        found = await naive.read_all(store, list(self._sample.truth))
        kept = sum(changes for _, changes in found.values())
        values = {account: value for account, (value, _) in found.items()}
        return self._outcome(region, values, lost=len(self._sample.changes) - kept)

    def _outcome(self, region: str, values: Mapping[str, Decimal], *, lost: int) -> Outcome:
        errors = {account: values[account] - truth for account, truth in self._sample.truth.items()}
        exact = sum(not error for error in errors.values())
        return Outcome(region, amounts.total(values.values()), exact, lost, errors)

    @staticmethod
    def _count(counts: dict[str, int], region: str, more: int) -> None:
        counts[region] = counts.get(region, 0) + more


def _units(registry: CollectorRegistry, kind: str) -> float:
    """Return the billing units that the demo's own ledgers consumed."""
    return summed(registry, "ledger_consumed_units_total", kind=kind)
