"""One lane's worker in a process of its own (`python -m`), its task given as JSON.

It reads the lane's file while that is being written, and says on standard output, as JSON lines,
how far the totals are. The line `end` on standard input tells that the file is complete; without
it, the end of standard input means that the parent is gone.
"""

import json
import os
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
from ledger.lab.demos.pipeline.options import STAGES
from ledger.lab.demos.pipeline.spoiling import Crashed, Fates, SpoiledStore
from ledger.lab.demos.pipeline.twins import TWINS
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
READ_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker is told: its lane, its files, and what is to go wrong."""

    region: str
    lane: str
    file: str
    dead: str
    config: str
    fail: Mapping[str, float]
    seed: int
    twin: str


@dataclass(slots=True)
class _Worker:
    job: Job
    settings: Settings
    clock: Clock
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    fates: dict[str, Fates] = field(default_factory=dict)
    crashes: int = 0
    is_complete: bool = False

    async def run(self) -> None:
        """Bring the lane in; whenever the worker crashes, begin again where the table is."""
        job = self.job
        draw = Random(f"{job.seed} {job.region} {job.lane}")  # noqa: S311 (repeatable)
        self.fates = {
            stage: Fates(job.fail[stage], draw, crashes=stage != "state") for stage in STAGES
        }
        async with AsyncExitStack() as stack:
            opened = open_stores(
                self.settings, job.region, metrics=Metrics.of(self.registry), clock=self.clock
            )
            stores = await stack.enter_async_context(opened)
            stack.enter_context(TWINS[job.twin]() if job.twin else nullcontext())
            pipeline = Pipeline(
                job.lane,
                FileSource(Path(job.file), grows=self._grows),
                region=job.region,
                stores={name: SpoiledStore(one, self.fates) for name, one in stores.items()},
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
        """Tell up to where the totals show the lane, and when: this machine has one such clock."""
        _tell({"counted": int(position), "at": time.monotonic()})

    def told(self, used: float) -> dict[str, Any]:
        """Return what there is to tell at the end."""
        return {
            **asdict(figures(self.registry)),
            "crashes": self.crashes,
            "asked": {stage: one.asked for stage, one in self.fates.items()},
            "spoiled": {stage: one.spoiled for stage, one in self.fates.items()},
            "cpu_seconds": cpu_seconds() - used,
            "memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "write_units": summed(self.registry, "ledger_consumed_units_total", kind="write"),
        }


def cpu_seconds() -> float:
    """Return what this process has used of a core, in itself and in the kernel."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _tell(what: Mapping[str, Any]) -> None:
    sys.stdout.write(f"{json.dumps(what)}\n")
    sys.stdout.flush()


async def _listen(worker: _Worker, everything: anyio.CancelScope) -> None:
    """Wait for the word that the file is complete, or for the end of the parent."""
    heard = b""
    while True:
        await anyio.wait_readable(sys.stdin)
        chunk = os.read(sys.stdin.fileno(), READ_BYTES)
        if not chunk:
            everything.cancel()
            return
        heard += chunk
        worker.is_complete = b"end\n" in heard


async def _main(job: Job) -> int:
    worker = _Worker(job, read_config(job.config), SystemClock())
    used, status = cpu_seconds(), FAILED
    async with background_tasks() as tasks:
        tasks.start_soon(_listen, worker, tasks.cancel_scope)
        try:
            await worker.run()
            _tell({"ended": worker.told(used)})
            status = 0
        except LedgerError as error:
            _tell({"failed": str(error)})
    return status


if __name__ == "__main__":
    sys.exit(run_on_loop(_main(Job(**json.loads(sys.argv[1])))))
