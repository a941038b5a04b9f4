"""Records with a time of their own, states that are forgotten beside lanes, and rules broken."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from random import Random
from typing import Any
from unittest.mock import patch

import anyio
from proof.simulator.process import RELIABLE, Process, Reliability
from proof.simulator.randomness import stream
from proof.simulator.store import NO_FAULTS, SimStore
from support.clients import together
from support.ledgers import AWAY, HOME, make_services, services_of
from support.pipelines import (
    BOTH_HOMES,
    FIELDS,
    LEDGER_METRICS,
    METRICS,
    SETTLED_SECONDS,
    Lane,
    PipelineWorld,
    SlowSource,
    message,
    pipeline_settings,
    shown,
)

from ledger.core.errors import InvalidInput, LedgerError
from ledger.pipeline.auditing import forget as forgetting
from ledger.pipeline.auditing.audit import Audit, Report
from ledger.pipeline.auditing.forget import Forget, Forgotten
from ledger.pipeline.core.age_horizon import AgeHorizon, horizon
from ledger.pipeline.core.lane_state import LaneState
from ledger.pipeline.core.records import RecordForm
from ledger.pipeline.stages import state_stage
from ledger.pipeline.stages.lanes import Lanes
from ledger.pipeline.stages.state_batch import StateBatch
from ledger.pipeline.stages.state_stage import StateStage
from ledger.pipeline.stages.worker import LanePlace, LaneWorker, PipelineMetering
from ledger.runtime.services import Services
from ledger.settings import Settings
from ledger.store.port import Store
from ledger.testing.clock import START, ManualClock

KEEP = 1000.0
EACH = "each/{TradeID}"
TIMED = {**FIELDS, "time": "At"}
LIFE, SIGNATURE, SKEW = 10.0, 60.0, 5.0
MARGIN = LIFE + SIGNATURE + 3 * SKEW


def dated(record: str, version: int, value: int, age_seconds: float, **hierarchy: str) -> bytes:
    """Return a record whose own time is so long before the beginning of all tests."""
    told = json.loads(message(record, version, value, **hierarchy))
    told["At"] = (START - timedelta(seconds=age_seconds)).isoformat()
    return json.dumps(told).encode()


def keeping(keep: float | None = KEEP, **overrides: Any) -> Settings:
    """Return settings of a pipeline whose states are kept for so long."""
    given = {"fields": TIMED, "categories": (EACH, "risk/{Hierarchy.RiskType}"), **overrides}
    settings = pipeline_settings(keep_states=keep, **given)
    return settings.replace(contract_life=LIFE, clock_skew=SKEW, settle=90)


def one_region(settings: Settings) -> Settings:
    """Return the same settings of a table of one region."""
    return settings.replace(regions={HOME: settings.regions[HOME]})


async def forgotten(
    store: Store, keep: float | None = KEEP, *, clock: ManualClock | None = None, **overrides: Any
) -> Forgotten:
    """Forget old states in one region's table."""
    return await Forget(
        {HOME: store},
        one_region(keeping(keep, **overrides)),
        services=make_services(clock or ManualClock(instant=True)),
    ).run()


async def audit_of(store: Store, keep: float | None = KEEP, **overrides: Any) -> Report:
    """Audit one region's table."""
    settings = one_region(keeping(keep, **overrides))
    clock = ManualClock(instant=True)
    return await Audit({HOME: store}, settings, services=make_services(clock)).run()


ILL = Reliability(steps_per_fault=60, crash_share=0.0, stall_seconds_max=(3.0, 30.0, 300.0))
RUNS = 4
VALUE = 1000
"""Of a record: this and its version. The sum of two is the value of none."""


