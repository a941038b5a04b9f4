"""The compactors of a scenario: leaders, rivals and zombies, and moves of home.

Several run during each busy period: some contend for the one lease, and a rival may hold a lease
of another name, so that two lead at once. A crashed compactor is replaced; one that is stalled when
the others stop resumes later with what it was doing.
"""

import anyio

from compactor.job import Compactor
from ledger.core.errors import LeaseLost, StoreError
from ledger.lab.simulator.process import RELIABLE, Process
from ledger.lab.simulator.randomness import stream
from ledger.lab.simulator.scenario import BusyPeriod
from ledger.lab.simulator.store import SimStore
from ledger.lab.simulator.supervisor import REGISTRY, Supervisor
from ledger.primitives.leases.state import lease_key
from ledger.settings import Settings

MOVED_SECONDS = 100.0
ZOMBIE_SECONDS = 60.0
OLD_SETTINGS_SHARE = 0.5
REST_PAUSE_SECONDS = 10.0
REST_ROUNDS_MAX = 200
_MOVE_PAUSE_SECONDS = 5.0


class Leaders:
    """Runs the compactors of one world; `settings` name the home region of the moment."""

    def __init__(self, supervisor: Supervisor) -> None:
        self.settings = supervisor.scenario.file
        self._supervisor = supervisor
        self._scenario = supervisor.scenario
        self._world = supervisor.world
        self._compactors: dict[str, Process] = {}
        self._is_resting = False
        self._is_moving = False

    def start(self) -> None:
        """Start everything that the scenario plans."""
        for period in self._scenario.busy:
            self._supervisor.start(self._lead, period)
        if self._scenario.move_at is not None:
            self._supervisor.start(self._move, self._scenario.move_at, self._scenario.regions[1])

    def rest(self) -> None:
        """Crash every compactor; from now on only `merge_all` merges."""
        self._is_resting = True
        self._crash_compactors()

    async def merge_all(self) -> None:
        """Finish a move in progress, then merge until nothing is left to merge."""
        if self._is_moving:
            await self._finish_moving(self._scenario.regions[1])
        compactor = self._compactor(self._supervisor.process("last", RELIABLE), self.settings)
        for _ in range(REST_ROUNDS_MAX):
            await compactor.run_once()
            await anyio.sleep(REST_PAUSE_SECONDS)
            if self._supervisor.auditor.is_small() and not self._world.in_flight:
                return

    def _compactor(self, process: Process, settings: Settings) -> Compactor:
        faults = self._scenario.compactor_faults
        return Compactor(
            settings,
            registry=REGISTRY,
            stores={region: SimStore(process, region, faults) for region in settings.regions},
            clock=process.clock,
            randomness=stream(self._scenario.seed, f"{process.name} compactor"),
            owner=process.name,
            contract=self._scenario.contract is not None,
        )

    async def _lead(self, period: BusyPeriod) -> None:
        """Run the compactors of a busy period: some for one lease, perhaps a rival for another."""
        await anyio.sleep(period.begins)
        if self._is_resting or self._is_moving:
            return
        names = [
            (f"compactor-{number}", "compactor") for number in range(self._scenario.compactors)
        ]
        names += [("rival", "rival")] if self._scenario.rivals else []
        for name, lease in names:
            self._supervisor.start(self._compact, name, lease, period.ends, self.settings)

    async def _compact(self, name: str, lease: str, until: float, settings: Settings) -> None:
        """Run a compactor until a moment; one that crashes is replaced."""
        if self._is_resting or self._is_moving or self._world.loop.time() >= until:
            return
        process = self._supervisor.process(name, *self._scenario.compactor_reliabilities)
        process.on_crash = lambda: self._supervisor.start(
            self._supervisor.restart, self._compact, name, lease, until, settings
        )
        self._compactors[process.name] = process
        compactor = self._compactor(process, settings.replace(compactor={"name": lease}))
        stop = anyio.Event()
        self._stop_at(until, process, stop)
        await compactor.run_every(self._scenario.pass_every, stop=stop)

    def _stop_at(self, moment: float, process: Process, stop: anyio.Event) -> None:
        """Stop a compactor at a moment, or, if it is stalled then, some time after it wakes."""

        def end() -> None:
            if process.local > self._world.loop.time():
                self._stop_at(process.local + ZOMBIE_SECONDS, process, stop)
            else:
                stop.set()

        self._world.loop.call_at(moment, end)

    def _crash_compactors(self) -> None:
        for process in self._compactors.values():
            process.on_crash = lambda: None
            process.crash()
        self._compactors.clear()

    async def _move(self, at: float, target: str) -> None:
        """Crash the compactors, hand everything over, and restart with the new settings."""
        await anyio.sleep(at)
        if self._is_resting:
            return
        self._is_moving = True
        self._world.note(lambda: f"home moves to {target}")
        self._crash_compactors()
        while not self._is_handed_over(target):
            if self._rests():
                return
            process = self._supervisor.process("mover", *self._scenario.compactor_reliabilities)
            ended = anyio.Event()
            process.on_crash = ended.set
            self._supervisor.start(self._move_once, process, target, ended)
            await ended.wait()
            await anyio.sleep(_MOVE_PAUSE_SECONDS)
        if self._rests():
            return
        self._moved(target)
        until = self._world.loop.time() + MOVED_SECONDS
        self._supervisor.start(self._compact, "compactor-0", "compactor", until, self.settings)

    def _rests(self) -> bool:
        return self._is_resting

    def _moved(self, target: str) -> None:
        self._world.note(lambda: f"home is {target}")
        before, self.settings = self.settings, self.settings.replace(home=target)
        self._is_moving = False
        if self._supervisor.random.random() < OLD_SETTINGS_SHARE and not self._is_resting:
            until = self._world.loop.time() + MOVED_SECONDS
            self._supervisor.start(self._compact, "old-settings", "compactor", until, before)

    async def _move_once(self, process: Process, target: str, ended: anyio.Event) -> None:
        try:
            await self._compactor(process, self.settings).move_home(target)
        except (LeaseLost, StoreError) as error:
            self._world.note(lambda error=error: f"{process.name}: {error}")  # type: ignore[misc]
        ended.set()

    def _is_handed_over(self, target: str) -> bool:
        table = self._world.replicas[self.settings.home].table
        item = table.get(lease_key(self.settings.compactor.name))
        return item is not None and item["home"]["S"] == target

    async def _finish_moving(self, target: str) -> None:
        process = self._supervisor.process("last-mover", RELIABLE)
        if not self._is_handed_over(target):
            await self._compactor(process, self.settings).move_home(target)
            await anyio.sleep(REST_PAUSE_SECONDS)
        self._moved(target)
