"""The nemesis: injects the faults of a schedule into the table and the processes."""

from collections.abc import Mapping

from anyio import to_thread
from anyio.abc import TaskGroup

from ledger.lab.chaos.report import ChaosProgress
from ledger.lab.chaos.schedule import (
    NO_FAULTS,
    Conditions,
    FaultSchedule,
    ProcessFault,
    ScheduledFault,
)
from ledger.lab.harness.processes import ManagedProcess
from ledger.local import LocalGlobalTable
from ledger.runtime.clock import Clock


class Nemesis:
    """Injects faults into a table, and into processes by name."""

    def __init__(
        self,
        world: LocalGlobalTable,
        processes: Mapping[str, ManagedProcess],
        progress: ChaosProgress,
        *,
        clock: Clock,
    ) -> None:
        self._world = world
        self._processes = processes
        self._progress = progress
        self._clock = clock
        self._now = NO_FAULTS

    async def run(self, schedule: FaultSchedule, tasks: TaskGroup) -> None:
        """Inject every fault of a schedule; return when it is over, and all is healed.

        Raises:
            LocalTableError: the table does not answer.
        """
        started = self._clock.monotonic()
        for fault in schedule.faults:
            tasks.start_soon(self._begin, fault, started)
        for moment in schedule.turns():
            await self._sleep_until(started + moment)
            await self.apply(schedule.conditions(moment))
        await self._sleep_until(started + schedule.seconds)
        await self.apply(NO_FAULTS)
        for process in self._processes.values():
            process.resume()

    async def apply(self, conditions: Conditions) -> None:
        """Apply these conditions from now on.

        Raises:
            LocalTableError: the table does not answer.
        """
        await to_thread.run_sync(self._apply, conditions)
        self._progress.links_cut = len(conditions.cut)

    async def count_faults(self) -> None:
        """Update how many faults of each kind were injected so far."""
        status = await to_thread.run_sync(self._world.status)
        self._progress.faults = status["faults_by_kind"]

    def _apply(self, conditions: Conditions) -> None:
        before, self._now = self._now, conditions
        for source, target in sorted(before.cut - conditions.cut):
            self._world.heal(source, target)
        for source, target in sorted(conditions.cut - before.cut):
            self._world.pause(source, target)
        if conditions.jitter != before.jitter:
            options = self._progress.options
            jitter = options.jitter if conditions.jitter is None else conditions.jitter
            self._world.set_lag(options.lag, jitter)
        if conditions.rules != before.rules:
            self._world.set_faults(conditions.rules)

    async def _begin(self, fault: ScheduledFault, started: float) -> None:
        """Record a fault when it begins; one of a process is injected here."""
        await self._sleep_until(started + fault.at)
        if isinstance(fault, ProcessFault):
            await self._inject(fault)
        else:
            self._progress.planned[type(fault).__name__] += 1
            self._progress.note(str(fault))

    async def _inject(self, fault: ProcessFault) -> None:
        process, is_kill = self._processes[fault.process], fault.kind == "kill"
        if not (process.kill(fault.seconds) if is_kill else process.suspend()):
            return  # it is down or suspended already
        self._progress.process_faults[f"{fault.kind} {process.kind}"] += 1
        self._progress.note(str(fault))
        if not is_kill:
            await self._clock.sleep(fault.seconds)
            process.resume()

    async def _sleep_until(self, moment: float) -> None:
        await self._clock.sleep(max(0.0, moment - self._clock.monotonic()))
