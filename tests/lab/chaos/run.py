"""One run: a global table, writers, readers and compactors; scheduled faults; then the end checks.

The schedule repeats with its seed; what the processes and the engine do meanwhile does not.
"""

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from itertools import cycle
from random import Random
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import anyio
import typer
from anyio.abc import TaskGroup

from lab.chaos.home_loss import HomeLoss
from lab.chaos.strangers import Strangers
from lab.chaos.writer_process import WriterProcess
from lab.faults.counters import OPEN_COUNTERS
from lab.faults.fault_run import (
    COMPACTORS,
    MERGING,
    REGIONS,
    Clients,
    FaultRun,
    Participants,
    Terms,
)
from lab.faults.options import FaultOptions
from lab.faults.report import FaultProgress, FaultReport
from lab.faults.schedule import Profile, draw
from lab.faults.workload import CACHED_SECONDS, EVENTUAL_SECONDS, ReadMode, Workload
from ledger.demo.harness.checker import TaggedChecker
from ledger.demo.harness.table import TestTable
from ledger.runtime.clock import Clock
from ledger.settings import Settings

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaosOptions(FaultOptions):
    """The options of `lab chaos`."""

    program = "chaos"
    profile: Annotated[
        Profile,
        typer.Option(help="Which faults come beside the usual: all, or more of one kind."),
    ] = Profile.MIXED
    archive: Annotated[
        bool,
        typer.Option("--archive", help="Keep an archive, and check every history at the end."),
    ] = False

    @property
    def own_words(self) -> str:
        """What only this command has."""
        return f" --profile {self.profile}{' --archive' if self.archive else ''}"


class ChaosRun(FaultRun):
    """One run of `lab chaos`."""

    def __init__(self, options: ChaosOptions, *, clock: Clock) -> None:
        progress = FaultProgress(options, TaggedChecker(), clock)
        terms = Terms(TIMES, MERGING, COMPACTOR_EVERY)
        super().__init__(progress, terms, regions=REGIONS, clock=clock)
        self._options = options
        self.schedule = draw(
            options.seed,
            options.seconds,
            regions=REGIONS,
            compactors=COMPACTORS,
            writers=[f"writer-{region}" for region in REGIONS],
            profile=options.profile,
        )

    async def run(self) -> FaultReport:
        """Run as every `FaultRun`; an archive, if there is one, goes with the run."""
        with TemporaryDirectory(prefix="ledger-archive-") as folder:
            if self._options.archive:
                times = {**self._terms.times, "archive": [f"file://{folder}"]}
                self._terms = replace(self._terms, times=times)
            return await super().run()

    def _workload(self, participants: Participants, tasks: TaskGroup) -> Workload:
        return Workload(
            self.progress,
            settings=participants.table.settings,
            writers=participants.clients.writers,
            read_modes=participants.clients.read_modes,
            tasks=tasks,
        )

    async def _inject(self, participants: Participants, workload: Workload) -> None:
        table = participants.table
        async with anyio.create_task_group() as operators:
            if (loss := self.schedule.loss) is not None:
                losing = HomeLoss(
                    loss,
                    table,
                    workload,
                    participants.clients.processes[REGIONS.index(loss.home)],
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

    async def _open_clients(
        self, table: TestTable, transports: Sequence[Settings], stack: AsyncExitStack
    ) -> Clients:
        del stack
        one, other = self._options.transport.names
        usual = await table.ledgers(transport=one)
        eventual = await table.ledgers(transport=other, consistent_reads=False)
        writers = {
            region: WriterProcess(region, settings, table.folder, clock=self._clock)
            for region, settings in zip(REGIONS, cycle(transports), strict=False)
        }
        apart: dict[str, Any] = {"recent": OPEN_COUNTERS, "readers": READERS_APART}
        return Clients(
            (
                ReadMode("fresh", usual, 0.0, 0.0),
                ReadMode("cached", usual, CACHED_SECONDS, CACHED_SECONDS),
                ReadMode("eventual", eventual, 0.0, EVENTUAL_SECONDS),
                ReadMode("apart", writers, CACHED_SECONDS, CACHED_SECONDS, **apart),
            ),
            writers,
            list(writers.values()),
        )
