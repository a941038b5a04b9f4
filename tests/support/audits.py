"""Audits and mends beside the lanes of a simulated world, and rules broken in them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from decimal import Decimal
from functools import partial
from typing import Any, overload
from unittest.mock import patch

import anyio
from proof.simulator.process import RELIABLE
from proof.simulator.randomness import stream
from proof.simulator.store import NO_FAULTS, SimStore
from support.clients import together
from support.ledgers import AWAY, HOME, make_services, services_of
from support.pipelines import BOTH_HOMES, SETTLED_SECONDS, PipelineWorld, pipeline_settings

from ledger.core.errors import LedgerError
from ledger.pipeline.auditing.audit import Audit, Report
from ledger.pipeline.auditing.mend import Mend, Mended
from ledger.pipeline.auditing.rebuild import StateRebuild
from ledger.pipeline.auditing.reread import RereadResult
from ledger.pipeline.auditing.task import quiet_store
from ledger.pipeline.core.lane_state import LaneState
from ledger.pipeline.core.transitions import State
from ledger.pipeline.sources.source import Source
from ledger.pipeline.stages import state_stage, state_writes
from ledger.runtime.clock import Clock
from ledger.settings import Settings
from ledger.store.conditions import Absent, Condition, Equals
from ledger.store.port import Store
from ledger.testing.clock import ManualClock

AUDITS = 6


class AuditedWorld(PipelineWorld):
    """A world of lanes that is audited meanwhile, by runs that are cut off now and then.

    With `mends` the first lane is given up halfway, and closed by a mend beside the others.
    """

    def __init__(self, seed: int, *, mends: bool = False) -> None:
        super().__init__(seed)
        self.mends = mends
        self.reports: list[Report] = []
        self.wrong: list[str] = []
        self._tasks = 0
        self._chance = stream(seed, "audits")

    async def run(self) -> None:
        """Let workers be ill and audits be cut off; then all finish, and an audit has the end."""
        given_up = self.lanes[0] if self.mends else None
        works = [partial(self._work, lane) for lane in self.lanes]
        if given_up is None:
            await together([*works, self._look])
        else:
            await together(works[:1])
        if given_up is not None:
            await together(
                [self._close_later, *(partial(self._work, lane) for lane in self.lanes[1:])]
            )
        self.world.heal_all()
        if given_up is not None:
            await self._close()
            renamed = type(given_up)("renamed", given_up.region, given_up.records)
            self.lanes = [renamed, *self.lanes[1:]]
        await together([self.worker(lane, RELIABLE).run for lane in self.lanes])
        await anyio.sleep(SETTLED_SECONDS)
        if given_up is not None:
            await self._close()  # what a worker of before wrote after the lane was closed
        await self.audit()
        await anyio.sleep(SETTLED_SECONDS)
        self.world.end()

    async def audit(self) -> None:
        """Audit once; what it finds wrong is kept."""
        stores, clock = self._reliable()
        settings = pipeline_settings(home=BOTH_HOMES)
        random = stream(self.seed, f"audit {self._tasks}")
        report = await Audit(stores, settings, services=services_of(clock, random)).run()
        self.reports.append(report)
        self.wrong += [f"audit {report.number}: {difference}" for difference in report.differences]

    def _reliable(self) -> tuple[dict[str, SimStore], Clock]:
        self._tasks += 1
        process = self._process(f"task {self._tasks}", RELIABLE)
        return {name: SimStore(process, name, NO_FAULTS) for name in (HOME, AWAY)}, process.clock

    async def _look(self) -> None:
        for _ in range(AUDITS):
            await anyio.sleep(self._chance.uniform(0.0, 15.0))
            with anyio.CancelScope() as life:
                if self._chance.random() < 0.5:
                    self.world.loop.call_later(self._chance.uniform(0.0, 3.0), life.cancel)
                try:
                    await self.audit()
                except LedgerError:
                    if self.world.is_over:
                        raise

    async def _close_later(self) -> None:
        await anyio.sleep(self._chance.uniform(0.0, 8.0))
        await self._close()

    async def _close(self) -> None:
        lane = self.lanes[0]
        name = f"{lane.region}/lane-0"
        for _ in range(20):
            stores, clock = self._reliable()
            random = stream(self.seed, f"mend {self._tasks}")
            settings = pipeline_settings(home=BOTH_HOMES)
            mend = Mend(
                stores,
                settings,
                services=services_of(clock, random),
                lane=name,
                closes=True,
            )
            try:
                await mend.run_lane()
            except LedgerError:
                await anyio.sleep(1.0)
            else:
                return


async def audited(
    store: Store,
    on_progress: Callable[[str], None] = quiet_store,
    *,
    clock: ManualClock | None = None,
) -> Report:
    """Audit one region's table."""
    settings, clock = _one_region(store), clock or ManualClock(instant=True)
    audit = Audit(
        {store.region: store}, settings, services=make_services(clock), on_progress=on_progress
    )
    return await audit.run()


@overload
async def mended(store: Store) -> Mapping[str, Decimal]: ...


@overload
async def mended(store: Store, lane: str, *, closes: bool = False) -> Mended: ...


async def mended(
    store: Store, lane: str = "", *, closes: bool = False
) -> Mended | Mapping[str, Decimal]:
    """Mend a lane, or the totals, of one region's table."""
    mend = Mend(
        {store.region: store},
        _one_region(store),
        services=make_services(),
        lane=lane,
        closes=closes,
    )
    return await mend.run_lane() if lane else await mend.run_totals()


async def rebuilt(
    store: Store,
    *sources: Source,
    is_dry: bool = False,
    on_progress: Callable[[str], None] = quiet_store,
    seed: int = 7,
    **pipeline: Any,
) -> RereadResult:
    """Rebuild one region's states under these settings."""
    rebuild = StateRebuild(
        {store.region: store},
        _one_region(store, **pipeline),
        services=make_services(seed=seed),
        is_dry=is_dry,
        on_progress=on_progress,
    )
    return await rebuild.run({f"file {place}": one for place, one in enumerate(sources)})


def _one_region(store: Store, **pipeline: Any) -> Settings:
    settings = pipeline_settings(**pipeline)
    return settings.replace(home=store.region, regions={HOME: settings.regions[HOME]})


def _judged_by_version(state: State | None) -> Condition:
    """Overlook what was rewritten under the same version."""
    return Equals("version", {"N": str(state.version)}) if state else Absent()


@contextmanager
def without_rev() -> Iterator[None]:
    """Break the rule that a state rewritten under the same version is another one."""
    with (
        patch.object(state_stage, "still_there", _judged_by_version),
        patch.object(state_writes, "still_there", _judged_by_version),
    ):
        yield


async def _left_open(self: Mend) -> str:
    """Take a lane for closed that still commits."""
    return (await self.lane(self._lane)).position


MUTANTS: dict[str, tuple[bool, Callable[[], AbstractContextManager[object]]]] = {
    "retain not kept": (
        False,
        lambda: patch.object(LaneState, "covers", property(lambda self: self.position)),
    ),
    "mend without closing": (True, lambda: patch.object(Mend, "_close", _left_open)),
}
"""Which rule is broken, whether a mend shows it, and how to break it for a while."""
