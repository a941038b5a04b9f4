"""Starting the processes and tasks of one world; an unexpected error of any task is a violation."""

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from contextvars import copy_context

import anyio
from anyio.abc import TaskGroup
from prometheus_client import CollectorRegistry

from proof.simulator.archive import SimPlace
from proof.simulator.auditor import UNEXPECTED, Auditor
from proof.simulator.process import RELIABLE, Process, Reliability
from proof.simulator.randomness import stream
from proof.simulator.scenario import Scenario
from proof.simulator.store import FaultProfile
from proof.simulator.world import World

RESTART_SECONDS_MAX = 60.0

# Metrics are not simulated, and creating a registry takes as long as a hundred steps.
REGISTRY = CollectorRegistry()


class Supervisor:
    """Starts the tasks and processes of one world."""

    def __init__(
        self, scenario: Scenario, world: World, auditor: Auditor, tasks: TaskGroup
    ) -> None:
        self.scenario = scenario
        self.world = world
        self.auditor = auditor
        self.random = stream(scenario.seed, "workload")
        self._tasks = tasks
        self._processes = 0
        self._context = copy_context()

    def start(self, work: Callable[..., Awaitable[None]], *args: object) -> None:
        """Start a task; an unexpected error in it is a violation.

        It knows nothing of the call at which it is started, such as the validity around it.
        """
        self._context.copy().run(self._tasks.start_soon, self.guarded, work, *args)

    async def guarded(self, work: Callable[..., Awaitable[None]], *args: object) -> None:
        """Await some work; an unexpected error in it is a violation.

        A cancellation is one, too, before the world is over: nothing here cancels a call from
        outside, and a time limit within it is an error of the ledger.
        """
        try:
            await work(*args)
        except asyncio.CancelledError:
            if self.world.is_over:
                raise
            self.auditor.fail(UNEXPECTED, traceback.format_exc())
        except Exception:  # noqa: BLE001 (reported, not hidden)
            self.auditor.fail(UNEXPECTED, traceback.format_exc())

    async def restart(self, work: Callable[..., Awaitable[None]], *args: object) -> None:
        """Await some work after a random delay, as a supervisor restarts a crashed process."""
        await anyio.sleep(self.random.random() * RESTART_SECONDS_MAX)
        await work(*args)

    def archive(self, process: Process, faults: FaultProfile) -> list[SimPlace]:
        """Return the places of the world's archive as a process reaches them."""
        randomness = stream(self.scenario.seed, f"{process.name} archive")
        places = self.auditor.archive.places
        return [SimPlace(process, place, faults, randomness) for place in places]

    def process(
        self, name: str, *reliabilities: Reliability, off_seconds: float | None = None
    ) -> Process:
        """Return a new process with its own clocks and one of these reliabilities.

        The clock of one that is to be reliable is right; that of another may be off by so much.
        """
        self._processes += 1
        name = f"{name}/{self._processes}"
        reliability = self.random.choice(reliabilities)
        offs = () if reliability is RELIABLE else self.scenario.clocks_off
        return Process(
            name,
            world=self.world,
            randomness=stream(self.scenario.seed, name),
            reliability=reliability,
            skew_seconds=self.scenario.settings.clock_skew,
            span=self.scenario.span,
            off_seconds=stream(self.scenario.seed, f"{name} off").choice(offs or (0.0,))
            if off_seconds is None
            else off_seconds,
        )
