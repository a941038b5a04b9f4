"""One lane's worker in a process of its own (`python -m`), its task given as JSON.

It reads the lane's file while that is being written, and prints JSON lines that say how far the
totals are. The line `end` on standard input means that the file is complete; the end of standard
input means that the parent is gone.
"""

import json
import resource
import sys
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import anyio
from prometheus_client import CollectorRegistry

from ledger.core.errors import LedgerError
from ledger.lab.demos.pipeline.faults import Crashed, StageFaults, StageFaultStore
from ledger.lab.demos.pipeline.mutants import MUTANTS
from ledger.lab.demos.pipeline.options import STAGES
from ledger.lab.harness.child import input_lines, send_value
from ledger.lab.harness.config import read_config
from ledger.pipeline.metrics import PipelineMetrics
from ledger.pipeline.progress import figures
from ledger.pipeline.running import open_stores
from ledger.pipeline.sources.dead_letters import DeadLetterFile
from ledger.pipeline.sources.source import FileSource
from ledger.pipeline.stages.worker import Pipeline
from ledger.runtime.clock import Clock, SystemClock
from ledger.runtime.command_line import FAILED
from ledger.runtime.gc import tune_gc
from ledger.runtime.loops import run_on_loop
from ledger.runtime.metrics import Metrics, summed
from ledger.runtime.tasks import background_tasks
from ledger.settings import Settings

LOOK_SECONDS = 0.02
"""Between two looks at the end of the file."""


@dataclass(frozen=True, slots=True)
class Job:
    """The task of a worker: its lane, its files, and the faults to inject."""

    region: str
    lane: str
    file: str
    dead: str
    config: str
    fail: Mapping[str, float]
    seed: int
    mutant: str


@dataclass(slots=True)
class _Worker:
    job: Job
    settings: Settings
    clock: Clock
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    faults: dict[str, StageFaults] = field(default_factory=dict)
    crashes: int = 0
    is_complete: bool = False

    async def run(self) -> None:
        """Process the lane; after each crash, go on from where the table is."""
        job = self.job
        draw = Random(f"{job.seed} {job.region} {job.lane}")  # noqa: S311 (repeatable)
        self.faults = {
            stage: StageFaults(job.fail[stage], draw, crashes=stage != "state") for stage in STAGES
        }
        async with AsyncExitStack() as stack:
            opened = open_stores(
                self.settings, job.region, metrics=Metrics.of(self.registry), clock=self.clock
            )
            stores = await stack.enter_async_context(opened)
            stack.enter_context(MUTANTS[job.mutant]() if job.mutant else nullcontext())
            pipeline = Pipeline(
                job.lane,
                FileSource(Path(job.file), grows=self._grows),
                region=job.region,
                stores={name: StageFaultStore(one, self.faults) for name, one in stores.items()},
                settings=self.settings,
                dead_letters=DeadLetterFile(Path(job.dead)),
                clock=self.clock,
                randomness=draw,
                metrics=PipelineMetrics.of(self.registry),
                ledger_metrics=Metrics.of(self.registry),
                on_counted=self._counted,
            )
            tune_gc()  # as `ledger pipeline run` does
            while not await self._lives(pipeline):
                self.crashes += 1

    async def _lives(self, pipeline: Pipeline) -> bool:
        """Run to the end of the lane, or until a crash."""
        try:
            await pipeline.run()
        except Crashed:
            return False
        return True

    async def _grows(self) -> bool:
        if self.is_complete:
            return False
        await self.clock.sleep(LOOK_SECONDS)
        return True

    def _counted(self, position: str) -> None:
        """Report how far the totals show the lane, and when: this machine has one such clock."""
        send_value({"counted": int(position), "at": time.monotonic()})

    def result(self, used: float) -> dict[str, Any]:
        """Return what it did, once it has ended."""
        return {
            **asdict(figures(self.registry)),
            "crashes": self.crashes,
            "requests": {stage: one.requests for stage, one in self.faults.items()},
            "failed": {stage: one.failed for stage, one in self.faults.items()},
            "cpu_seconds": cpu_seconds() - used,
            "memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "write_units": summed(self.registry, "ledger_consumed_units_total", kind="write"),
        }


def cpu_seconds() -> float:
    """Return what this process has used of a core, in itself and in the kernel."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def _listen(worker: _Worker, everything: anyio.CancelScope) -> None:
    """Wait for the line that says the file is complete, or for the end of the parent."""
    async for line in input_lines():
        worker.is_complete = line == b"end"
    everything.cancel()


async def _main(job: Job) -> int:
    worker = _Worker(job, read_config(job.config), SystemClock())
    used, status = cpu_seconds(), FAILED
    async with background_tasks() as tasks:
        tasks.start_soon(_listen, worker, tasks.cancel_scope)
        try:
            await worker.run()
            send_value({"ended": worker.result(used)})
            status = 0
        except LedgerError as error:
            send_value({"failed": str(error)})
    return status


if __name__ == "__main__":
    sys.exit(run_on_loop(_main(Job(**json.loads(sys.argv[1])))))
