"""One soak: a global table, instances of the service in each region, load, faults, restarts.

Faults by a schedule and rolling restarts take turns: in these nothing else goes wrong.
"""

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import count, cycle
from pathlib import Path
from random import Random
from typing import Any

import anyio
from anyio.abc import TaskGroup

from lab.faults.fault_run import (
    COMPACTORS,
    MERGING,
    REGIONS,
    Clients,
    FaultRun,
    Participants,
    Terms,
)
from lab.faults.report import Ending, FaultReport
from lab.faults.schedule import SERVICE_ROUND, FaultSchedule, FaultScheduler
from lab.faults.workload import CACHED_SECONDS, ReadMode, Workload
from lab.harness.config import write_config
from lab.harness.processes import ManagedProcess
from lab.soak.balancer import Attempt, Balancer
from lab.soak.curves import Curves
from lab.soak.followers import FeedFollower, Followers
from lab.soak.instances import Instance, Life
from lab.soak.offered_load import OfferedWorkload
from lab.soak.report import (
    INTERVAL_SECONDS_MIN,
    INTERVALS_MAX,
    STEADY,
    SoakOptions,
    SoakProgress,
    SoakReport,
)
from lab.soak.service import Service
from ledger.demo.harness.checker import TaggedChecker, Violation
from ledger.demo.harness.table import TestTable
from ledger.http.service.access.token_file import create_token
from ledger.http.service.access.tokens import SCOPES, checked_grant
from ledger.runtime.clock import Clock, system_random
from ledger.settings import Settings

COMPACTOR_EVERY = "1s"
# Longer than in chaos: calls go on trying for 10 s, and most of them are to end within the horizon.
TIMES: Mapping[str, Any] = {
    "settle": 30.0,
    "retry_horizon": 15.0,
    "observation_delay": 2.0,
    "request_timeout": 2.0,
    "write_deadline": 4.0,
    "contract_life": 10.0,
}
MERGE: Mapping[str, Any] = {
    **MERGING,
    "fold_age": 31.0,
    "pending_max": 400,
    "scan_every": 60.0,
}
GAP_SECONDS = (1.0, 4.0)
CYCLE_SECONDS = 240.0
FAULTS_SHARE = 0.6
"""Of a cycle; the rest is for recovery and a rolling restart."""
RECOVERY_SECONDS = 5.0
READY_SECONDS_MAX = 300.0
"""How long a start may take, on a machine that is busy with much else."""
LOOK_SECONDS = 0.1
LATE_SECONDS = 0.4
MEMORY_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class _Tokens:
    """The file of tokens, and two of them."""

    file: Path
    all: str
    read: str