class ForgettingWorld(PipelineWorld):
    """Lanes whose states are forgotten meanwhile, by runs that are cut off now and then.

    Clocks are off, workers stall with records in their hands, and not all of them have the same
    `keep_states`, or any. Whatever is refused, no record may count twice.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed, faults=None)
        self.wrong: list[str] = []
        self.done = 0
        self._chance = stream(seed, "forgets")
        self._tasks = 0
        self.messages = _messages(self._chance)
        self.lanes = self._lanes()
        self.pause_seconds = self._chance.choice((1.0, 10.0, 40.0))

    def worker(
        self, lane: Lane, health: Reliability, *, batch_max: int | None = None
    ) -> LaneWorker:
        """Return a worker with a clock and settings of its own."""
        self._workers += 1
        name, chance = f"worker {self._workers}", self._chance
        process = self._process(name, health)
        return LaneWorker(
            LanePlace(lane.region, lane.name),
            SlowSource(lane.records, stream(self.seed, f"source {name}"), self.pause_seconds),
            stores={name: SimStore(process, name, self.faults) for name in (HOME, AWAY)},
            settings=keeping(
                chance.choice((KEEP, KEEP, 2 * KEEP, None)),
                batch_max=batch_max or chance.choice((1, 3, 10)),
                cache_max=chance.choice((1, 100)),
                home=BOTH_HOMES,
            ),
            dead_letters=self.letters,
            services=Services(process.clock, stream(self.seed, f"draws {name}"), LEDGER_METRICS),
            metering=PipelineMetering(METRICS),
        )

    def _process(self, name: str, health: Reliability) -> Process:
        return Process(
            name,
            world=self.world,
            randomness=stream(self.seed, name),
            reliability=health,
            skew_seconds=self._chance.uniform(-SKEW / 2, SKEW / 2),
            span=1,
        )

    async def _live(self, lane: Lane, seconds: float) -> None:
        """Let one worker live for so long; it may stand still with records in its hands."""
        worker = self.worker(lane, ILL)
        with anyio.CancelScope() as life:
            self.world.loop.call_later(20 * seconds, life.cancel)
            try:
                await worker.run()
            except LedgerError:
                if not self.world.is_over:
                    await anyio.sleep(1.0)

    async def run(self) -> None:
        """Let lanes run while states are forgotten, some twice; then an audit has the end."""
        again = [Lane(f"{one.name} again", one.region, one.records) for one in self.lanes]
        works = [partial(self._work, lane) for lane in self.lanes]
        await together([*works, self._forget_often, *(partial(self._later, one) for one in again)])
        self.world.heal_all()
        self.lanes += again
        await together([self.worker(lane, RELIABLE).run for lane in self.lanes])
        await anyio.sleep(SETTLED_SECONDS)
        await self._task(Audit)
        await anyio.sleep(SETTLED_SECONDS)
        self.world.end()

    async def _later(self, lane: Lane) -> None:
        await anyio.sleep(self._chance.uniform(0.0, 500.0))
        await self._work(lane)

    async def _forget_often(self) -> None:
        for _ in range(RUNS):
            await anyio.sleep(self._chance.uniform(0.0, 150.0))
            with anyio.CancelScope() as life:
                if self._chance.random() < 0.3:
                    self.world.loop.call_later(self._chance.uniform(0.0, 100.0), life.cancel)
                try:
                    await self._task(Forget)
                except LedgerError:
                    if self.world.is_over:
                        raise

    async def _task(self, kind: type[Forget] | type[Audit]) -> None:
        self._tasks += 1
        process = self._process(f"task {self._tasks}", RELIABLE)
        task = kind(
            {name: SimStore(process, name, NO_FAULTS) for name in (HOME, AWAY)},
            keeping(home=BOTH_HOMES),
            services=services_of(process.clock, stream(self.seed, f"task {self._tasks}")),
        )
        try:
            result = await task.run()
        except InvalidInput:
            if kind is Forget:
                raise
            await self._task(Forget)  # it was cut off: an audit waits for its end
            await self._task(Audit)
            return
        if isinstance(result, Forgotten):
            self.done += result.records
        else:
            self.wrong += [str(difference) for difference in result.differences]

    def verdict(self) -> list[str]:
        """Return which records count twice, or not although none of them was ever refused."""
        totals = shown(self.world.replicas[HOME].table)
        refused = {json.loads(letter.raw).get("TradeID") for letter in self.letters.letters}
        values: dict[str, list[Decimal]] = {}
        for raw in self.messages:
            told = json.loads(raw)
            values.setdefault(told["TradeID"], []).append(Decimal(told["Value"]))
        wrong = []
        for record, known in values.items():
            found = totals.get(EACH.format(TradeID=record), Decimal(0))
            allowed = {*known, Decimal(0)} if record in refused else {max(known)}
            if found not in allowed:
                wrong.append(f"{record} counts {found}, not one of {sorted(allowed)}")
        return wrong


def _messages(chance: Random) -> list[bytes]:
    """Return versions of records, many of which are about to become too old."""
    return [
        dated(record, version, VALUE + version, age, risk=chance.choice("DV"))
        for record, age in (
            (f"{chance.choice('ET')}{number}", chance.uniform(0.6 * KEEP, 1.2 * KEEP))
            for number in range(chance.choice((4, 8)))
        )
        for version in range(1, chance.choice((2, 3, 4)))
    ]


def _never_too_old(lane: LaneState, form: RecordForm, settings: Settings) -> AgeHorizon:
    return replace(horizon(lane, form, settings), forgotten=0, settled=None)


def _at_once(lane: LaneState, form: RecordForm, settings: Settings) -> AgeHorizon:
    return replace(horizon(lane, form, settings), settled=None)


def _by_what_was_known(self: StateStage, batch: StateBatch) -> Any:
    """Sign a write by what is known by now, whatever its batch was judged by."""
    del batch

    async def until() -> datetime:
        await self._lanes.renew()
        return self._lanes.until

    return until()


async def _no_wait(self: Forget) -> None:
    """Delete at once what workers may have in hand."""
    del self


async def _held_by_none(self: Forget, state: object) -> set[str]:
    del self, state
    return set()


def _mutant(target: Any, name: str, broken: object) -> Callable[[], AbstractContextManager[object]]:
    return lambda: patch.object(target, name, broken)


@contextmanager
def _late_taken() -> Iterator[None]:
    """Take what is too old, by whatever it is judged."""
    with (
        patch.object(state_stage, "horizon", _never_too_old),
        patch.object(StateStage, "_until", _by_what_was_known),
    ):
        yield


MUTANTS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "forgets without a wait": _mutant(Forget, "_wait", _no_wait),
    "forgets what is not settled": _mutant(Forget, "_held_by", _held_by_none),
    "late records taken": _late_taken,
    "refused before others' writes land": _mutant(state_stage, "horizon", _at_once),
    "judged once": _mutant(StateStage, "_until", _by_what_was_known),
    "sums left out": _mutant(forgetting, "plan_forget", lambda *_args: []),
    "signed at any time": _mutant(
        Lanes, "until", property(lambda self: self.viewed + timedelta(days=400))
    ),
}
"""How to break a rule for a while."""
