"""The compactors of a scene: leaders, their rivals and zombies, and moves of home.

Any number of them run in the busy times: some for the one lease, perhaps a rival that believes in
another lease, so that two lead at once. Those that crash are followed by others; those that are
stalled when the others stop wake up later to what they were doing.
"""

import anyio

from compactor.job import Compactor
from ledger.core.errors import LeaseLost, StoreError
from ledger.lab.simulator.process import NEVER_ILL, Process
from ledger.lab.simulator.scene import Busy, stream
from ledger.lab.simulator.staff import REGISTRY, Staff
from ledger.lab.simulator.store import SimStore
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

    def __init__(self, staff: Staff) -> None:
        self.settings = staff.scene.settings
        self._staff = staff
        self._scene = staff.scene
        self._world = staff.world
        self._compactors: dict[str, Process] = {}
        self._is_resting = False
        self._is_moving = False

    def start(self) -> None:
        """Start everything that the scene has planned."""
        for busy in self._scene.busy:
            self._staff.start(self._be_busy, busy)
        if self._scene.move_at is not None:
            self._staff.start(self._move, self._scene.move_at, self._scene.regions[1])

    def rest(self) -> None:
        """End every compactor at once; only `merge_all` merges from now on."""
        self._is_resting = True
        self._crash_compactors()

    async def merge_all(self) -> None:
        """Finish a move that was begun, and merge until nothing is left to merge."""
        if self._is_moving:
            await self._finish_moving(self._scene.regions[1])
        compactor = self._compactor(self._staff.process("last", NEVER_ILL), self.settings)
        for _ in range(REST_ROUNDS_MAX):
            await compactor.run_once()
            await anyio.sleep(REST_PAUSE_SECONDS)
            if self._staff.auditor.is_small() and not self._world.under_way:
                return

    def _compactor(self, process: Process, settings: Settings) -> Compactor:
        weather = self._scene.compactor_weather
        return Compactor(
            settings,
            registry=REGISTRY,
            stores={region: SimStore(process, region, weather) for region in settings.regions},
            clock=process.clock,
            randomness=stream(self._scene.seed, f"{process.name} compactor"),
            owner=process.name,
        )

    async def _be_busy(self, busy: Busy) -> None:
        """Run compactors for a while: some for one lease, perhaps a rival for another."""
        await anyio.sleep(busy.begins)
        if self._is_resting or self._is_moving:
            return
        names = [(f"compactor-{number}", "compactor") for number in range(self._scene.compactors)]
        names += [("rival", "rival")] if self._scene.rivals else []
        for name, lease in names:
            self._staff.start(self._compact, name, lease, busy.ends, self.settings)

    async def _compact(self, name: str, lease: str, until: float, settings: Settings) -> None:
        """Run a compactor until it is told to stop; one that crashes is followed by the next."""
        if self._is_resting or self._is_moving or self._world.loop.time() >= until:
            return
        process = self._staff.process(name, *self._scene.compactor_healths)
        process.on_crash = lambda: self._staff.start(
            self._staff.restart, self._compact, name, lease, until, settings
        )
        self._compactors[process.name] = process
        compactor = self._compactor(process, settings.replace(compactor={"name": lease}))
        stop = anyio.Event()
        self._stop_at(until, process, stop)
        await compactor.run_every(self._scene.pass_every, stop=stop)

    def _stop_at(self, moment: float, process: Process, stop: anyio.Event) -> None:
        """Tell a compactor to stop, but let one that is stalled wake up to what it was doing."""

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
        """Stop the compactors, hand everything over, begin again with the new settings."""
        await anyio.sleep(at)
        if self._is_resting:
            return
        self._is_moving = True
        self._world.note(lambda: f"home moves to {target}")
        self._crash_compactors()
        while not self._is_handed_over(target):
            if self._rests():
                return
            process = self._staff.process("mover", *self._scene.compactor_healths)
            ended = anyio.Event()
            process.on_crash = ended.set
            self._staff.start(self._move_once, process, target, ended)
            await ended.wait()
            await anyio.sleep(_MOVE_PAUSE_SECONDS)
        if self._rests():
            return
        self._moved(target)
        until = self._world.loop.time() + MOVED_SECONDS
        self._staff.start(self._compact, "compactor-0", "compactor", until, self.settings)

    def _rests(self) -> bool:
        return self._is_resting

    def _moved(self, target: str) -> None:
        self._world.note(lambda: f"home is {target}")
        before, self.settings = self.settings, self.settings.replace(home=target)
        self._is_moving = False
        if self._staff.random.random() < OLD_SETTINGS_SHARE and not self._is_resting:
            until = self._world.loop.time() + MOVED_SECONDS
            self._staff.start(self._compact, "old-settings", "compactor", until, before)

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
        process = self._staff.process("last-mover", NEVER_ILL)
        if not self._is_handed_over(target):
            await self._compactor(process, self.settings).move_home(target)
            await anyio.sleep(REST_PAUSE_SECONDS)
        self._moved(target)
