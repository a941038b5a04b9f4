"""The nemesis: injects the faults of a schedule into the table and the processes."""

from collections.abc import Mapping

from anyio import to_thread

from lab.faults.report import FaultProgress
from lab.faults.schedule import NO_FAULTS, Conditions, FaultSchedule, ScheduledFault
from lab.harness.processes import ManagedProcess
from ledger.local import LocalGlobalTable
from ledger.runtime.clock import Clock


class Nemesis:
    """Injects faults into a table, and into processes by name."""

    def __init__(
        self,
        world: LocalGlobalTable,
        processes: Mapping[str, ManagedProcess],
        progress: FaultProgress,
        *,
        clock: Clock,
    ) -> None:
        self._world = world
        self._processes = processes
        self._progress = progress
        self._clock = clock
        self._now = NO_FAULTS
        self._lasting: set[ScheduledFault] = set()

    async def run(self, schedule: FaultSchedule) -> None:
        """Inject every fault of a schedule; return when it is over, and all is healed.

        Raises:
            LocalTableError: the table does not answer.
        """
        started = self._clock.monotonic()
        for moment in (*schedule.turns(), schedule.seconds):
            await self._clock.sleep(max(0.0, started + moment - self._clock.monotonic()))
            for fault in schedule.faults:
                if fault.at == moment:
                    self._begin(fault)
                elif fault.ends == moment and fault in self._lasting:
                    self._end(fault)
            await self.apply(schedule.conditions(moment))

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
        for region, _ in set(before.clocks) - set(conditions.clocks):
            self._world.set_clock(region, dict(conditions.clocks).get(region, 0.0))
        for region, ahead in set(conditions.clocks) - set(before.clocks):
            self._world.set_clock(region, ahead)

    def _begin(self, fault: ScheduledFault) -> None:
        """Record a fault; one of a process is injected here, unless that is down or suspended."""
        if fault.process:
            if not self._strike(self._processes[fault.process], fault):
                return
            self._progress.process_faults[fault.kind] += 1
        self._progress.note(str(fault))

    def _strike(self, process: ManagedProcess, fault: ScheduledFault) -> bool:
        """Inject a fault of a process; return whether it was running."""
        if fault.kind.startswith("kill"):
            return process.kill(fault.ends - fault.at)
        if fault.kind.startswith("restart"):
            return process.restart(fault.ends - fault.at)
        if fault.ahead:
            is_hit = process.kill(0.0)
            if is_hit:
                process.set_clock(fault.ahead)
        else:
            is_hit = process.suspend(with_clock=fault.kind.startswith("suspend"))
        if is_hit:
            self._lasting.add(fault)
        return is_hit

    def _end(self, fault: ScheduledFault) -> None:
        process = self._processes[fault.process]
        if fault.ahead:
            process.set_clock(0.0)
        else:
            process.resume()
