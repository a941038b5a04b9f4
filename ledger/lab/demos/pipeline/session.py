"""The course of the pipeline's demo: send, let all go wrong, cut regions off, heal, compare.

::

    this process   traffic, truth --append--> lane files     totals --read--> display, comparison
    workers        lane file --> state --> map --> reduce    one process a lane, store spoiled
    another        the local global table, replication, engine
"""

import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, fields
from decimal import Decimal
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import anyio

from ledger.core.errors import LedgerError
from ledger.lab.demos.pipeline.crew import Member, open_crew
from ledger.lab.demos.pipeline.ground import Ground, open_ground
from ledger.lab.demos.pipeline.options import STAGES, Options
from ledger.lab.demos.pipeline.report import Outcome, Report, outcome
from ledger.lab.demos.pipeline.state import SHOWN, Progress
from ledger.lab.demos.pipeline.traffic import Message, Traffic
from ledger.lab.demos.pipeline.truth import Truth
from ledger.lab.demos.pipeline.worker import Job
from ledger.lab.harness.config import write_config
from ledger.ledger import Ledger
from ledger.pipeline.core.items import lane_id
from ledger.pipeline.progress import Figures
from ledger.pipeline.sources.dead_letters import letter_of
from ledger.pipeline.stages.lanes import Lanes
from ledger.runtime.clock import Clock
from ledger.settings import Settings
from ledger.store.opening import open_store

CHUNK_MAX = 100
"""Messages sent at once: latency is told by the chunk."""
TICK_SECONDS = 0.02
LOOK_SECONDS_MIN = 0.5
LOOK_SHARE = 0.05
"""Of the time that reading totals for the display may take."""
CUT_FROM, CUT_TO = 0.3, 0.6
CUT_MESSAGES_MAX = 20_000
"""Regions are cut off for a share of the messages, but no longer: what is held lies in memory."""
SETTLE_SECONDS = 600.0
READ_SECONDS, HOLD_SECONDS = 300.0, 400.0
"""Nothing is merged here, so totals of long runs may take their time to be read."""
READ_AT_ONCE = 4
"""Categories that are read together for the comparison."""


@dataclass(frozen=True, slots=True)
class _Stage:
    """What is open while the demo runs."""

    world: Ground
    settings: Settings
    crew: Sequence[Member]
    ledgers: Mapping[str, Ledger]


