"""Looks at every region of the table: one at a time, shared by all who ask at once.

A look costs some reads in each region, so its result holds for `LOOK_AGE_MAX` seconds. Its
clients live in a thread of their own, from the first look on: to make one holds an event loop for
long. What fails or hangs in a look is a `FailedLook` in its place, and hides nothing else.
Samples of the backlog show how much is left to merge, from pass to pass.
"""

import asyncio
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from random import Random
from typing import Any, Self, TypeAlias, TypeVar, cast

import anyio.to_thread

from compactor.observation import lease_name
from compactor.pass_history import PassRecord
from compactor.status import CompactorStatus, passes_of, status_in
from ledger.administration.diagnosis.hot_collection import HotSample
from ledger.administration.diagnosis.hot_counters import hot_collections
from ledger.administration.diagnosis.lag_probe import probe_lag
from ledger.administration.diagnosis.observations import (
    CredentialsObservation,
    FailedLook,
    LagObservation,
    PassesObservation,
)
from ledger.administration.diagnosis.observer import FleetObservation, look_at_all
from ledger.administration.diagnosis.region_client import (
    Looks,
    Notes,
    NotingTransport,
    RegionClients,
    ask_region,
    look_within,
)
from ledger.administration.diagnosis.region_findings import local_credentials
from ledger.core.errors import LedgerError
from ledger.http.service.fleet.lanes import PipelineSeen, pipelines_in
from ledger.reads.total import Total
from ledger.runtime.clock import Clock
from ledger.runtime.foreign import FOREIGN
from ledger.runtime.portal import Opening
from ledger.runtime.tasks import run_all
from ledger.session.ledger import Ledger, live_settings
from ledger.settings import Settings
from ledger.store.connections import open_store
from ledger.store.dynamodb.clock_watch import ClockWatch
from ledger.store.port import Store

LOOK_AGE_MAX = 10.0
"""Seconds for which a look holds, however many ask."""
LOOK_SECONDS_MAX = 5.0
"""How long each part of a look may take."""
SAMPLES_MAX = 720
"""Looks whose backlog is remembered: two hours while somebody watches."""
NUMBER_BITS = 64
Found = TypeVar("Found")
_Looked: TypeAlias = tuple[
    tuple[FleetObservation, HotSample | FailedLook],
    Sequence[PipelineSeen] | FailedLook,
    CompactorStatus | FailedLook,
]


@dataclass(frozen=True, slots=True)
class BacklogSample:
    """The backlog in entries when the newest pass began, and by how many seconds it was late."""

    at: datetime
    backlog: int
    late_seconds: float


def sample_of(records: Sequence[PassRecord]) -> BacklogSample | None:
    """Return what the newest pass of each process says together; None without any."""
    if not records:
        return None
    return BacklogSample(
        at=max(record.ended for record in records),
        backlog=sum(record.report.backlog for record in records),
        late_seconds=max(record.report.late for record in records),
    )


@dataclass(frozen=True, slots=True)
class FleetView:
    """What one look showed; `lags` are the pairs that were probed last, at `probed_at`."""

    at: datetime
    seen: FleetObservation
    status: CompactorStatus | FailedLook
    passes: PassesObservation | FailedLook
    hot: HotSample | FailedLook
    pipelines: Sequence[PipelineSeen] | FailedLook
    trend: Sequence[BacklogSample] = ()
    lags: Sequence[LagObservation] | None = None
    probed_at: datetime | None = None


