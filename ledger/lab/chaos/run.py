"""One run: a global table, writers, readers and compactors; chaos by plan; the end, and a verdict.

The plan repeats with its seed; what the processes and the engine do meanwhile does not.
"""

import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup
from prometheus_client import CollectorRegistry

from ledger.core import keys
from ledger.core.errors import ReadTooSlow, StoreError
from ledger.lab.chaos.counters import COMBINED, SHARDS
from ledger.lab.chaos.ending import Ending
from ledger.lab.chaos.evidence import told_item
from ledger.lab.chaos.judge import Judge, Wrong
from ledger.lab.chaos.plan import Plan, draw
from ledger.lab.chaos.processes import Victim, Writer, compactor
from ledger.lab.chaos.state import Options, Progress, Report, Verdict, report_of
from ledger.lab.chaos.weather import WeatherMaker, act_out
from ledger.lab.chaos.workload import CACHED_SECONDS, EVENTUAL_SECONDS, Reading, Workload
from ledger.lab.harness.census import take_census
from ledger.ledger import Ledger
from ledger.local import LocalGlobalTable
from ledger.primitives.leases.state import lease_key, record_of
from ledger.runtime.clock import Clock
from ledger.settings import Settings
from ledger.store.opening import open_store
from ledger.store.port import Store
from ledger.store.reads import Get, Query

REGIONS = ("us-east-1", "eu-west-1", "ap-southeast-1")
COMPACTOR_EVERY = "400ms"
WATCH_SECONDS = 1.0
TICK_SECONDS = 0.1
EVIDENCE_SECONDS_MAX = 10.0
# As short as the rules between them allow with room for a busy machine: a request that is slow or
# hangs must be dead before its entry can be folded (settle - retry_horizon).
TIMES: Mapping[str, Any] = {
    "settle": 5.0,
    "retry_horizon": 2.0,
    "observation_delay": 1.5,
    "request_timeout": 1.0,
    "write_deadline": 1.5,
}
MERGING: Mapping[str, Any] = {
    "lease": 4.0,
    "heartbeat": 0.5,
    "fold_min": 4,
    "fold_max": 24,
    "fold_age": 6.0,
    "prune_min": 6,
    "pending_max": 24,
    "scan_every": 3.0,
    "hint_every": 4,
}


@dataclass(frozen=True, slots=True)
class _Stage:
    """What is open while a run goes on."""

    world: LocalGlobalTable
    settings: Settings
    stores: Mapping[str, Store]
    readings: Sequence[Reading]
    writers: Mapping[str, Writer]
    compactors: Mapping[str, Victim]
    weather: WeatherMaker

    @property
    def victims(self) -> dict[str, Victim]:
        """Every process that can be struck, by name."""
        return {one.name: one for one in (*self.writers.values(), *self.compactors.values())}


