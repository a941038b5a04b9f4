"""Rebuilds beside the lanes of a simulated world, and rules broken in them."""

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any
from unittest.mock import patch

import anyio
from proof.simulator.process import RELIABLE
from proof.simulator.randomness import stream
from proof.simulator.store import NO_FAULTS, SimStore
from support.clients import together
from support.ledgers import AWAY, HOME, services_of
from support.pipelines import (
    BOTH_HOMES,
    POISON,
    SETTLED_SECONDS,
    ZOMBIE,
    Lane,
    PipelineWorld,
    deliveries,
    message,
    pipeline_settings,
)

from ledger.core.errors import FormConflict, LedgerError
from ledger.pipeline.auditing import rebuild
from ledger.pipeline.auditing.audit import Audit
from ledger.pipeline.auditing.rebuild import StateRebuild
from ledger.pipeline.auditing.reread import RereadResult
from ledger.pipeline.auditing.scan_checkpoints import Checkpoints, ScanPosition
from ledger.pipeline.core.items import STATE_PREFIX, STATE_SORT_KEY
from ledger.pipeline.core.lane_state import LaneState
from ledger.pipeline.core.records import RecordForm
from ledger.pipeline.core.registry import region_key, required_of
from ledger.pipeline.sources.source import ListSource, Source
from ledger.pipeline.stages.lanes import Lanes

FORM: dict[str, Any] = {
    "categories": ["both/{Hierarchy.RiskType}/{Hierarchy.Desk}"],
    "measures": {"count": ["trades/{Hierarchy.Desk}"]},
}
REBUILDS = 8
LATE = 30
"""Looks after which the former lane comes back although no rebuild has read everything yet."""


def right(raws: list[bytes]) -> dict[str, Decimal]:
    """Return the totals of the new form, without code of ours."""
    newest: dict[str, dict[str, Any]] = {}
    for told in (json.loads(raw) for raw in raws if raw != POISON):
        before = newest.setdefault(told["TradeID"], told)
        if told["Version"] > before["Version"]:
            newest[told["TradeID"]] = told
    sums: dict[str, Decimal] = {}
    for told in newest.values():
        place = told["Hierarchy"]
        both = f"both/{place['RiskType']}/{place['Desk']}"
        for name, change in ((both, told["Value"]), (f"trades/{place['Desk']}", 1)):
            sums[name] = sums.get(name, Decimal(0)) + change
    return {name: value for name, value in sums.items() if value}


