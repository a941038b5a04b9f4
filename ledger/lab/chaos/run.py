"""One run: a global table, writers, readers and compactors; scheduled faults; then the end checks.

The schedule repeats with its seed; what the processes and the engine do meanwhile does not.
"""

import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import cycle
from random import Random
from typing import Any

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from compactor.observe import lease_name
from ledger.core import keys
from ledger.core.errors import ReadTooSlow, StoreError
from ledger.lab.chaos.counters import COMBINED, OPEN_COUNTERS, SHARDS
from ledger.lab.chaos.ending import EndChecks
from ledger.lab.chaos.losing import Losing
from ledger.lab.chaos.nemesis import Nemesis
from ledger.lab.chaos.processes import WriterProcess, compactor_process
from ledger.lab.chaos.report import ChaosOptions, ChaosProgress, ChaosReport, Ending
from ledger.lab.chaos.schedule import Profile, draw
from ledger.lab.chaos.strangers import Strangers
from ledger.lab.chaos.workload import CACHED_SECONDS, EVENTUAL_SECONDS, ReadMode, Workload
from ledger.lab.harness.census import describe_item, take_census
from ledger.lab.harness.checker import TaggedChecker, Violation
from ledger.lab.harness.config import without_terms
from ledger.lab.harness.options import REGIONS as ALL_REGIONS
from ledger.lab.harness.processes import ManagedProcess, ProcessEnded
from ledger.lab.harness.table import TestTable, open_table
from ledger.primitives.leases.state import lease_key, record_of
from ledger.runtime.clock import Clock
from ledger.runtime.signals import STOP_SIGNALS, stopped_by_signals
from ledger.runtime.tasks import background_tasks
from ledger.store.reads import Get, Query

REGIONS = ALL_REGIONS[:3]
COMPACTORS = ("compactor-0", "compactor-1")
COMPACTOR_EVERY = "400ms"
READERS_APART = 3
"""In the process of each writer: what was read before a suspension is read again after it."""
WATCH_SECONDS = 1.0
CONTEXT_SECONDS_MAX = 10.0
# As short as the rules between them allow with room for a busy machine: a request that is slow or
# hangs must be dead before its entry can be folded (settle - retry_horizon).
TIMES: Mapping[str, Any] = {
    "settle": 5.0,
    "retry_horizon": 2.0,
    "observation_delay": 1.5,
    "request_timeout": 1.0,
    "write_deadline": 1.5,
    "contract_life": 5.0,
}
MERGING: Mapping[str, Any] = {
    "lease": 4.0,
    "heartbeat": 0.5,
    "fold_min": 4,
    "fold_max": 24,
    "fold_age": 6.0,
    "prune_min": 6,
    "pending_max": 24,
    "scan_every": 3.0,
    "hint_every": 4,
}


@dataclass(frozen=True, slots=True)
class _Participants:
    """What takes part in a run."""

    table: TestTable
    read_modes: Sequence[ReadMode]
    writers: Mapping[str, WriterProcess]
    compactors: Sequence[ManagedProcess]
    nemesis: Nemesis


