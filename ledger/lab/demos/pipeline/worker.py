"""One lane's worker in a process of its own (`python -m`), its job given as JSON.

It reads the lane's file while that is being written, and prints JSON lines that say how far the
totals are. The line `end` on standard input means that the file is complete; the end of standard
input means that the parent is gone.
"""

import json
import resource
import sys
from contextlib import AsyncExitStack, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

import anyio
from prometheus_client import CollectorRegistry

from ledger.core.errors import LedgerError
from ledger.lab.demos.pipeline.faults import Crashed, StageFaults, StageFaultStore
from ledger.lab.demos.pipeline.mutants import MUTANTS
from ledger.lab.harness.child import input_lines, send_value
from ledger.lab.harness.config import read_config
from ledger.pipeline.metrics import PipelineMetrics
from ledger.pipeline.progress import figures
from ledger.pipeline.running import open_stores
from ledger.pipeline.sources.dead_letters import DeadLetterFile
from ledger.pipeline.sources.files import FileSource
from ledger.pipeline.sources.places import place_of
from ledger.pipeline.stages.worker import Pipeline
from ledger.runtime.clock import SystemClock
from ledger.runtime.command_line import FAILED
from ledger.runtime.gc import tune_gc
from ledger.runtime.loops import run_on_loop
from ledger.runtime.metrics import Metrics, summed
from ledger.runtime.tasks import background_tasks

LOOK_SECONDS = 0.02
"""Between two looks at the end of the file."""


@dataclass(frozen=True, slots=True)
class Job:
    """The job of a worker: its lane, its files, and the faults to inject."""

    region: str
    lane: str
    file: str
    dead: str
    config: str
    fail: dict[str, float]
    seed: int
    mutant: str


class _Worker:
    def __init__(self, job: Job) -> None:
        self.is_complete = False
        self._job = job
        self._clock = SystemClock()
        self._registry = CollectorRegistry()
        self._draw = Random(f"{job.seed} {job.region} {job.lane}")  # noqa: S311 (repeatable)
        self._faults = {
            stage: StageFaults(share, self._draw, crashes=stage != "state")
            for stage, share in job.fail.items()
        }
        self._crashes = 0

    async def run(self) -> None:
        """Process the lane; after each crash, go on from where the table is."""
        job, metrics = self._job, Metrics.of(self._registry)
        settings = read_config(job.config)
        async with AsyncExitStack() as stack:
            opened = open_stores(settings, job.region, metrics=metrics, clock=self._clock)
            stores = await stack.enter_async_context(opened)
            stack.enter_context(MUTANTS[job.mutant]() if job.mutant else nullcontext())
            pipeline = Pipeline(
                job.lane,
                FileSource(Path(job.file), grows=self._grows),
                region=job.region,
                stores={name: StageFaultStore(one, self._faults) for name, one in stores.items()},
                settings=settings,
                dead_letters=DeadLetterFile(Path(job.dead)),
                clock=self._clock,
                randomness=self._draw,
                metrics=PipelineMetrics.of(self._registry),
                ledger_metrics=metrics,
                on_counted=_send_counted,
            )
            tune_gc()  # as `ledger pipeline run` does
            while not await self._lives(pipeline):
                self._crashes += 1

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
        await self._clock.sleep(LOOK_SECONDS)
        return True

    def work(self) -> dict[str, float]:
        """Return what it did, in figures that can be added up over all workers."""
        found: dict[str, float] = {
            **asdict(figures(self._registry)),
            "crashes": self._crashes,
            "write_units": summed(self._registry, "ledger_consumed_units_total", kind="write"),
        }
        for stage, faults in self._faults.items():
            found |= {f"{stage}_requests": faults.requests, f"{stage}_failed": faults.failed}
        return found


def _send_counted(position: str) -> None:
    """Report how far the totals show the lane, and when: this machine has one such clock."""
    send_value({"counted": place_of(position), "at": SystemClock().monotonic()})


def _used() -> tuple[float, int]:
    """Return the seconds of a core that this process has used, and its memory in bytes."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime, used.ru_maxrss * 1024


async def _listen(worker: _Worker, everything: anyio.CancelScope) -> None:
    """Wait for the line that says the file is complete, or for the end of the parent."""
    async for line in input_lines():
        worker.is_complete = line == b"end"
    everything.cancel()


async def _main(job: Job) -> int:
    worker, (start_seconds, _) = _Worker(job), _used()
    status = FAILED
    async with background_tasks() as tasks:
        tasks.start_soon(_listen, worker, tasks.cancel_scope)
        try:
            await worker.run()
        except LedgerError as error:
            send_value({"failed": str(error)})
        else:
            seconds, memory = _used()
            work = {**worker.work(), "cpu_seconds": seconds - start_seconds}
            send_value({"work": work, "memory_bytes": memory})
            status = 0
    return status


if __name__ == "__main__":
    sys.exit(run_on_loop(_main(Job(**json.loads(sys.argv[1])))))