class RebuiltWorld(PipelineWorld):
    """A world of lanes that is rebuilt meanwhile, by runs that are cut off, stalled, come twice.

    First lanes bring in a half under the former form. Then they go on under the new one, beside
    rebuilds, and a lane of the former form comes back while those are under way, to be refused.
    In some worlds a region hears nothing of the other meanwhile, and in some states keep no field;
    then the last rebuild reads records once more.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.chance = stream(seed, "rebuilds")
        self.lacks = self.chance.random() < 0.3
        self.wrong: list[str] = []
        self.is_held = True
        """No rebuild ends before the lane of the former form has come back."""
        self.is_scanned = False
        self.is_done = False
        self.refused = 0
        self._tasks = 0

    async def run(self) -> None:
        """Let lanes live under one form, then under the other beside rebuilds; then all finish."""
        lanes = self.lanes
        self.lanes = [
            replace(lane, records=lane.records[: len(lane.records) // 2]) for lane in lanes
        ]
        await together([partial(self._work, lane) for lane in self.lanes])
        self.world.heal_all()
        await together([self.worker(lane, RELIABLE).run for lane in self.lanes])
        await anyio.sleep(SETTLED_SECONDS)
        if self.lacks:
            self._forget_fields()
        self.lanes, self.form = lanes, FORM
        if self.chance.random() < 0.3:
            self.world.pause(*self.chance.choice(((HOME, AWAY), (AWAY, HOME))))
        works = [partial(self._work, lane) for lane in lanes]
        await together([*works, self._come_back, *[self._rebuild_often] * 2])
        self.world.heal_all()
        await anyio.sleep(SETTLED_SECONDS)
        if not self.is_done or any(map(self._required_in, (HOME, AWAY))):
            done = await self.rebuild(is_last=True)
            self.wrong += [] if done.is_complete else [f"left: {done.listed}"]
        await together([self.worker(lane, RELIABLE).run for lane in self.lanes])
        await anyio.sleep(SETTLED_SECONDS)
        await self._audit()
        self.world.end()

    def right(self) -> dict[str, Decimal]:
        """Return what the totals must be in the end."""
        return right(self.messages)

    async def rebuild(self, *, is_last: bool) -> RereadResult:
        """Rebuild once; the last run is well."""
        self._tasks += 1
        health = RELIABLE if is_last or self.chance.random() < 0.5 else ZOMBIE
        process = self._process(f"task {self._tasks}", health)
        faults = NO_FAULTS if is_last else self.faults
        held = HeldRebuild(
            {name: SimStore(process, name, faults) for name in (HOME, AWAY)},
            pipeline_settings(home=BOTH_HOMES, **FORM),
            services=services_of(process.clock, stream(self.seed, f"rebuild {self._tasks}")),
        )
        held.world = self
        again = is_last and self.lacks
        return await held.run({"all": ListSource(deliveries(self.messages))} if again else None)

    async def _rebuild_often(self) -> None:
        for _ in range(REBUILDS):
            await anyio.sleep(self.chance.uniform(0.0, 10.0))
            if self.is_done:
                return
            with anyio.CancelScope() as life:
                self.world.loop.call_later(self.chance.uniform(0.0, 8.0), life.cancel)
                try:
                    self.is_done |= (await self.rebuild(is_last=False)).is_complete
                except LedgerError:
                    if self.world.is_over:
                        raise

    async def _come_back(self) -> None:
        """Bring in a lane under the former form once the new one is required; it is refused."""
        region = self.chance.choice((HOME, AWAY))
        for tries in range(60):
            await anyio.sleep(self.chance.uniform(0.1, 2.0))
            if (self.is_scanned or tries > LATE) and self._required_in(region):
                break
        else:
            raise AssertionError("no rebuild has come so far")
        more = [message(f"{place}9", 1, 10**6, desk=place) for place in "ET"]
        records = [
            record.raw for lane in self.lanes for record in lane.records if record.raw != POISON
        ]
        lane = Lane("former", region, deliveries([*records, *more]))
        self.messages += more
        self.form, before = {}, self.form
        former = self.worker(lane, RELIABLE)
        self.form = before
        try:
            await former.run()
        except FormConflict:
            self.refused += 1
        finally:
            self.is_held = False
            self.lanes.append(lane)

    def _required_in(self, region: str) -> str:
        """Return the form that a rebuild requires; one is, too, that was begun late and cut off."""
        return required_of(self.world.replicas[region].table.get(region_key(region)))

    def _forget_fields(self) -> None:
        """Let some states keep no field."""
        for region in (HOME, AWAY):
            table = self.world.replicas[region].table
            for name in [name for name in table.partitions if name.startswith(STATE_PREFIX)]:
                item = dict(table.partitions[name][STATE_SORT_KEY])
                if hash_of(name) % 2:
                    item.pop("fields", None)
                    table.set((name, STATE_SORT_KEY), item)

    async def _audit(self) -> None:
        process = self._process("audit", RELIABLE)
        stores = {name: SimStore(process, name, NO_FAULTS) for name in (HOME, AWAY)}
        settings = pipeline_settings(home=BOTH_HOMES, **FORM)
        audit = Audit(
            stores,
            settings,
            services=services_of(process.clock, stream(self.seed, "audit")),
        )
        self.wrong += map(str, (await audit.run()).differences)


def hash_of(name: str) -> int:
    """Return a number of a name, the same in every process."""
    return sum(name.encode())


class HeldRebuild(StateRebuild):
    """A rebuild that ends, once it has read everything, only when its world lets it."""

    world: RebuiltWorld

    async def _all(
        self,
        sources: Mapping[str, Source],
        checkpoints: Checkpoints | None,
        begins: ScanPosition | None,
    ) -> None:
        await super()._all(sources, checkpoints, begins)
        self.world.is_scanned = True
        while self.world.is_held:
            await self.clock.sleep(1.0)


async def _as_known(self: Lanes, wanted: LaneState, form: RecordForm) -> LaneState:
    """Overlook what a rebuild requires."""
    del self, form
    return wanted


MUTANTS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "state as it was not read": lambda: patch.object(rebuild, "still_there", lambda _state: None),
    "lane not refused": lambda: patch.object(Lanes, "_as_asked", _as_known),
}
"""Which rule is broken, and how to break it for a while."""
