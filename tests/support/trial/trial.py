"""The pipeline's acceptance trial: real processes, a hostile surrounding, totals known apart.

It goes in rounds. In each one, records are appended to the files of several lanes of two pipelines,
whose workers are killed, suspended, succeeded while they live, cut off from regions; files are
renamed, rotated and exported again; the table itself is killed and started again. Then all lanes
are brought to their end, and every category of every region must have its expected total, every
malformed record its dead letter. Between rounds a category comes or goes: a lane that was left
open is refused under the other form, and finished under the former one, as the error says. Then the
states of one pipeline are rebuilt, beside its lanes, by a process that is killed as they are. All
that is drawn comes from the seed; what the machine does in a given time does not.
"""

import json
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import anyio
import yaml
from support.commands import command_line, run_command
from support.trial.judging import wrong_letters, wrong_totals
from support.trial.lanes import LaneOfFiles
from support.trial.processes import Worker, started
from support.trial.records import FIELDS, Traffic, templates
from support.trial.schedule import Event, schedule
from support.trial.table import KeptTable

from ledger.settings.model import CONTRACTED

TIMES = {"settle": 3.0, "retry_horizon": 1.2, "observation_delay": 1.0, "read_deadline": 0.8}
MERGING = {"fold_min": 1, "lease": 20.0, "heartbeat": 1.0}
PIPELINE = {"fields": FIELDS, "batch_max": 50}
PINNED, PLAIN = "pinned", "plain"
"""Records with home regions of their own; and at home in the table's home, which may move."""
TICK_SECONDS = 0.5
RESTART_SECONDS = 1.5
PROBE_LINES = 1_000
PROBE_SECONDS_MAX = 20.0
FINISH_PASSES_MAX = 8
REPLICATED_SECONDS_MAX = 90.0
HOME_SECONDS_MAX = 300.0
HOME_TRIES_MAX = 5
"""Of a move of the home: a region that does not answer ends it, and it is run again."""
WRONG_SHOWN = 40
AUDIT_CHARACTERS = 600
AUDIT_SECONDS_MAX = 600.0
"""A machine that is busy reads the table of an hour's records in minutes."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a trial is made of; `moves_home` in every third round, from the second on."""

    seed: int
    regions: Sequence[str]
    engine: str
    lanes: int = 4
    ticks: int = 40
    lines: int = 8
    """For each lane and tick."""
    moves_home: bool = True


@dataclass
class Report:
    """What a trial did and found, for JSON."""

    plan: dict[str, Any]
    rounds: int = 0
    seconds: float = 0.0
    sent: int = 0
    duplicates: int = 0
    late: int = 0
    malformed: int = 0
    categories: int = 0
    events: list[dict[str, Any]] = field(default_factory=list)
    applied: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    audits: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def to_json(self) -> str:
        """Return it as text."""
        return json.dumps(vars(self), indent=1)


