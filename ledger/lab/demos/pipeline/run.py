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

from ledger.core.errors import LedgerError
from ledger.lab.demos.pipeline.lanes import LaneProcess
from ledger.lab.demos.pipeline.options import PipelineDemoOptions
from ledger.lab.demos.pipeline.report import (
    SHOWN,
    PipelineDemoProgress,
    PipelineDemoReport,
    quantiles,
)
from ledger.lab.demos.pipeline.traffic import Message, Traffic
from ledger.lab.demos.pipeline.worker import Job
from ledger.lab.harness.config import write_config
from ledger.lab.harness.table import TestTable, open_table
from ledger.lab.harness.totals import RegionTotals, read_totals
from ledger.ledger import Ledger
from ledger.pipeline.core.items import lane_id
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


class PipelineDemoRun:
    """One run of the demo; `publish` takes what the page shows."""

    def __init__(self, options: PipelineDemoOptions, *, clock: Clock) -> None:
        self.progress = PipelineDemoProgress(options)
        self.publish: Callable[[Mapping[str, Any]], None] = lambda _snapshot: None
        self._options = options
        self._clock = clock
        self._traffic = Traffic(options, Random(options.seed))  # noqa: S311 (repeatable)
        self._began = 0.0

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
            lanes = [LaneProcess(job, progress) for job in self._jobs(table)]
            for lane in lanes:
                await stack.enter_async_context(lane.started())
            async with background_tasks() as tasks:
                tasks.start_soon(self._watch, ledgers)
                async with anyio.create_task_group() as following:
                    for lane in lanes:
                        following.start_soon(lane.follow)
                    await self._send(table, lanes)
                    progress.phase = "everything is sent: processing the rest"
            progress.phase = "waiting until every change has reached every region"
            await table.heal()
            progress.phase = "comparing every category in every region"
            progress.totals = await read_totals(ledgers, self._traffic.expected())
            report = self._report(lanes, progress.totals, await self._waiting(table))
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
            )
            for number, (region, lane) in enumerate(options.lane_names)
        ]

    async def _send(self, table: TestTable, lanes: Sequence[LaneProcess]) -> None:
        """Send all messages, as fast as the lanes take them; cut the home region off meanwhile."""
        progress, messages = self.progress, self._traffic.messages()
        progress.phase, self._began = "sending", self._clock.monotonic()
        lead, total = self._options.lead * len(lanes), self._options.messages
        while progress.sent < total:
            room = min(lead - (progress.sent - progress.counted), CHUNK_MAX)
            if room <= 0:
                await self._clock.sleep(TICK_SECONDS)
                continue
            self._traffic.now = self._clock.now().isoformat(timespec="milliseconds")
            self._append(lanes, list(islice(messages, room)))
            since = progress.sent - int(total * CUT_FROM)
            self._cut(table, is_cut=0 <= since < min(total * (CUT_TO - CUT_FROM), CUT_MESSAGES_MAX))
        for lane in lanes:
            await lane.send(b"end")

    def _append(self, lanes: Sequence[LaneProcess], messages: Sequence[Message]) -> None:
        """Append messages to the lanes' files."""
        at = self._clock.monotonic()
        for number, lane in enumerate(lanes):
            if lines := [message.line for message in messages if message.lane == number]:
                lane.append(lines, at)
        self.progress.sent += len(messages)

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
            if self._began:
                progress.seconds = started - self._began
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
            lanes = Lanes(lane_id(region, lane), table.stores[region], self._clock)
            waiting += len(await lanes.load())
        return waiting

    def _report(
        self, lanes: Sequence[LaneProcess], totals: Sequence[RegionTotals], waiting: int
    ) -> PipelineDemoReport:
        progress, work = self.progress, Counter[str]()
        for lane in lanes:
            work.update(lane.work)
        return PipelineDemoReport(
            options=self._options,
            totals=totals,
            seconds=progress.counted_at - self._began,
            latency=quantiles(progress.latencies),
            work=work,
            memory_bytes=max(lane.memory_bytes for lane in lanes),
            malformed=self._traffic.malformed,
            dead_letters=sum(lane.dead_letters() for lane in lanes),
            waiting=waiting,
        )