class Session:
    """One run of the demo; `folder` takes the lanes' files: about 200 bytes a message."""

    def __init__(self, options: Options, *, clock: Clock, folder: Path | None = None) -> None:
        self.progress = Progress(options)
        self.publish: Callable[[Mapping[str, Any]], None] = _ignored
        self._options = options
        self._clock = clock
        self._folder = folder
        self._traffic = Traffic(options, Random(options.seed))  # noqa: S311 (repeatable)
        self._truth = Truth(options)
        self._began = 0.0
        self._changed = anyio.Event()

    async def run(self) -> Report:
        """Run it all.

        Raises:
            LedgerError: something could not be done; a wrong total is no error but the report.
        """
        async with self._stage() as stage:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._watch, stage)
                async with anyio.create_task_group() as lanes:
                    for member in stage.crew:
                        lanes.start_soon(member.listen, partial(self._note, stage.crew))
                    await self._send(stage)
                    self.progress.phase = "all is sent: bringing in the rest"
                tasks.cancel_scope.cancel()
            self.progress.phase = "waiting until every region has heard of everything"
            stage.world.heal_all()
            await stage.world.wait_replicated(SETTLE_SECONDS)
            self.progress.phase = "comparing every category in every region"
            return await self._compare(stage)

    @asynccontextmanager
    async def _stage(self) -> AsyncIterator[_Stage]:
        options = self._options
        async with AsyncExitStack() as stack:
            self.progress.phase = f"starting a table on {options.engine}, and the workers"
            made = tempfile.TemporaryDirectory(prefix="ledger-pipeline-", dir=self._folder)
            folder = Path(stack.enter_context(made))
            world = await stack.enter_async_context(open_ground(options))
            settings = world.settings(
                transport="lean",
                pipeline=options.pipeline(),
                read_deadline=READ_SECONDS,
                observation_delay=HOLD_SECONDS,
            )
            crew = await stack.enter_async_context(
                open_crew(self._jobs(folder, settings), self.progress.latencies)
            )
            ledgers = {
                name: await stack.enter_async_context(Ledger.open(settings, region=name))
                for name in options.names
            }
            yield _Stage(world, settings, crew, ledgers)

    def _jobs(self, folder: Path, settings: Settings) -> list[Job]:
        config = write_config(settings, folder)
        jobs = []
        for number, (region, lane) in enumerate(self._options.lane_names):
            file, dead = folder / f"{number}.jsonl", folder / f"{number}.dead"
            file.touch()
            options = self._options
            jobs.append(
                Job(
                    *(region, lane, str(file), str(dead), str(config)),
                    fail=options.fail,
                    seed=options.seed,
                    twin=options.twin,
                )
            )
        return jobs

    async def _send(self, stage: _Stage) -> None:
        """Send all messages, as fast as the lanes take them or as the rate allows."""
        self._began = self._clock.monotonic()
        messages = self._traffic.messages()
        cut = self._cut_places()
        while True:
            room = await self._room(stage)
            self._traffic.now = self._clock.now().isoformat(timespec="milliseconds")
            chunk = list(islice(messages, room))
            if not chunk:
                break
            self._append(stage, chunk)
            while cut and self.progress.sent >= cut[0]:
                cut.pop(0)
                self._cut(stage, is_cut=len(cut) == 1)
        for member in stage.crew:
            await member.complete()

    async def _room(self, stage: _Stage) -> int:
        """Wait until messages may be sent, and return how many."""
        options, progress = self._options, self.progress
        lead = options.lead * len(stage.crew)
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

    def _append(self, stage: _Stage, chunk: Sequence[Message]) -> None:
        """Append messages to the lanes' files, and take the truth from them."""
        lines: list[list[bytes]] = [[] for _ in stage.crew]
        for message in chunk:
            self._truth.take(message)
            lines[message.lane].append(message.line)
        at = self._clock.monotonic()
        for member, part in zip(stage.crew, lines, strict=True):
            if part:
                member.append(part, at)
        self.progress.sent += len(chunk)

    def _cut_places(self) -> list[int]:
        """Return after how many messages the regions are cut off from each other, and healed."""
        messages = self._options.messages
        first = int(messages * CUT_FROM)
        return [first, min(int(messages * CUT_TO), first + CUT_MESSAGES_MAX)]

    def _cut(self, stage: _Stage, *, is_cut: bool) -> None:
        names = self._options.names
        if len(names) == 1:
            return
        home, others = names[0], names[1:]
        self.progress.cut = f"{home} is cut off from the other regions" if is_cut else ""
        if not is_cut:
            stage.world.heal_all()
            return
        for other in others:
            stage.world.pause(home, other)
            stage.world.pause(other, home)

    def _note(self, crew: Sequence[Member]) -> None:
        """Take note that some worker has said something."""
        self.progress.counted = sum(member.counted for member in crew)
        self._changed.set()

    async def _watch(self, stage: _Stage) -> None:
        """Read totals for the display, again and again, without taking much of the machine."""
        self.progress.phase = "sending"
        while True:
            started = self._clock.monotonic()
            self._tick()
            self.progress.truth = {
                name: value for name, value in self._truth.totals().items() if name in SHOWN
            }
            for name, ledger in stage.ledgers.items():
                try:
                    totals = await ledger.totals(SHOWN, max_age=0)
                except LedgerError:  # a busy machine; the next look will do
                    continue
                self.progress.shown[name] = {key: one.value for key, one in totals.items()}
            self.publish(self.progress.snapshot())
            took = self._clock.monotonic() - started
            await self._clock.sleep(max(LOOK_SECONDS_MIN, took / LOOK_SHARE))

    def _tick(self) -> None:
        progress = self.progress
        if self._began:
            progress.seconds = self._clock.monotonic() - self._began
            progress.history.append((round(progress.seconds, 2), progress.counted))

    async def _compare(self, stage: _Stage) -> Report:
        progress, truth = self.progress, self._truth.totals()
        outcomes: list[Outcome] = []
        for name, ledger in stage.ledgers.items():
            shown: dict[str, Decimal] = {}
            categories = iter(truth)
            while some := list(islice(categories, READ_AT_ONCE)):
                found = await ledger.totals(some, max_age=0)
                shown |= {key: one.value for key, one in found.items()}
            progress.shown[name] = {key: shown[key] for key in SHOWN}
            outcomes.append(outcome(name, shown, truth))
        progress.truth = {name: truth[name] for name in SHOWN}
        report = self._report(stage, outcomes, await self._waiting(stage))
        progress.verdict = report.is_exact
        progress.phase = "exact in every region" if report.is_exact else "the totals are wrong"
        self.publish(progress.snapshot())
        return report

    async def _waiting(self, stage: _Stage) -> int:
        """Return how many map items are left."""
        left = 0
        for region, lane in self._options.lane_names:
            async with open_store(stage.settings, region) as store:
                left += len(await Lanes(lane_id(region, lane), store, self._clock).load())
        return left

    def _report(self, stage: _Stage, outcomes: Sequence[Outcome], waiting: int) -> Report:
        told = [member.told for member in stage.crew]
        names = [one.name for one in fields(Figures)]
        latencies = self.progress.latencies
        return Report(
            options=self._options,
            outcomes=outcomes,
            messages=self.progress.sent,
            seconds=max(member.counted_at for member in stage.crew) - self._began,
            cpu_seconds=sum(one["cpu_seconds"] for one in told),
            memory_bytes=max(one["memory_bytes"] for one in told),
            p50_seconds=latencies.at(0.5),
            p99_seconds=latencies.at(0.99),
            worst_seconds=latencies.at(1.0),
            counts={name: sum(one[name] for one in told) for name in (*names, "crashes")},
            spoiled={
                stage_name: (
                    sum(one["spoiled"][stage_name] for one in told),
                    sum(one["asked"][stage_name] for one in told),
                )
                for stage_name in STAGES
            },
            write_units=sum(one["write_units"] for one in told),
            poison=self._truth.poison,
            letters=sum(_letters(Path(member.job.dead)) for member in stage.crew),
            waiting=waiting,
        )


def _ignored(_snapshot: Mapping[str, Any]) -> None:
    """Nobody asked."""


def _letters(file: Path) -> int:
    """Return how many records a file of dead letters has; one that came twice is one."""
    if not file.exists():
        return 0
    return len({letter_of(line).position for line in file.read_text("utf-8").splitlines()})