class Trial:
    """One trial in a folder, on a table that is running."""

    def __init__(self, plan: Plan, table: KeptTable, folder: Path) -> None:
        self.plan = plan
        self.table = table
        self.folder = folder
        self.traffics = {name: Traffic(name, plan.seed) for name in (PINNED, PLAIN)}
        self.home = plan.regions[0]
        self.report = Report({name: getattr(plan, name) for name in Plan.__slots__})
        self._draw = Random(f"{plan.seed} trial")  # noqa: S311 (repeatable)
        self._forms = {by_month: self._written(by_month=by_month) for by_month in (False, True)}
        self.config = self._forms[False]
        self.lanes = [self._lane(number) for number in range(plan.lanes)]
        self._compactor: Worker | None = None
        self._moving: Worker | None = None
        self._rebuilding: Worker | None = None
        self._due: list[tuple[float, str, tuple[str, str]]] = []
        self._ended_at: dict[str, float] = {}

    def run(self, *, seconds: float) -> Report:
        """Run rounds until the time is over, one at least; a wrong total ends it."""
        began = time.monotonic()
        try:
            while not self.report.wrong:
                self._round(self.report.rounds)
                self.report.rounds += 1
                is_over = time.monotonic() - began >= seconds
                self._settle(is_last=is_over)
                if is_over:
                    break
                self._change_settings()
        finally:
            self._end()
            self.report.seconds = round(time.monotonic() - began, 1)
            self._sum_up()
        return self.report

    def _round(self, number: int) -> None:
        plan = self.plan
        events = schedule(
            plan.seed, number, ticks=plan.ticks, lanes=plan.lanes, regions=plan.regions
        )
        if plan.moves_home and number % 3 == 1:
            self._move_home()
        for tick in range(plan.ticks):
            due = time.monotonic() + TICK_SECONDS
            for lane in self.lanes:
                lane.append(self.traffics[lane.pipeline].lines(plan.lines))
            self._tend()
            for event in events:
                if event.tick == tick:
                    self._apply(event)
            time.sleep(max(0.0, due - time.monotonic()))

    def _tend(self) -> None:
        """Wake, heal, and start what ended."""
        now = time.monotonic()
        for lane in self.lanes:
            for worker in [*lane.zombies, *([lane.worker] if lane.worker else [])]:
                if worker.wakes_at and worker.wakes_at <= now:
                    worker.wake()
            if lane.worker is not None and not lane.worker.is_alive:
                self._ended_at[lane.name] = now
            lane.note_end()
            if lane.worker is None and now - self._ended_at.get(lane.name, 0) > RESTART_SECONDS:
                lane.start(self.config)
        for one in [one for one in self._due if one[0] <= now]:
            self._due.remove(one)
            self._restore(one[1], one[2])
        if self._rebuilding is not None and self._rebuilding.process.poll():
            self._rebuilding = self._rebuilder()
        if self._compactor is None or not self._compactor.is_alive:
            words = ("run", "--every", "0.5s", "--config", str(self.config))
            self._compactor = started(command_line("compactor", *words), self.folder, "compactor")

    def _restore(self, kind: str, pair: tuple[str, str]) -> None:
        world = self.table.world
        if kind == "outage":
            world.set_outage(pair[0], on=False)
        else:
            world.heal(*pair)
            world.heal(pair[1], pair[0])

    def _apply(self, event: Event) -> None:
        self.report.events.append(event.describe())
        lane, until = self.lanes[event.lane], time.monotonic() + event.seconds
        name = event.kind
        match event.kind:
            case "kill" | "stop" | "zombie":
                name = self._disturb(lane, event.kind, until)
            case "move":
                name = lane.move()
            case "export":
                name = lane.export()
            case "restart":
                self.table.restart()
                self._heal()
            case "compactor":
                for worker in (self._compactor, self._rebuilding):
                    if worker is not None and worker.is_alive:
                        worker.kill()
                        self.report.applied["rebuild killed"] += worker is self._rebuilding
            case _:
                self._cut(event, until)
        self.report.applied[name] += 1

    def _disturb(self, lane: LaneOfFiles, kind: str, until: float) -> str:
        """Kill or suspend the worker of a lane, or let another one begin beside it."""
        worker = lane.worker
        if worker is None or not worker.is_alive:
            return f"{kind}, without a worker"
        if kind == "kill":
            worker.kill()
            return kind
        worker.stop(until)
        if kind == "zombie":
            lane.zombies.append(worker)
            lane.worker = None
            self._ended_at.pop(lane.name, None)
        return kind

    def _cut(self, event: Event, until: float) -> None:
        """Cut two regions off from each other, or one from everything."""
        world, (one, other) = self.table.world, event.pair
        if event.kind == "outage":
            world.set_outage(one, on=True)
        else:
            world.pause(one, other)
            world.pause(other, one)
        self._due.append((until, event.kind, event.pair))

    def _heal(self) -> None:
        self._due.clear()
        for region in self.plan.regions:
            self.table.world.set_outage(region, on=False)
        self.table.world.heal_all()

    def _settle(self, *, is_last: bool) -> None:
        """Bring all lanes to their end and judge what is shown."""
        self._heal()
        if is_last:
            for lane in self.lanes:
                lane.append(self.traffics[lane.pipeline].held_back())
        self._end_move()
        for lane in self.lanes:
            if lane.worker is not None:
                lane.worker.kill()
            if is_last:
                lane.kill_all()
        self._finish_all()
        self._end_rebuild()
        self._judge()

    def _finish_all(self) -> None:
        with ThreadPoolExecutor(len(self.lanes)) as pool:
            for problem in filter(None, pool.map(self._finish, self.lanes)):
                self.report.wrong.append(problem)

    def _finish(self, lane: LaneOfFiles) -> str:
        """Bring all files of a lane to their end, those that are refused after the others."""
        lane.note_end()
        refused: dict[str, str] = {}
        left = [*lane.moved, lane.path]
        for _ in range(FINISH_PASSES_MAX):
            again = []
            refused.clear()
            for path in left:
                if not path.stat().st_size:
                    continue
                status, said = lane.finish(path, self.config)
                if status:
                    again.append(path)
                    refused[path.name] = said
                    self.report.refused[said.strip().splitlines()[-1][-300:]] += 1
            if not again:
                lane.moved.clear()
                return ""
            left = again
        return f"{lane.name}: these do not come to their end: {refused}"

    def _judge(self) -> None:
        world = self.table.world
        anyio.run(world.wait_replicated, REPLICATED_SECONDS_MAX)
        expected = {
            name: value
            for traffic in self.traffics.values()
            for name, value in traffic.totals().items()
        }
        self.report.categories = len(expected)
        wrong = anyio.run(wrong_totals, self.config, expected)
        wrong += wrong_letters(self.lanes, self.traffics.values())
        self.report.wrong += [f"round {self.report.rounds}: {one}" for one in wrong[:WRONG_SHOWN]]
        self._audit()

    def _audit(self) -> None:
        for name in self.traffics:
            words = ("pipeline", "audit", "--pipeline", name, "--config", str(self.config))
            try:
                ran = run_command(
                    "ledger", *words, folder=self.folder, seconds_max=AUDIT_SECONDS_MAX
                )
                status, said = ran.status, (ran.out + ran.errors)[-AUDIT_CHARACTERS:]
            except subprocess.TimeoutExpired as error:
                status, said = 1, str(error)
            self.report.audits.append(f"round {self.report.rounds}: {name}: {status}: {said}")
            if status:
                self.report.wrong.append(f"audit: {self.report.audits[-1]}")

    def _change_settings(self) -> None:
        """Leave a lane open, find it refused under the other form, finish it, and go over."""
        former, by_month = self.config, not self.traffics[PLAIN].by_month
        for lane in self.lanes:
            lane.kill_all()
        lane = self._draw.choice([files for files in self.lanes if not files.follows])
        traffic = self.traffics[lane.pipeline]
        lines = traffic.lines(PROBE_LINES)
        lane.append(lines)
        lane.start(former, follows=True)  # which leaves it open, whenever it is killed
        lane.wait_until_read(PROBE_SECONDS_MAX)
        lane.kill_all()
        status, said = lane.finish(lane.path, self._forms[by_month])
        if status and "under other settings" in said:
            self.report.applied["refused under another form"] += 1
            status, said = lane.finish(lane.path, former)
        elif not status and ": 0 records in" not in said:  # nothing had been begun
            traffic.count_under(lines, by_month=by_month)
        if status:
            self.report.wrong.append(f"{lane.name}: not finished under the former form: {said}")
        self.report.applied["settings changed"] += 1
        self.config = self._forms[by_month]
        for one in self.traffics.values():
            one.by_month = by_month
        self.traffics[PINNED].count_all_under(by_month=by_month)
        self._rebuilding = self._rebuilder()

    def _rebuilder(self) -> Worker:
        words = ("pipeline", "rebuild", "--pipeline", PINNED, "--config", str(self.config))
        return started(command_line("ledger", *words), self.folder, "rebuild")

    def _end_rebuild(self) -> None:
        if self._rebuilding is None:
            return
        for _ in range(HOME_TRIES_MAX):
            if not self._rebuilding.process.wait(HOME_SECONDS_MAX):
                break
            self.report.applied["not rebuilt at once"] += 1
            self._rebuilding = self._rebuilder()
        if self._rebuilding.process.wait(HOME_SECONDS_MAX):
            self.report.wrong.append(f"not rebuilt: {self._rebuilding.said()}")
        self.report.applied["rebuilt"] += 1
        self._rebuilding = None

    def _move_home(self) -> None:
        others = [region for region in self.plan.regions if region != self.home]
        self.home = self._draw.choice(others)
        self._moving = self._mover()

    def _mover(self) -> Worker:
        words = ("move-home", self.home, "--config", str(self.config))
        return started(command_line("compactor", *words), self.folder, "home")

    def _end_move(self) -> None:
        if self._moving is None:
            return
        for _ in range(HOME_TRIES_MAX):
            if not self._moving.process.wait(HOME_SECONDS_MAX):
                break
            self.report.applied["home not moved at once"] += 1
            self._moving = self._mover()
        if self._moving.process.wait(HOME_SECONDS_MAX):
            self.report.wrong.append(f"home not moved: {self._moving.said()}")
        self.report.applied["home moved"] += 1
        self._moving = None

    def _end(self) -> None:
        for lane in self.lanes:
            lane.kill_all()
        for worker in (self._compactor, self._moving, self._rebuilding):
            if worker is not None:
                worker.kill()

    def _sum_up(self) -> None:
        report = self.report
        for traffic in self.traffics.values():
            report.sent += traffic.sent
            report.duplicates += traffic.duplicates
            report.late += traffic.late
            report.malformed += len(traffic.malformed)
        for lane in self.lanes:
            report.ended.update(lane.ended)

    def _lane(self, number: int) -> LaneOfFiles:
        region = self.plan.regions[number % len(self.plan.regions)]
        pipeline = PLAIN if number % 4 in {1, 2} else PINNED
        return LaneOfFiles(f"lane{number}", pipeline, region, self.folder, number % 2 == 1)

    def _written(self, *, by_month: bool) -> Path:
        regions = self.plan.regions
        digits = {f"*[{'0123456789'[n :: len(regions)]}]": name for n, name in enumerate(regions)}
        pipelines: dict[str, Any] = {
            name: {**PIPELINE, "categories": templates(name, by_month=by_month)}
            for name in (PINNED, PLAIN)
        }
        pipelines[PLAIN]["totals"] = "entries"  # so that there is something to merge
        pipelines[PINNED]["keep_fields"] = ["Place.Month"]
        pipelines[PINNED]["home"] = {"field": "Row.Id", "regions": digits}
        settings = self.table.world.settings(**TIMES, compactor=MERGING, pipelines=pipelines)
        path = self.folder / f"regions-{int(by_month)}.yaml"
        values = settings.model_dump(mode="json", exclude=set(CONTRACTED))
        path.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
        return path