class ChaosRun:
    """One run."""

    def __init__(self, options: ChaosOptions, *, clock: Clock) -> None:
        self.progress = ChaosProgress(options, TaggedChecker(), clock)
        self._first_epoch = 0
        self.schedule = draw(
            options.seed,
            options.seconds,
            regions=REGIONS,
            compactors=COMPACTORS,
            writers=[f"writer-{region}" for region in REGIONS],
            profile=options.profile,
        )
        self._clock = clock

    async def run(self) -> ChaosReport:
        """Run to the end, the first violation, or a signal to stop, and report.

        Raises:
            LedgerError: it could not go on; a broken promise is the verdict, not an error.
        """
        progress = self.progress
        ending: Ending = "interrupted"
        context: tuple[str, ...] = ()
        watched = (*STOP_SIGNALS, signal.SIGHUP)
        async with (
            stopped_by_signals(lambda _: progress.stop.set(), watched=watched),
            self._open() as participants,
        ):
            progress.started = self._clock.monotonic()
            async with background_tasks() as tasks:
                tasks.start_soon(self._cancel, tasks)
                tasks.start_soon(self._watch, participants)
                ending = await self._live(participants, tasks)
            progress.ended = self._clock.monotonic()
            if progress.wrong:
                context = await self._context(participants)
        return ChaosReport(progress, ending, context)

    async def _live(self, participants: _Participants, tasks: TaskGroup) -> Ending:
        """Write and read while faults are injected, then check the end."""
        table, merging = participants.table, anyio.CancelScope()
        for writer in participants.writers.values():
            tasks.start_soon(self._keep_running, writer)
        tasks.start_soon(self._merge, participants.compactors, merging)
        workload = Workload(
            self.progress,
            settings=table.settings,
            writers=participants.writers,
            read_modes=participants.read_modes,
            tasks=tasks,
        )
        workload.start()
        self.progress.phase = "injecting faults"
        async with anyio.create_task_group() as operators:
            if (loss := self.schedule.loss) is not None:
                losing = Losing(
                    loss,
                    table,
                    workload,
                    participants.writers[loss.home],
                    participants.compactors,
                    self.progress,
                )
                operators.start_soon(losing.run)
            if self.progress.options.profile in {Profile.MIXED, Profile.SETTINGS}:
                seed = f"chaos strangers {self.progress.options.seed}"
                strangers = Strangers(table, workload, self.progress, Random(seed))  # noqa: S311
                operators.start_soon(strangers.run)
            await participants.nemesis.run(self.schedule)
            self.progress.phase = "waiting for operators to end"

        async def stop_merging() -> None:
            merging.cancel()
            await self._clock.sleep(table.settings.request_timeout)

        try:
            checks = EndChecks(table, workload, self.progress, participants.read_modes[0])
            await checks.run(stop_merging)
            await self._look(participants)
        except (StoreError, ReadTooSlow) as error:
            self.progress.obstacle = str(error)
            return "unfinished"
        return "held"

    async def _merge(self, compactors: Sequence[ManagedProcess], scope: anyio.CancelScope) -> None:
        """Keep the compactors running until the scope is cancelled."""
        with scope:
            async with anyio.create_task_group() as tasks:
                for compactor in compactors:
                    tasks.start_soon(self._keep_running, compactor)

    async def _keep_running(self, process: ManagedProcess) -> None:
        """Keep a process running; one that ends by itself is a violation."""
        try:
            await process.run()
        except ProcessEnded as error:
            self.progress.add(Violation("processes", str(error)))

    async def _cancel(self, tasks: TaskGroup) -> None:
        await self.progress.stop.wait()
        tasks.cancel_scope.cancel()

    async def _watch(self, participants: _Participants) -> None:
        while True:  # until cancelled
            await self._clock.sleep(WATCH_SECONDS)
            await self._look(participants)

    async def _look(self, participants: _Participants) -> None:
        """Update what the table shows: faults injected, entries merged, leaders so far."""
        await participants.nemesis.count_faults()
        table = participants.table
        home = table.stores[table.regions[0]]
        try:
            census = await take_census(home)
            lease = await home.get(Get(lease_key(lease_name(table.settings))))
        except StoreError:
            return  # faults hit this read as well
        self.progress.merged, self.progress.entries = census.merged, census.entries.total()
        if lease is not None and home.region == table.settings.home:
            epoch = record_of(lease).epoch
            self._first_epoch = self._first_epoch or epoch
            self.progress.leaders = epoch - self._first_epoch + 1

    async def _context(self, participants: _Participants) -> tuple[str, ...]:
        """Return the latest faults, and what every region shows of the first wrong counter."""
        table, counter = participants.table, self.progress.wrong[0].counter
        lines = list(self.progress.events)
        with anyio.move_on_after(CONTEXT_SECONDS_MAX):
            # Links stay cut: what has not arrived yet is part of what was seen.
            await to_thread.run_sync(table.world.set_faults, ())
            for region, store in table.stores.items():
                for shard in range(table.settings.shards_max(counter) if counter else 0):
                    page = await store.query(Query(keys.partition_key(counter, shard)))
                    lines += [f"{region} shows {describe_item(item)}" for item in page.items]
        return tuple(lines)

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[_Participants]:
        options = self.progress.options
        self.progress.phase = f"starting a global table of three regions on {options.engine}"
        opening = open_table(
            options, REGIONS, **TIMES, compactor=MERGING, shards=SHARDS, combine=COMBINED
        )
        async with opening as table:
            one, other = options.transport.names
            usual = await table.ledgers(transport=one)
            eventual = await table.ledgers(transport=other, consistent_reads=False)
            plain = without_terms(table.settings)
            transports = (plain.replace(transport=one), plain.replace(transport=other))
            writers = {
                region: WriterProcess(region, settings, table.folder, clock=self._clock)
                for region, settings in zip(REGIONS, cycle(transports), strict=False)
            }
            compactors = [
                compactor_process(
                    name, settings, table.folder, every=COMPACTOR_EVERY, clock=self._clock
                )
                for name, settings in zip(COMPACTORS, transports, strict=True)
            ]
            processes = {one.name: one for one in (*writers.values(), *compactors)}
            yield _Participants(
                table,
                (
                    ReadMode("fresh", usual, 0.0, 0.0),
                    ReadMode("cached", usual, CACHED_SECONDS, CACHED_SECONDS),
                    ReadMode("eventual", eventual, 0.0, EVENTUAL_SECONDS),
                    ReadMode(
                        "apart",
                        writers,
                        CACHED_SECONDS,
                        CACHED_SECONDS,
                        recent=OPEN_COUNTERS,
                        readers=READERS_APART,
                    ),
                ),
                writers,
                compactors,
                Nemesis(table.world, processes, self.progress, clock=self._clock),
            )