class Chaos:
    """One run of chaos."""

    def __init__(self, options: Options, *, clock: Clock) -> None:
        self.progress = Progress(options, clock.monotonic)
        self.plan = plan_of(options)
        self._options = options
        self._clock = clock
        self._judge = Judge(REGIONS)
        self._found = anyio.Event()

    async def run(self, stop: anyio.Event) -> Report:
        """Run to the end, the first wrong thing, or a stop, and report.

        Raises:
            LedgerError: it could not go on; a broken promise is no error but the verdict.
        """
        verdict: Verdict = "interrupted"
        evidence: tuple[str, ...] = ()
        async with self._stage() as stage:
            ended = anyio.Event()
            self.progress.started = self._clock.monotonic()
            async with anyio.create_task_group() as tasks:
                for one in (stop, self._found, ended):
                    tasks.start_soon(self._cancel_at, one, tasks)
                tasks.start_soon(self._tick)
                tasks.start_soon(self._watch, stage)
                tasks.start_soon(self._live, stage, tasks, ended)
            self.progress.ended = self._clock.monotonic()
            if ended.is_set():
                verdict = "unfinished" if self.progress.obstacle else "held"
            if self.progress.wrong:
                evidence = await self._evidence(stage)
            self.progress.changes = self._judge.tally()
        return report_of(self.progress, verdict, evidence)

    async def _live(self, stage: _Stage, tasks: TaskGroup, ended: anyio.Event) -> None:
        """Live the plan through, and the end."""
        merging = anyio.CancelScope()
        for writer in stage.writers.values():
            tasks.start_soon(writer.run)
        tasks.start_soon(self._merge, stage, merging)
        workload = Workload(
            self._judge,
            self.progress,
            settings=stage.settings,
            writers=stage.writers,
            readings=stage.readings,
            clock=self._clock,
            tasks=tasks,
            found=self._found,
        )
        workload.start()
        self.progress.phase = "all goes wrong"
        victims = stage.victims
        await act_out(
            self.plan, stage.weather, victims, self.progress, clock=self._clock, tasks=tasks
        )
        for victim in victims.values():
            victim.wake()
        ending = Ending(
            stage.world,
            self._judge,
            workload,
            self.progress,
            stores=stage.stores,
            fresh=stage.readings[0],
            clock=self._clock,
        )

        async def stop_merging() -> None:
            merging.cancel()
            await self._clock.sleep(stage.settings.request_timeout)

        try:
            await ending.check(stop_merging)
            await self._look(stage)
        except (StoreError, ReadTooSlow) as error:
            self.progress.obstacle = str(error)
        ended.set()

    @staticmethod
    async def _merge(stage: _Stage, scope: anyio.CancelScope) -> None:
        """Keep the compactors running until the scope is cancelled."""
        with scope:
            async with anyio.create_task_group() as tasks:
                for victim in stage.compactors.values():
                    tasks.start_soon(victim.run)

    @staticmethod
    async def _cancel_at(event: anyio.Event, tasks: TaskGroup) -> None:
        await event.wait()
        tasks.cancel_scope.cancel()

    # What is shown.

    async def _tick(self) -> None:
        while True:  # until cancelled
            self.progress.changes = self._judge.tally()
            self.progress.reads = self._judge.reads
            self.progress.counters = len(self._judge.counters)
            await self._clock.sleep(TICK_SECONDS)

    async def _watch(self, stage: _Stage) -> None:
        while True:  # until cancelled
            await self._clock.sleep(WATCH_SECONDS)
            await self._look(stage)

    async def _look(self, stage: _Stage) -> None:
        """Take in what the table shows: faults injected, entries merged, leaders so far."""
        await stage.weather.look()
        home = stage.stores[stage.settings.home]
        try:
            census = await take_census(home)
            lease = await home.get(Get(lease_key(stage.settings.compactor.name)))
        except StoreError:
            return  # it is out just now
        self.progress.merged, self.progress.entries = census.merged, census.entries.total()
        self.progress.leaders = 0 if lease is None else record_of(lease).epoch

    async def _evidence(self, stage: _Stage) -> tuple[str, ...]:
        """Return what every region shows of the first wrong counter, and what happened before."""
        counter = self.progress.wrong[0].counter
        lines = list(self.progress.events)
        with anyio.move_on_after(EVIDENCE_SECONDS_MAX):
            # Not healed: what is still on its way is part of what was seen.
            await to_thread.run_sync(stage.world.set_faults, ())
            for region, store in stage.stores.items():
                for shard in range(stage.settings.shards_max(counter) if counter else 0):
                    page = await store.query(Query(keys.partition_key(counter, shard)))
                    lines += [f"{region} shows {told_item(item)}" for item in page.items]
        return tuple(lines)

    # What is opened.

    @asynccontextmanager
    async def _stage(self) -> AsyncIterator[_Stage]:
        options = self._options
        async with AsyncExitStack() as stack:
            self.progress.phase = f"starting a global table of three regions on {options.engine}"
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ledger-chaos-")))
            spawning = LocalGlobalTable.spawn(
                regions=REGIONS,
                engine=options.engine,
                lag=options.lag,
                jitter=options.jitter,
                seed=options.seed,
            )
            world = await stack.enter_async_context(spawning)
            settings = world.settings(**TIMES, compactor=MERGING, shards=SHARDS, combine=COMBINED)
            lean = settings.replace(transport="lean")
            stores = {
                region: await stack.enter_async_context(open_store(settings, region))
                for region in REGIONS
            }
            usual = await _ledgers(stack, settings)
            eventual = await _ledgers(stack, lean.replace(consistent_reads=False))
            yield _Stage(
                world,
                settings,
                stores,
                (
                    Reading("fresh", usual, 0.0, 0.0),
                    Reading("cached", usual, CACHED_SECONDS, CACHED_SECONDS),
                    Reading("eventual", eventual, 0.0, EVENTUAL_SECONDS),
                ),
                {
                    region: Writer(region, one, folder, complain=self._complain)
                    for region, one in zip(REGIONS, cycle((settings, lean)), strict=False)
                },
                {
                    name: compactor(
                        name, one, folder, every=COMPACTOR_EVERY, complain=self._complain
                    )
                    for name, one in zip(
                        _compactors(options), cycle((settings, lean)), strict=False
                    )
                },
                WeatherMaker(world, options, self.progress),
            )

    def _complain(self, text: str) -> None:
        """Take in that a process ended although nobody killed it."""
        self.progress.wrong.append(Wrong("processes", text))
        self._found.set()


def plan_of(options: Options) -> Plan:
    """Return what goes wrong in a run."""
    return draw(
        options.seed,
        options.seconds,
        regions=REGIONS,
        compactors=_compactors(options),
        writers=[f"writer-{region}" for region in REGIONS],
    )


def _compactors(options: Options) -> list[str]:
    return [f"compactor-{number}" for number in range(options.compactors)]


async def _ledgers(stack: AsyncExitStack, settings: Settings) -> dict[str, Ledger]:
    registry = CollectorRegistry()
    return {
        region: await stack.enter_async_context(
            Ledger.open(settings, region=region, registry=registry)
        )
        for region in REGIONS
    }
