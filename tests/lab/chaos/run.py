"""One run: a global table, writers, readers and compactors; scheduled faults; then the end checks.

The schedule repeats with its seed; what the processes and the engine do meanwhile does not.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import cycle
from random import Random
from typing import Any

import anyio
from anyio.abc import TaskGroup

from lab.chaos.counters import COMBINED, OPEN_COUNTERS, SHARDS
from lab.chaos.fault_run import FaultRun, Participants
from lab.chaos.losing import Losing
from lab.chaos.nemesis import Nemesis
from lab.chaos.processes import WriterProcess, compactor_process
from lab.chaos.report import ChaosOptions, ChaosProgress
from lab.chaos.schedule import Profile, draw
from lab.chaos.strangers import Strangers
from lab.chaos.workload import CACHED_SECONDS, EVENTUAL_SECONDS, ReadMode, Workload
from lab.harness.config import without_terms
from ledger.demo.harness.checker import TaggedChecker
from ledger.demo.harness.options import REGIONS as ALL_REGIONS
from ledger.demo.harness.table import open_table
from ledger.runtime.clock import Clock

REGIONS = ALL_REGIONS[:3]
COMPACTORS = ("compactor-0", "compactor-1")
COMPACTOR_EVERY = "400ms"
READERS_APART = 3
"""In the process of each writer: what was read before a suspension is read again after it."""
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


class ChaosRun(FaultRun):
    """One run of `lab chaos`."""

    def __init__(self, options: ChaosOptions, *, clock: Clock) -> None:
        super().__init__(ChaosProgress(options, TaggedChecker(), clock), clock=clock)
        self._options = options
        self.schedule = draw(
            options.seed,
            options.seconds,
            regions=REGIONS,
            compactors=COMPACTORS,
            writers=[f"writer-{region}" for region in REGIONS],
            profile=options.profile,
        )

    def _workload(self, participants: Participants, tasks: TaskGroup) -> Workload:
        return Workload(
            self.progress,
            settings=participants.table.settings,
            writers=participants.writers,
            read_modes=participants.read_modes,
            tasks=tasks,
        )

    async def _inject(self, participants: Participants, workload: Workload) -> None:
        table = participants.table
        async with anyio.create_task_group() as operators:
            if (loss := self.schedule.loss) is not None:
                losing = Losing(
                    loss,
                    table,
                    workload,
                    participants.processes[REGIONS.index(loss.home)],
                    participants.compactors,
                    self.progress,
                )
                operators.start_soon(losing.run)
            if self._options.profile in {Profile.MIXED, Profile.SETTINGS}:
                seed = f"chaos strangers {self._options.seed}"
                strangers = Strangers(table, workload, self.progress, Random(seed))  # noqa: S311
                operators.start_soon(strangers.run)
            await participants.nemesis.run(self.schedule)
            self.progress.phase = "waiting for operators to end"

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[Participants]:
        options = self._options
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
            processes = {process.name: process for process in (*writers.values(), *compactors)}
            yield Participants(
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
                list(writers.values()),
                compactors,
                Nemesis(table.world, processes, self.progress, clock=self._clock),
            )
