"""One run of the pipeline's demo: send, inject faults, cut regions off, heal, compare.

::

    this process   traffic --append--> lane files            totals --read--> display, comparison
    workers        lane file --> state --> map --> reduce    one process a lane, failing requests
    another        the local global table, replication, engine
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, fields
from decimal import Decimal
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import anyio

from ledger.core.errors import LedgerError
from ledger.lab.demos.pipeline.expected import ExpectedTotals
from ledger.lab.demos.pipeline.lane_workers import LaneWorker
from ledger.lab.demos.pipeline.options import STAGES, PipelineDemoOptions
from ledger.lab.demos.pipeline.progress import SHOWN, PipelineDemoProgress
from ledger.lab.demos.pipeline.report import Outcome, PipelineDemoReport, outcome
from ledger.lab.demos.pipeline.traffic import Message, Traffic
from ledger.lab.demos.pipeline.worker import Job
from ledger.lab.harness.config import write_config
from ledger.lab.harness.table import TestTable, open_table
from ledger.ledger import Ledger
from ledger.pipeline.core.items import lane_id
from ledger.pipeline.progress import Figures
from ledger.pipeline.sources.dead_letters import letter_of
from ledger.pipeline.stages.lanes import Lanes
from ledger.runtime.clock import Clock
from ledger.runtime.tasks import background_tasks

CHUNK_MAX = 100
"""Messages sent at once: they share one latency."""
TICK_SECONDS = 0.02
LOOK_SECONDS_MIN = 0.5
LOOK_SHARE = 0.05
"""Of the time that reading totals for the display may take."""
CUT_FROM, CUT_TO = 0.3, 0.6
CUT_MESSAGES_MAX = 20_000
"""Regions are cut off for a share of the messages, but no longer: what is held is in memory."""
READ_SECONDS, OBSERVATION_SECONDS = 300.0, 400.0
"""Nothing is merged here, so totals of long runs may take their time to be read."""
READ_AT_ONCE = 4
"""Categories that are read together for the comparison."""
COUNTED = tuple(field.name for field in fields(Figures))


@dataclass(frozen=True, slots=True)
class _Participants:
    """What takes part in a run."""

    table: TestTable
    workers: Sequence[LaneWorker]
    ledgers: Mapping[str, Ledger]


class PipelineDemoRun:
    """One run of the demo; `publish` takes what the page shows."""

    def __init__(self, options: PipelineDemoOptions, *, clock: Clock) -> None:
        self.progress = PipelineDemoProgress(options)
        self.publish: Callable[[Mapping[str, Any]], None] = _ignore
        self._options = options
        self._clock = clock
        self._traffic = Traffic(options, Random(options.seed))  # noqa: S311 (repeatable)
        self._expected = ExpectedTotals(options)
        self._began = 0.0
        self._changed = anyio.Event()

    async def run(self) -> PipelineDemoReport:
        """Run it all.

        Raises:
            LedgerError: something could not be done; a wrong total is the verdict, not an error.
        """
        options, progress = self._options, self.progress
        progress.phase = f"starting a table on {options.engine}, and the workers"
        opening = open_table(
            options,
            options.names,
            is_direct=options.is_direct,
            folder=options.folder,
            transport="lean",
            pipeline=options.pipeline(),
            read_deadline=READ_SECONDS,
            observation_delay=OBSERVATION_SECONDS,
        )
        async with opening as table, AsyncExitStack() as stack:
            workers = [LaneWorker(job, progress.latencies) for job in self._jobs(table)]
            for worker in workers:
                await stack.enter_async_context(worker.started())
            participants = _Participants(table, workers, await table.ledgers())
            async with background_tasks() as tasks:
                tasks.start_soon(self._watch, participants)
                async with anyio.create_task_group() as lanes:
                    for worker in workers:
                        lanes.start_soon(worker.follow, partial(self._count, workers))
                    await self._send(participants)
                    progress.phase = "everything is sent: processing the rest"
            progress.phase = "waiting until every change has reached every region"
            await table.heal()
            progress.phase = "comparing every category in every region"
            return await self._compare(participants)

    def _jobs(self, table: TestTable) -> list[Job]:
        config, options = write_config(table.settings, table.folder), self._options
        jobs = []
        for number, (region, lane) in enumerate(options.lane_names):
            file, dead = table.folder / f"{number}.jsonl", table.folder / f"{number}.dead"
            file.touch()
            jobs.append(
                Job(
                    *(region, lane, str(file), str(dead), str(config)),
                    fail=options.fail,
                    seed=options.seed,
                    mutant=options.mutant,
                )
            )
        return jobs

    async def _send(self, participants: _Participants) -> None:
        """Send all messages, as fast as the lanes take them or as the rate allows."""
        self._began = self._clock.monotonic()
        messages = self._traffic.messages()
        turns = self._cut_turns()
        while True:
            room = await self._room(participants)
            self._traffic.now = self._clock.now().isoformat(timespec="milliseconds")
            chunk = list(islice(messages, room))
            if not chunk:
                break
            self._append(participants.workers, chunk)
            while turns and self.progress.sent >= turns[0]:
                turns.pop(0)
                self._cut(participants.table, is_cut=len(turns) == 1)
        for worker in participants.workers:
            await worker.complete()

    async def _room(self, participants: _Participants) -> int:
        """Wait until messages may be sent, and return how many."""
        options, progress = self._options, self.progress
        lead = options.lead * len(participants.workers)
        while True:
            self._changed = anyio.Event()
            room = lead - (progress.sent - progress.counted)
            if options.rate:
                due = int((self._clock.monotonic() - self._began) * options.rate) + 1
                room = min(room, due - progress.sent)
            if room > 0:
                return min(room, CHUNK_MAX)
            with anyio.move_on_after(TICK_SECONDS):
                await self._changed.wait()

    def _append(self, workers: Sequence[LaneWorker], chunk: Sequence[Message]) -> None:
        """Append messages to the lanes' files, and add them to the expected totals."""
        lines: list[list[bytes]] = [[] for _ in workers]
        for message in chunk:
            self._expected.add(message)
            lines[message.lane].append(message.line)
        at = self._clock.monotonic()
        for worker, part in zip(workers, lines, strict=True):
            if part:
                worker.append(part, at)
        self.progress.sent += len(chunk)

    def _cut_turns(self) -> list[int]:
        """Return after how many messages the home region is cut off, and healed."""
        messages = self._options.messages
        first = int(messages * CUT_FROM)
        return [first, min(int(messages * CUT_TO), first + CUT_MESSAGES_MAX)]

    def _cut(self, table: TestTable, *, is_cut: bool) -> None:
        if len(table.regions) == 1:
            return
        home = table.regions[0]
        self.progress.cut = f"{home} is cut off from the other regions" if is_cut else ""
        if is_cut:
            table.isolate(home)
        else:
            table.world.heal_all()

    def _count(self, workers: Sequence[LaneWorker]) -> None:
        """Update how many messages the totals show."""
        self.progress.counted = sum(worker.counted for worker in workers)
        self._changed.set()

    async def _watch(self, participants: _Participants) -> None:
        """Read totals for the display, again and again, without taking much of the machine."""
        progress = self.progress
        progress.phase = "sending"
        while True:  # until cancelled
            started = self._clock.monotonic()
            if self._began:
                progress.seconds = started - self._began
                progress.history.append((round(progress.seconds, 2), progress.counted))
            expected = self._expected.totals()
            progress.expected = {name: expected[name] for name in SHOWN}
            for name, ledger in participants.ledgers.items():
                with suppress(LedgerError):  # a busy machine; the next look will do
                    totals = await ledger.totals(SHOWN, max_age=0)
                    progress.shown[name] = {key: one.value for key, one in totals.items()}
            self.publish(progress.snapshot())
            took = self._clock.monotonic() - started
            await self._clock.sleep(max(LOOK_SECONDS_MIN, took / LOOK_SHARE))

    async def _compare(self, participants: _Participants) -> PipelineDemoReport:
        progress, expected = self.progress, self._expected.totals()
        outcomes: list[Outcome] = []
        for name, ledger in participants.ledgers.items():
            shown: dict[str, Decimal] = {}
            categories = iter(expected)
            while some := list(islice(categories, READ_AT_ONCE)):
                found = await ledger.totals(some, max_age=0)
                shown |= {key: one.value for key, one in found.items()}
            progress.shown[name] = {key: shown[key] for key in SHOWN}
            outcomes.append(outcome(name, shown, expected))
        progress.expected = {name: expected[name] for name in SHOWN}
        waiting = await self._waiting(participants.table)
        report = self._report(participants.workers, outcomes, waiting)
        progress.verdict, progress.phase = report.is_exact, report.verdict().text
        self.publish(progress.snapshot())
        return report

    async def _waiting(self, table: TestTable) -> int:
        """Return how many map items are left."""
        lanes = [
            Lanes(lane_id(region, lane), table.stores[region], self._clock)
            for region, lane in self._options.lane_names
        ]
        return sum([len(await one.load()) for one in lanes])

    def _report(
        self, workers: Sequence[LaneWorker], outcomes: Sequence[Outcome], waiting: int
    ) -> PipelineDemoReport:
        results = [worker.result for worker in workers]
        latencies = self.progress.latencies

        def total(name: str, stage: str | None = None) -> Any:
            return sum(result[name] if stage is None else result[name][stage] for result in results)

        return PipelineDemoReport(
            options=self._options,
            outcomes=outcomes,
            messages=self.progress.sent,
            seconds=max(worker.counted_at for worker in workers) - self._began,
            cpu_seconds=total("cpu_seconds"),
            memory_bytes=max(result["memory_bytes"] for result in results),
            p50_seconds=latencies.p50,
            p99_seconds=latencies.p99,
            worst_seconds=latencies.worst,
            counts={name: total(name) for name in (*COUNTED, "crashes")},
            failed_requests={
                stage: (total("failed", stage), total("requests", stage)) for stage in STAGES
            },
            write_units=total("write_units"),
            malformed=self._expected.malformed,
            dead_letters=sum(_dead_letters(Path(worker.job.dead)) for worker in workers),
            waiting=waiting,
        )


def _ignore(_snapshot: Mapping[str, Any]) -> None:
    """Default callback: ignore."""


def _dead_letters(file: Path) -> int:
    """Return how many records a file of dead letters has; one that came twice is one."""
    if not file.exists():
        return 0
    return len({letter_of(line).position for line in file.read_text("utf-8").splitlines()})
