"""One run of the pipeline's demo: send, inject faults, cut regions off, heal, compare.

::

    this process   traffic --append--> lane files            totals --read--> display, comparison
    workers        lane file --> state --> map --> reduce    one process a lane, failing requests
    another        the local global table, replication, engine
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from itertools import islice
from random import Random
from typing import Any

import anyio
import anyio.lowlevel

from lab.harness.config import write_config
from lab.pipeline_demo.functions import lane_of_shard
from lab.pipeline_demo.lanes import LaneFile, LanesProcess
from lab.pipeline_demo.options import PipelineDemoOptions
from lab.pipeline_demo.report import (
    SHOWN,
    PipelineDemoProgress,
    PipelineDemoReport,
    quantiles,
)
from lab.pipeline_demo.traffic import Message, Traffic
from lab.pipeline_demo.worker import Job
from ledger.core.errors import LedgerError
from ledger.demo.harness.table import TestTable, open_table
from ledger.demo.harness.totals import read_totals
from ledger.pipeline.core.items import lane_id
from ledger.pipeline.stages.lanes import Lanes
from ledger.runtime.clock import Clock
from ledger.runtime.tasks import background_tasks
from ledger.session.ledger import Ledger

BACKLOG_MAX = 200_000
"""Messages that may wait at a rate that is not held; beyond them the producer waits as well."""
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


class PipelineDemoRun:
    """One run of the demo; `publish` takes what the page shows."""

    def __init__(self, options: PipelineDemoOptions, *, clock: Clock) -> None:
        self.progress = PipelineDemoProgress(options)
        self.publish: Callable[[Mapping[str, Any]], None] = lambda _snapshot: None
        self._options = options
        self._clock = clock
        self._traffic = Traffic(options, Random(options.seed))  # noqa: S311 (repeatable)
        self._sending_seconds = 0.0

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
            transport="lean",
            pipeline=options.pipeline(),
            read_deadline=READ_SECONDS,
            observation_delay=OBSERVATION_SECONDS,
        )
        async with opening as table, AsyncExitStack() as stack:
            ledgers = await table.ledgers()
            lanes = [LaneFile(job, progress) for job in self._jobs(table)]
            processes = self._processes(lanes)
            for process in processes:
                await stack.enter_async_context(process.started())
            async with background_tasks() as tasks:
                tasks.start_soon(self._watch, ledgers)
                async with anyio.create_task_group() as following:
                    for process in processes:
                        following.start_soon(process.follow)
                    for process in processes:
                        await process.ready.wait()
                    await self._send(table, lanes)
                    for process in processes:
                        await process.send(b"end")
                    progress.phase = "everything is sent: processing the rest"
            progress.phase = "waiting until every change has reached every region"
            await table.heal()
            progress.phase = "comparing every category in every region"
            progress.totals = await read_totals(ledgers, self._traffic.expected())
            letters = sum(lane.dead_letters() for lane in lanes)
            waiting = await self._waiting(table)
            report = self._report(processes, letters=letters, waiting=waiting)
            progress.exact, progress.phase = report.is_exact, report.verdict().text
            self.publish(progress.snapshot())
            return report

    def _jobs(self, table: TestTable) -> list[Job]:
        options, config = self._options, str(write_config(table.settings, table.folder))
        return [
            Job(
                *(region, lane),
                file=str(table.folder / f"{number}.jsonl"),
                dead=str(table.folder / f"{number}.dead"),
                config=config,
                fail=dict(options.fail),
                seed=options.seed,
                mutant=options.mutant,
                function_batch=options.batch if options.is_function else 0,
            )
            for number, (region, lane) in enumerate(options.lane_names)
        ]

    def _processes(self, lanes: Sequence[LaneFile]) -> list[LanesProcess]:
        """Divide the lanes of each region among its processes."""
        groups: dict[tuple[str, int], list[LaneFile]] = {}
        count = self._options.processes_in_all // self._options.regions
        for number, lane in enumerate(lanes):
            place = number % self._options.lanes % count
            groups.setdefault((lane.job.region, place), []).append(lane)
        return [LanesProcess(group) for group in groups.values()]

    async def _send(self, table: TestTable, lanes: Sequence[LaneFile]) -> None:
        """Send all messages, by the clock or as lanes take them; cut the home off meanwhile."""
        progress, messages = self.progress, self._traffic.messages()
        progress.phase, progress.began = "sending", self._clock.monotonic()
        total = self._options.messages
        while progress.sent < total:
            room = min(self._room(len(lanes)), total - progress.sent, CHUNK_MAX)
            if room <= 0:
                await self._clock.sleep(TICK_SECONDS)
                continue
            self._traffic.now = self._clock.now().isoformat(timespec="milliseconds")
            self._append(lanes, list(islice(messages, room)))
            since = progress.sent - int(total * CUT_FROM)
            self._cut(table, is_cut=0 <= since < min(total * (CUT_TO - CUT_FROM), CUT_MESSAGES_MAX))
            await anyio.lowlevel.checkpoint()
        self._sending_seconds = self._clock.monotonic() - progress.began

    def _room(self, lanes: int) -> int:
        """Return how many messages are to be sent now: those that are due, or those with room."""
        progress, rate = self.progress, self._options.rate
        waiting = progress.sent - progress.counted
        if not rate:
            return self._options.lead * lanes - waiting
        due = int((self._clock.monotonic() - progress.began) * rate)
        return min(due - progress.sent, BACKLOG_MAX - waiting)

    def _append(self, lanes: Sequence[LaneFile], messages: Sequence[Message]) -> None:
        """Append messages to the lanes' files; by the clock, each counts from when it was due."""
        progress, rate, at = self.progress, self._options.rate, self._clock.monotonic()
        due = progress.began + progress.sent / rate if rate else at
        progress.send(len(messages), at=at)
        for number, lane in enumerate(lanes):
            if lines := [message.line for message in messages if message.lane == number]:
                lane.append(lines, due)

    def _cut(self, table: TestTable, *, is_cut: bool) -> None:
        """Cut the home region off from the others, or heal; nothing if it is so already."""
        home, *others = table.regions
        if not others or is_cut == bool(self.progress.cut):
            return
        self.progress.cut = f"{home} is cut off from the other regions" if is_cut else ""
        if is_cut:
            table.isolate(home)
        else:
            table.world.heal_all()

    async def _watch(self, ledgers: Mapping[str, Ledger]) -> None:
        """Read totals for the display periodically, without taking much of the machine."""
        progress = self.progress
        while True:  # until cancelled
            started = self._clock.monotonic()
            if progress.began:
                progress.seconds = started - progress.began
                progress.history.append((round(progress.seconds, 2), progress.counted))
            expected = self._traffic.expected()
            with suppress(LedgerError):  # a busy machine; the next look will do
                shown = {name: expected[name] for name in SHOWN}
                progress.totals = await read_totals(ledgers, shown)
            self.publish(progress.snapshot())
            took = self._clock.monotonic() - started
            await self._clock.sleep(max(LOOK_SECONDS_MIN, took / LOOK_SHARE))

    async def _waiting(self, table: TestTable) -> int:
        """Return how many map items are left."""
        waiting = 0
        for region, lane in self._options.lane_names:
            name = lane_of_shard(lane) if self._options.is_function else lane
            lanes = Lanes(lane_id(region, name), table.stores[region], self._clock)
            waiting += len(await lanes.load())
        return waiting

    def _report(
        self, processes: Sequence[LanesProcess], *, letters: int, waiting: int
    ) -> PipelineDemoReport:
        progress, work = self.progress, Counter[str]()
        for process in processes:
            work.update(process.work)
        return PipelineDemoReport(
            options=self._options,
            totals=progress.totals,
            seconds=progress.counted_at - progress.began,
            latency=quantiles(progress.latencies),
            work=work,
            memory_bytes=max(process.memory_bytes for process in processes),
            malformed=self._traffic.malformed,
            dead_letters=letters,
            waiting=waiting,
            sending_seconds=self._sending_seconds,
            curve=progress.curve.points(),
        )