class _Regions:
    """The clients of looks: each is opened when it is first needed, and closed at the end."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._stack = AsyncExitStack()
        self._stores: dict[str, Store] = {}
        self._ledgers: dict[str, Ledger] = {}
        self._opening: dict[str, anyio.Lock] = {}
        self.transports = RegionClients()
        self.loop: AbstractEventLoop

    async def __aenter__(self) -> Self:
        self.loop = asyncio.get_running_loop()
        await self._stack.enter_async_context(self.transports)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    async def stores(self, regions: Iterable[str]) -> dict[str, Store]:
        """Return the stores of these regions.

        Raises:
            As `ledger.store.connections.open_store`.
        """
        return {
            region: await self._once(
                self._stores, region, partial(open_store, self._settings, region, clock=self._clock)
            )
            for region in regions
        }

    async def ledger(self, region: str) -> Ledger:
        """Return the ledger of a region.

        Raises:
            As opening one.
        """
        opening = partial(Ledger.open, self._settings, region=region)
        return await self._once(self._ledgers, region, opening)

    async def _once(
        self,
        kept: dict[str, Found],
        region: str,
        opening: Callable[[], AbstractAsyncContextManager[Found]],
    ) -> Found:
        async with self._opening.setdefault(region, anyio.Lock()):
            if region not in kept:
                kept[region] = await self._stack.enter_async_context(opening())
            return kept[region]


class _Aside:
    """Runs looks on a loop in a thread of its own, which begins with the first."""

    def __init__(self, regions: _Regions) -> None:
        self._regions = regions
        self._thread: asyncio.Task[Opening] | None = None

    async def run(self, look: Callable[[], Awaitable[Found]]) -> Found:
        """Run a look, which no request waits for."""
        if self._thread is None or _has_failed(self._thread):
            opened = partial(anyio.to_thread.run_sync, self._opened)
            self._thread = asyncio.create_task(_awaited(opened))
        # A look that is cancelled leaves the thread to be closed.
        await asyncio.shield(self._thread)
        future = asyncio.run_coroutine_threadsafe(_awaited(look), self._regions.loop)
        return await asyncio.wrap_future(future)

    def _opened(self) -> Opening:
        opening = Opening()
        opening.enter(self._regions)
        return opening

    async def close(self) -> None:
        """Close the clients, and end the thread."""
        if self._thread is not None:
            await asyncio.wait([self._thread])
            if not _has_failed(self._thread):
                await anyio.to_thread.run_sync(self._thread.result().leave)


def _has_failed(task: asyncio.Task[Any]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


async def _awaited(look: Callable[[], Awaitable[Found]]) -> Found:
    return await look()


class Fleet:
    """Looks at the table of a ledger, through this process's own credentials.

    To be used in `async with`: what looks opened is closed at the end.
    """

    def __init__(self, ledger: Ledger, *, clock: Clock, randomness: Random) -> None:
        self._ledger = ledger
        self._clock = clock
        self._random = randomness
        self._looking: asyncio.Task[None] | None = None
        self._probing: asyncio.Task[None] | None = None
        self._trend: deque[BacklogSample] = deque(maxlen=SAMPLES_MAX)
        self._lags: Sequence[LagObservation] | None = None
        self._probed_at: datetime | None = None
        self._last: FleetView | None = None
        self._last_at = 0.0
        self._regions = _Regions(ledger.settings, clock)
        self._aside = _Aside(self._regions)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        for task in (self._looking, self._probing):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        await self._aside.close()

    async def look(self) -> FleetView:
        """Return a look that is recent enough, or take one.

        A look is shared by all who ask meanwhile, and goes on when one of them waits no longer.
        """
        while self._last is None or self._clock.monotonic() - self._last_at >= LOOK_AGE_MAX:
            if self._looking is None or self._looking.done():
                self._looking = asyncio.create_task(self._look_now())
            await asyncio.shield(self._looking)
        return replace(self._last, lags=self._lags, probed_at=self._probed_at)

    async def probe(self) -> FleetView:
        """Measure the lag of each pair of regions by an item in each, which is deleted again."""
        if self._probing is None or self._probing.done():
            self._probing = asyncio.create_task(self._probe_now())
        await asyncio.shield(self._probing)
        return await self.look()

    async def _look_now(self) -> None:
        self._last = await self._looked()
        self._last_at = self._clock.monotonic()

    async def _probe_now(self) -> None:
        self._lags = await self._aside.run(self._probed)
        self._probed_at = self._clock.now()

    async def totals(self, counters: list[str]) -> Mapping[str, Mapping[str, Total] | FailedLook]:
        """Return totals as each region shows them now, or why one shows none."""
        regions = live_settings(self._ledger).current.home_first
        jobs = [
            partial(self._within, region, partial(self._totals, region, counters))
            for region in regions
        ]
        return dict(zip(regions, await run_all(jobs, at_once=len(jobs)), strict=True))

    async def _totals(self, region: str, counters: list[str]) -> Mapping[str, Total]:
        if region == self._ledger.region:
            return await self._ledger.totals(counters, max_age=0)
        return await self._aside.run(partial(self._totals_there, region, counters))

    async def _totals_there(self, region: str, counters: list[str]) -> Mapping[str, Total]:
        return await (await self._regions.ledger(region)).totals(counters, max_age=0)

    async def _looked(self) -> FleetView:
        """Look at everything; what needs nothing of the regions' own looks is read beside them."""
        known = live_settings(self._ledger).current
        status_of = partial(self._within, known.home, partial(self._status, known))
        parts: list[Callable[[], Awaitable[object]]] = [
            partial(self._aside.run, self._seen),
            self._pipelines,
            partial(self._aside.run, status_of),
        ]
        looks, pipelines, status = cast("_Looked", await run_all(parts, at_once=len(parts)))
        (seen, hot), now = looks, self._clock.now()
        if isinstance(status, FailedLook):
            passes: PassesObservation | FailedLook = status
        else:
            passes = passes_of(status.passes, seen.settings, lease_name(seen.settings), now=now)
            self._remember(status)
        return FleetView(now, seen, status, passes, hot, pipelines, tuple(self._trend))

    async def _seen(self) -> tuple[FleetObservation, HotSample | FailedLook]:
        looks = self._looks()
        seen = await look_at_all(self._ledger.settings, looks, roles=())
        return seen, await self._within(seen.settings.home, partial(self._hot, seen, looks))

    async def _probed(self) -> Sequence[LagObservation]:
        settings, looks = self._ledger.settings, self._looks()
        async with AsyncExitStack() as stack:
            transports, lags = dict[str, NotingTransport](), list[LagObservation]()
            for region in settings.regions:
                opening = ask_region(settings, region, Notes(ClockWatch(self._clock)), looks)
                try:
                    transports[region] = await stack.enter_async_context(opening)
                except (*FOREIGN, LedgerError) as error:
                    others = (other for other in settings.regions if other != region)
                    lags += [LagObservation(region, other, None, str(error)) for other in others]
            found = await probe_lag(
                transports,
                table=settings.table,
                clock=self._clock,
                number=looks.number,
                seconds_max=LOOK_SECONDS_MAX,
            )
            return [*found, *lags]

    async def _status(self, settings: Settings) -> CompactorStatus:
        return await status_in(await self._regions.stores(settings.regions), settings)

    async def _pipelines(self) -> Sequence[PipelineSeen] | FailedLook:
        store, settings = self._ledger.store, live_settings(self._ledger).current
        read = partial(pipelines_in, store, settings, clock=self._clock)
        return await self._within(self._ledger.region, read)

    def _remember(self, status: CompactorStatus) -> None:
        sample = sample_of([recorded.record for recorded in status.newest if recorded.record])
        if sample is not None and (not self._trend or self._trend[-1].at < sample.at):
            self._trend.append(sample)

    def _looks(self) -> Looks:
        number = self._random.getrandbits(NUMBER_BITS)
        opening = self._regions.transports
        return Looks(self._clock, number, LOOK_SECONDS_MAX, opening, identify=_not_asked)

    async def _within(
        self, region: str, look: Callable[[], Awaitable[Found]]
    ) -> Found | FailedLook:
        table = self._ledger.settings.table
        return await look_within(look, region=region, table=table, seconds_max=LOOK_SECONDS_MAX)

    async def _hot(self, seen: FleetObservation, looks: Looks) -> HotSample:
        """Look at the counters that the newest hints name; the table itself is not sampled."""
        home = seen.settings.home
        async with ask_region(seen.settings, home, seen.notes[home], looks) as transport:
            return await hot_collections(
                transport, seen.settings, clock=self._clock, randomness=self._random, pages=0
            )


async def _not_asked(_settings: Settings, _region: str) -> CredentialsObservation:
    """Ask STS nothing: that the table answers is all that is needed here."""
    return local_credentials()
