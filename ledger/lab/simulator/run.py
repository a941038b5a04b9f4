"""One seed, run to its end or to its first violation."""

import asyncio
import gc
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import anyio

from compactor import lag
from ledger.lab.simulator import loop
from ledger.lab.simulator.auditor import Auditor, Violation
from ledger.lab.simulator.scene import Scene, draw, stream
from ledger.lab.simulator.staff import Staff
from ledger.lab.simulator.workload import Workload
from ledger.lab.simulator.world import World

SERVER_SKEW_SECONDS = 1.0
_LAG_LOOK_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Result:
    """What one seed came to.

    `steps` are requests served and items arrived, `checks` whole collections compared, `reads`
    answers of the production reader judged; `trace` is filled only where it was asked for.
    """

    seed: int
    steps: int
    checks: int
    reads: int
    virtual_seconds: float
    violation: Violation | None
    trace: tuple[str, ...] = ()


def run_seed(seed: int, *, is_traced: bool = False) -> Result:
    """Run the world of a seed; twins are switched on around it (`ledger.lab.simulator.twins`)."""
    scene = draw(seed)
    with _quiet(), _no_garbage():
        return loop.run(partial(_live, scene, is_traced=is_traced))


async def _live(scene: Scene, *, is_traced: bool) -> Result:
    ended = anyio.Event()
    world = World(
        scene.regions,
        loop=asyncio.get_running_loop(),
        randomness=stream(scene.seed, "world"),
        lag=scene.lag,
        staleness=scene.staleness,
        server_skew_seconds=SERVER_SKEW_SECONDS,
        page_items_max=scene.page_items_max,
        is_traced=is_traced,
    )
    world.note(lambda: f"regions {', '.join(scene.regions)}; focus: {scene.focus}")
    auditor = Auditor(world, found=ended.set)
    async with anyio.create_task_group() as tasks:
        workload = Workload(Staff(scene, world, auditor, tasks))
        tasks.start_soon(workload.live, ended)
        await ended.wait()
        world.end()
        tasks.cancel_scope.cancel()
    return Result(
        seed=scene.seed,
        steps=world.steps,
        checks=auditor.checks,
        reads=auditor.reads,
        virtual_seconds=world.loop.time(),
        violation=auditor.violation,
        trace=tuple(world.trace),
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep metrics and logs short: looks at the replication lag cost steps, faults are expected."""
    logs = [logging.getLogger(name) for name in ("compactor.passes", "compactor.discovery.search")]
    before = lag.FIRST_WAIT_SECONDS, lag.LONGEST_WAIT_SECONDS
    lag.FIRST_WAIT_SECONDS = lag.LONGEST_WAIT_SECONDS = _LAG_LOOK_SECONDS
    were_disabled = [log.disabled for log in logs]
    for log in logs:
        log.disabled = True
    try:
        yield
    finally:
        for log, was_disabled in zip(logs, were_disabled, strict=True):
            log.disabled = was_disabled
        lag.FIRST_WAIT_SECONDS, lag.LONGEST_WAIT_SECONDS = before


@contextmanager
def _no_garbage() -> Iterator[None]:
    """Collect garbage between seeds instead of hundreds of times within one."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
