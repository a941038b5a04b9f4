"""What applications and compactors in the world share: processes, and tasks that hide nothing."""

import traceback
from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskGroup
from prometheus_client import CollectorRegistry

from ledger.lab.simulator.auditor import Auditor
from ledger.lab.simulator.process import Health, Process
from ledger.lab.simulator.scene import Scene, stream
from ledger.lab.simulator.world import World

RESTART_SECONDS_MAX = 60.0

# Metrics are no matter of the simulation, and making a registry takes as long as a hundred steps.
REGISTRY = CollectorRegistry()


class Staff:
    """Starts the tasks and processes of one world."""

    def __init__(self, scene: Scene, world: World, auditor: Auditor, tasks: TaskGroup) -> None:
        self.scene = scene
        self.world = world
        self.auditor = auditor
        self.random = stream(scene.seed, "workload")
        self._tasks = tasks
        self._processes = 0

    def start(self, work: Callable[..., Awaitable[None]], *args: object) -> None:
        """Start a task; whatever it raises that nobody expects is a violation."""
        self._tasks.start_soon(self.guarded, work, *args)

    async def guarded(self, work: Callable[..., Awaitable[None]], *args: object) -> None:
        """Do some work; whatever it raises that nobody expects is a violation."""
        try:
            await work(*args)
        except Exception:  # noqa: BLE001 (judged, not hidden)
            if not self.world.is_over:
                self.auditor.fail("unexpected error", traceback.format_exc())

    async def restart(self, work: Callable[..., Awaitable[None]], *args: object) -> None:
        """Do some work a little later, as whoever looks after crashed processes does."""
        await anyio.sleep(self.random.random() * RESTART_SECONDS_MAX)
        await work(*args)

    def process(self, name: str, *healths: Health) -> Process:
        """Return a new process with clocks of its own and one of these healths."""
        self._processes += 1
        name = f"{name}/{self._processes}"
        return Process(
            name,
            world=self.world,
            randomness=stream(self.scene.seed, name),
            health=self.random.choice(healths),
            skew_seconds=self.scene.settings.clock_skew,
            span=self.scene.span,
        )
