"""The workers of some lanes of a region in one process (`python -m`), their jobs given as JSON.

Each reads its lane's file while that is being written, and prints JSON lines that say how far the
totals are. The line `end` on standard input means that the files are complete; the end of standard
input means that the parent is gone.
"""

import json
import resource
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from random import Random

import anyio
from prometheus_client import CollectorRegistry

from lab.harness.child import input_lines, send_value
from lab.harness.config import read_config
from lab.pipeline_demo.faults import Crashed, StageFaults, StageFaultStore
from lab.pipeline_demo.functions import Connected, ShardOfEvents
from lab.pipeline_demo.mutants import MUTANTS
from ledger.core.errors import LedgerError
from ledger.pipeline.file_runs import open_stores
from ledger.pipeline.metrics import PipelineMetrics
from ledger.pipeline.progress import figures
from ledger.pipeline.sources.dead_letters import DeadLetterFile
from ledger.pipeline.sources.file_positions import place_of
from ledger.pipeline.sources.files import FileSource
from ledger.pipeline.stages.worker import LanePlace, LaneWorker, PipelineMetering
from ledger.runtime.clock import SystemClock
from ledger.runtime.command_line import FAILED
from ledger.runtime.gc import tune_gc
from ledger.runtime.loops import run_on_loop
from ledger.runtime.metrics import summed
from ledger.runtime.services import Services
from ledger.runtime.tasks import background_tasks, run_all
from ledger.settings import Settings
from ledger.store.port import Store

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
    function_batch: int = 0
    """Records of an event at most, where it runs as the Lambda function; 0 where it does not."""


class _Files:
    """Whether the lanes' files are complete."""

    def __init__(self) -> None:
        self.is_complete = False
        self._clock = SystemClock()

    async def grow(self) -> bool:
        """Wait a little; returns whether there may be more."""
        if self.is_complete:
            return False
        await self._clock.sleep(LOOK_SECONDS)
        return True


class _Worker:
    """The worker of one lane; counts its crashes, and its requests by stage."""

    def __init__(self, number: int, job: Job) -> None:
        self.crashes = 0
        self.job = job
        self._number = number
        self._draw = Random(f"{job.seed} {job.region} {job.lane}")  # noqa: S311 (repeatable)
        self.faults = {
            stage: StageFaults(share, self._draw, crashes=stage != "state")
            for stage, share in job.fail.items()
        }

    async def run(
        self,
        files: _Files,
        stores: Mapping[str, Store],
        settings: Settings,
        registry: CollectorRegistry,
    ) -> None:
        """Process the lane; after each crash, go on from where the table is."""
        job = self.job
        source = FileSource(Path(job.file), grows=files.grow)
        letters = DeadLetterFile(Path(job.dead))
        faulty = {name: StageFaultStore(one, self.faults) for name, one in stores.items()}
        if job.function_batch:
            shard = ShardOfEvents(
                job.lane,
                job.region,
                Connected(faulty, settings, letters),
                clock=SystemClock(),
                randomness=self._draw,
                metrics=PipelineMetrics.of(registry),
                on_counted=self._send_counted,
            )
            await shard.run(source, most=job.function_batch)
            self.crashes = shard.failed
            return
        pipeline = LaneWorker(
            LanePlace(job.region, job.lane),
            source,
            stores=faulty,
            settings=settings,
            dead_letters=letters,
            services=Services.of(randomness=self._draw, registry=registry),
            metering=PipelineMetering(PipelineMetrics.of(registry), self._send_counted),
        )
        while not await self._lives(pipeline):
            self.crashes += 1

    async def _lives(self, pipeline: LaneWorker) -> bool:
        """Run to the end of the lane, or until a crash."""
        try:
            await pipeline.run()
        except Crashed:
            return False
        return True

    def _send_counted(self, position: str) -> None:
        """Report how far the totals show the lane, and when: this machine has one such clock."""
        at = SystemClock().monotonic()
        send_value({"lane": self._number, "counted": place_of(position), "at": at})


async def _run_all(workers: Sequence[_Worker], files: _Files) -> dict[str, float]:
    """Run the workers of all lanes to their end; returns what they did, in figures to add up."""
    job, registry = workers[0].job, CollectorRegistry()
    settings = read_config(job.config)
    async with AsyncExitStack() as stack:
        opened = open_stores(settings, job.region, services=Services.of(registry=registry))
        stores = await stack.enter_async_context(opened)
        stack.enter_context(MUTANTS[job.mutant]() if job.mutant else nullcontext())
        tune_gc()  # as `ledger pipeline run` does
        send_value({"ready": True})
        jobs = [partial(runner.run, files, stores, settings, registry) for runner in workers]
        await run_all(jobs, at_once=len(jobs))
    found = Counter[str](asdict(figures(registry)))
    for worker in workers:
        found["crashes"] += worker.crashes
        for stage, faults in worker.faults.items():
            found[f"{stage}_requests"] += faults.requests
            found[f"{stage}_failed"] += faults.failed
    units = {
        f"{kind}_units": summed(registry, "ledger_consumed_units_total", kind=kind)
        for kind in ("write", "read")
    }
    return {**found, **units}


def _used() -> tuple[float, int]:
    """Return the seconds of a core that this process has used, and its memory in bytes."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime, used.ru_maxrss * 1024


async def _listen(files: _Files, everything: anyio.CancelScope) -> None:
    """Wait for the line that says the files are complete, or for the end of the parent."""
    async for line in input_lines():
        files.is_complete = line == b"end"
    everything.cancel()


async def _main(jobs: Sequence[Job]) -> int:
    files, (start_seconds, _) = _Files(), _used()
    workers = [_Worker(number, job) for number, job in enumerate(jobs)]
    status = FAILED
    async with background_tasks() as tasks:
        tasks.start_soon(_listen, files, tasks.cancel_scope)
        try:
            work = await _run_all(workers, files)
        except LedgerError as error:
            send_value({"failed": str(error)})
        else:
            seconds, memory = _used()
            work["cpu_seconds"] = seconds - start_seconds
            send_value({"work": work, "memory_bytes": memory})
            status = 0
    return status


if __name__ == "__main__":
    sys.exit(run_on_loop(_main([Job(**job) for job in json.loads(sys.argv[1])])))