class SoakRun(FaultRun):
    """One run of `lab soak`."""

    watch_seconds = 10.0

    def __init__(self, options: SoakOptions, *, clock: Clock) -> None:
        interval = max(INTERVAL_SECONDS_MIN, options.seconds / INTERVALS_MAX)
        self.soak = SoakProgress(options, TaggedChecker(), clock, curves=Curves(interval))
        terms = Terms(TIMES, MERGE, COMPACTOR_EVERY)
        super().__init__(self.soak, terms, regions=REGIONS, clock=clock)
        self._options = options
        self._balancers: Sequence[Balancer] = ()
        self._services: Mapping[str, Service] = {}
        self._read_only_token = ""
        self._feed: FeedFollower | None = None

    @property
    def _instances(self) -> list[Instance]:
        return [instance for balancer in self._balancers for instance in balancer.instances]

    def schedule(self, number: int, seconds: float) -> FaultSchedule:
        """Return the faults of a cycle: the same for the same seed."""
        names = [
            f"{region}-{number}" for region in REGIONS for number in range(self._options.instances)
        ]
        scheduler = FaultScheduler(
            Random(f"soak {self._options.seed} {number}"),  # noqa: S311 (repeatable)
            seconds,
            REGIONS,
            {"compactor": COMPACTORS, "instance": names},
            GAP_SECONDS,
        )
        return FaultSchedule(self._options.seed, seconds, tuple(scheduler.rounds(SERVICE_ROUND)))

    def _workload(self, participants: Participants, tasks: TaskGroup) -> Workload:
        """Return the load; what watches and follows it is started."""
        workload = OfferedWorkload(
            self.soak,
            rate=self._options.rate,
            settings=participants.table.settings,
            writers=participants.clients.writers,
            read_modes=participants.clients.read_modes,
            tasks=tasks,
        )
        for balancer in self._balancers:
            for instance in balancer.instances:
                tasks.start_soon(balancer.watch, instance)
        tasks.start_soon(self._keep_time)
        tasks.start_soon(self._measure_memory, [*self._instances, *participants.compactors])
        for region, service in self._services.items():
            followers = Followers(
                service,
                region,
                workload,
                self.soak,
                Random(f"soak {region} {self._options.seed}"),  # noqa: S311 (repeatable)
                self._read_only_token,
            )
            workload.beside += [
                followers.send_refused,
                followers.read_histories,
                followers.follow_live,
            ]
        self._feed = FeedFollower(self._services[REGIONS[1]], REGIONS[1], self.soak)
        workload.beside.append(self._feed.run)
        return workload

    async def _wait_ready(self) -> None:
        self.progress.phase = "waiting until every instance is ready"
        await self._until_ready(self._instances)

    async def _inject(self, participants: Participants, workload: Workload) -> None:
        del workload
        ends = self._clock.monotonic() + self._options.seconds
        for number in count():
            left = ends - self._clock.monotonic()
            if left <= 0:
                return
            seconds = min(left, CYCLE_SECONDS) * FAULTS_SHARE
            self.progress.phase = "injecting faults"
            await participants.nemesis.run(self.schedule(number, seconds))
            self.progress.phase = "restarting one instance after another"
            await self._until_ready(self._instances)
            await self._clock.sleep(RECOVERY_SECONDS)
            await self._roll()

    async def _roll(self) -> None:
        """Restart each instance but the steady one, in all regions, with nothing else wrong."""
        self.soak.is_calm = True
        async with anyio.create_task_group() as tasks:
            for balancer in self._balancers:
                tasks.start_soon(self._roll_region, balancer.instances)
        self.soak.is_calm = False
        self.soak.rolled += 1

    async def _roll_region(self, instances: Sequence[Instance]) -> None:
        """Restart one instance of a region after another, each once the one before is ready."""
        for instance in instances:
            if not instance.name.endswith(STEADY):
                before = instance.life
                instance.restart(0.0)
                self.progress.note(f"rolling restart of {instance.name}")
                await self._until_ready([instance], after=before)

    async def _until_ready(
        self, instances: Sequence[Instance], *, after: Life | None = None
    ) -> None:
        """Wait until instances are ready, in another life than the given; bounded."""
        waiting: list[str] = []
        with anyio.move_on_after(READY_SECONDS_MAX):
            while waiting := [
                instance.name
                for instance in instances
                if instance.life is None or instance.life is after or not instance.life.is_ready
            ]:
                await self._clock.sleep(LOOK_SECONDS)
        if waiting:
            text = f"not ready within {READY_SECONDS_MAX:g} s: {', '.join(waiting)}"
            self.progress.add(Violation("processes", text))

    async def _check_more(self) -> None:
        self.progress.phase = "waiting for the last pages of the feed"
        if self._feed is not None:
            await self._feed.check()

    async def _measure_memory(self, processes: Sequence[ManagedProcess]) -> None:
        while True:  # until cancelled
            await self._clock.sleep(MEMORY_SECONDS)
            for process in processes:
                self.soak.starts[process.name] = process.starts
                if (size := process.resident_bytes()) is not None:
                    self.soak.curves.memory[process.name].append((self.soak.seconds, size))

    async def _keep_time(self) -> None:
        """Notice when this process, in which all clients run, is kept waiting by the machine."""
        while True:  # until cancelled
            due = self._clock.monotonic() + LOOK_SECONDS
            await self._clock.sleep(LOOK_SECONDS)
            now = self._clock.monotonic()
            if now - due > LATE_SECONDS:
                self.soak.late.append((now, now - due))

    def _judge(self, attempt: Attempt) -> None:
        self.soak.interval.attempts[attempt.result] += 1
        if attempt.is_calm:
            self.soak.calm[attempt.result] += 1
        if (found := attempt.complaint()) is not None:
            self.soak.add(Violation(*found))

    def _report(self, ending: Ending, context: tuple[str, ...]) -> FaultReport:
        return SoakReport(self.soak, ending, context)

    async def _open_clients(
        self, table: TestTable, transports: Sequence[Settings], stack: AsyncExitStack
    ) -> Clients:
        tokens = self._made_tokens(table)
        self._read_only_token = tokens.read
        self._balancers = [
            Balancer(
                self._made_instances(table, region, tokens, transports),
                clock=self._clock,
                on_attempt=self._judge,
                is_calm=lambda: self.soak.is_calm,
                was_late=self.soak.was_late,
            )
            for region in REGIONS
        ]
        horizon = table.settings.retry_horizon
        self._services = {
            region: Service(balancer, tokens.all, horizon=horizon, clock=self._clock)
            for region, balancer in zip(REGIONS, self._balancers, strict=True)
        }
        for service in self._services.values():
            await stack.enter_async_context(service.ledger)
        return Clients(
            (
                ReadMode("fresh", self._services, 0.0, 0.0),
                ReadMode("cached", self._services, CACHED_SECONDS, CACHED_SECONDS),
            ),
            self._services,
            self._instances,
        )

    def _made_tokens(self, table: TestTable) -> _Tokens:
        file, made = table.folder / "tokens.json", []
        for name, scopes in (("soak", SCOPES), ("reader", ("read",))):
            grant = checked_grant(name, scopes)
            made.append(
                create_token(
                    file, grant, now=self._clock.now(), randomness=system_random(), expires=None
                )
            )
        return _Tokens(file, *made)

    def _made_instances(
        self, table: TestTable, region: str, tokens: _Tokens, transports: Sequence[Settings]
    ) -> list[Instance]:
        """Return the instances of a region; at home one more, which is never restarted."""
        names = [f"{region}-{number}" for number in range(self._options.instances)]
        if region == REGIONS[0]:
            names.append(f"{region}-{STEADY}")
        return [
            Instance(
                name,
                region,
                config=write_config(settings, table.folder / name),
                tokens=tokens.file,
                drain_seconds=self._options.drain,
            )
            for name, settings in zip(names, cycle(transports), strict=False)
        ]
