"""One lane's worker: reads batches, and takes each through state, map and reduce.

The stages work side by side, each on another batch; what waits between them is bounded::

    source --> state --(AHEAD_MAX batches)--> map --(MAPPED_MAX batches)--> reduce

The only order that matters is that of the map commits. A worker can be killed at any moment,
and begun again by anyone, anywhere: it goes on from the lane's committed position, and reduces
what was left. Two workers of one lane do no harm, but neither any good.

How far a lane is behind: the age of the oldest record that was read and is in no total yet.

It grows for as long as a batch is held up, whatever holds it up, and is 0 once all that was read
is counted. A record's age is by its own time, else by when it came to its source or was read.

Beside the age stands what the source says lies after the last position that the totals show: bytes
of a file, records of a partition, or, of a shard, seconds by which reading is behind.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from ledger.core.errors import InvalidInput, LaneFenced, SettingsError, StoreError
from ledger.pipeline.core.items import MapItem, lane_id
from ledger.pipeline.core.record_adapter import form_of
from ledger.pipeline.core.records import Delivery
from ledger.pipeline.metrics import PipelineMetrics, StageMetrics
from ledger.pipeline.sources.dead_letters import LetterSink
from ledger.pipeline.sources.source import Live, Measured, Source
from ledger.pipeline.stages.lanes import Lanes, settled_home
from ledger.pipeline.stages.map_stage import MapStage
from ledger.pipeline.stages.read_pace import WAIT_TIMES, ReadPace
from ledger.pipeline.stages.reduce_stage import Reduced, ReduceStage
from ledger.pipeline.stages.state_stage import Prepared, StateStage
from ledger.runtime.call_deadlines import interrupting
from ledger.runtime.clock import Clock
from ledger.runtime.services import Services
from ledger.runtime.tasks import background_tasks
from ledger.settings.live import LiveSettings
from ledger.store.port import Store
from ledger.store.retrier import Retrier
from ledger.store.retry import Backoff
from ledger.writes.hint_writer import HintWriter


class LaneLag:
    """The lag of one lane, as a gauge that is computed whenever it is read."""

    def __init__(
        self,
        metrics: PipelineMetrics,
        region: str,
        lane: str,
        clock: Clock,
        source: object = None,
    ) -> None:
        self._clock = clock
        self._batches: deque[tuple[datetime, str]] = deque()
        self._metrics = metrics
        self._labels = region, lane
        self._source = source
        self._shown = ""
        metrics.lag.labels(region, lane).set_function(self.seconds)

    def begin(self, position: str = "") -> None:
        """Forget the batches of an earlier beginning: they are read again, after a position."""
        self._batches.clear()
        self._shown = position
        self._measure()

    def read(self, first: datetime | None, upto: str) -> None:
        """Note a batch that was read up to a position, by the time of its first record."""
        self._batches.append((first or self._clock.now(), upto))

    def counted(self, upto: str) -> None:
        """Note that the totals show all up to a position; of a batch in parts that may be one."""
        self._shown = upto
        while self._batches and self._batches[0][1] <= upto:
            self._batches.popleft()

    def seconds(self) -> float:
        """Return the lag now; 0 for a record whose time is in the future."""
        try:
            oldest, _ = self._batches[0]
        except IndexError:  # emptied meanwhile, by another thread than the scrape's
            return 0.0
        return max(0.0, (self._clock.now() - oldest).total_seconds())

    def _measure(self) -> None:
        """Have each scrape show the source's own lag, in the gauge of its unit."""
        source = self._source
        if isinstance(source, Measured) and (unit := source.lag_unit) is not None:
            gauge = {
                "bytes": self._metrics.left_bytes,
                "records": self._metrics.left_records,
                "seconds": self._metrics.behind,
            }[unit]
            gauge.labels(*self._labels).set_function(lambda: source.lag_after(self._shown))


AHEAD_MAX = 1
"""Batches whose states are written while the batch before is committed."""
MAPPED_MAX = 64
"""Batches committed that wait to be reduced."""
RESTARTS = Backoff(base_seconds=0.2, longest_seconds=10.0, tries_max=20)
"""Between two beginnings of a lane that did not get on, and how often."""

OnCounted = Callable[[str], None]
Mapped = tuple[Sequence[Delivery], list[MapItem]]


def _ignore(_position: str) -> None:
    """Default callback: ignore."""


@dataclass(frozen=True, slots=True)
class LanePlace:
    """A lane, by its region and its name there."""

    region: str
    name: str


@dataclass(frozen=True, slots=True)
class PipelineMetering:
    """The metrics of lanes, and who is told how far the totals show a lane.

    `on_counted` is called with positions up to which the totals show everything, after each batch
    or more of them.
    """

    metrics: PipelineMetrics = field(default_factory=PipelineMetrics)
    on_counted: OnCounted | None = None


class LaneWorker:
    """Brings the records of one lane into the totals, each record's newest version once.

    `stores` has the lane's own region and every region that is home to a record.

    Raises:
        SettingsError: no category is configured, or the store of a region is missing.
        InvalidInput: the lane's name is empty or too long.
    """

    def __init__(
        self,
        lane: LanePlace,
        source: Source,
        *,
        stores: Mapping[str, Store],
        settings: LiveSettings,
        dead_letters: LetterSink,
        services: Services,
        metering: PipelineMetering | None = None,
    ) -> None:
        current, clock = settings.current, services.clock
        form = form_of(current)
        missing = {lane.region, *form.homes} - stores.keys()
        if missing:
            raise SettingsError(f"the pipeline needs a store of {', '.join(sorted(missing))}")
        store = stores[lane.region]
        self._source = source
        self._settings = current
        self._live = settings
        self._store = store
        self._stores = stores
        self._has_home = False
        self._clock = clock
        self._services = services
        metering = metering or PipelineMetering()
        self._metrics = metering.metrics
        self._on_counted = metering.on_counted or _ignore
        self._form = form
        self._lanes = Lanes(
            lane_id(lane.region, lane.name),
            store,
            clock,
            pipeline=current.pipeline.name,
            states=current.pipeline.state_table or "",
            life_seconds=current.contract_life,
        )
        retrier = Retrier.of(store, clock=clock, randomness=services.randomness)
        self._state = StateStage(
            self._lanes,
            form,
            stores,
            region=lane.region,
            settings=current,
            dead_letters=dead_letters,
            retrier=retrier,
            metrics=self._stage_metrics("state"),
        )
        self._map = MapStage(
            self._lanes, store, retrier=retrier, metrics=self._stage_metrics("map")
        )
        self._reduce = ReduceStage(
            store,
            settings=settings,
            clock=clock,
            retrier=retrier,
            metrics=self._stage_metrics("reduce"),
        )
        self._lag = LaneLag(self._metrics, store.region, self._lanes.lane, clock, source)
        self._waiting: anyio.CancelScope | None = None
        self._is_stopping = False
        self._begun: Sequence[Delivery] = ()
        self._is_new = True

    def _stage_metrics(self, stage: str) -> StageMetrics:
        return StageMetrics(self._metrics, self._store.region, stage)

    @property
    def position(self) -> str:
        """The position that is known to be committed; empty before the lane was first read."""
        return self._lanes.position

    def stop(self) -> None:
        """Read nothing more; `run` returns once what was read is in the totals."""
        self._is_stopping = True
        if self._waiting is not None:
            self._waiting.cancel()

    async def run(self, begun: Sequence[Delivery] = (), *, timeout: float | None = None) -> None:
        """Bring in the lane's records until its source ends.

        `begun` are all that the source will give, if it is one that gives up on records: they are
        marked first, so that none of them is passed over later.

        Goes on after failures that pass, and after another worker of the lane, from the position
        that is committed. With `timeout` it ends after that many seconds, as by a crash; `stop`
        lets it finish what it has read.

        Raises:
            NotSent, OutcomeUnknown: `timeout` ended: run it again, and nothing is counted twice.
            FormConflict: a batch may be under way that was read under other settings.
            LaneClosed: an operator took the lane out of service.
            LeftOut: `begun` passes over records that were begun before.
            LedgerError: the lane did not get on in `RESTARTS.tries_max` beginnings, a record breaks
                the order of positions, a dead letter could not be kept, or the table refuses.
        """
        if not isinstance(begun, Sequence) or not all(isinstance(x, Delivery) for x in begun):
            raise InvalidInput(f"begun must be a list of deliveries, got {begun!r:.80}")
        with interrupting(timeout, "run it again: nothing is counted twice"):
            await self._run(begun)

    async def _run(self, begun: Sequence[Delivery]) -> None:
        failures = 0
        self._begun, self._is_new = begun, True
        while True:
            before = self._lanes.position
            try:
                await self._run_once()
                if await self._is_at_rest():
                    return
            except (LaneFenced, StoreError) as error:
                failures = 1 if self._lanes.position > before else failures + 1
                if not error.retryable or failures > RESTARTS.tries_max:
                    raise
                self._restarted(type(error).__name__)
            else:
                self._restarted(LaneFenced.__name__)
            jitter = self._services.randomness.random()
            await self._clock.sleep(RESTARTS.wait_seconds(max(1, failures), jitter))

    def _restarted(self, cause: str) -> None:
        self._metrics.restarts.labels(self._store.region, self._lanes.lane, cause).inc()

    async def _find_home(self) -> None:
        """Take the home of the pipeline's states from the table, unless patterns decide it."""
        if self._form.has_patterns or self._has_home:
            return
        home = await settled_home(self._stores, self._store, self._settings)
        if home not in self._stores:
            raise SettingsError(f"the pipeline needs a store of {home}, which keeps its states")
        self._form = self._state.form = form_of(self._settings, home=home)
        self._has_home = True

    async def _is_at_rest(self) -> bool:
        """Close the lane, unless another has gone on with it from where we left it."""
        reached = self._lanes.position
        known = self._lanes.known
        if known.is_open and known.begun is None:
            await self._lanes.close()
        else:
            await self._lanes.read()
        return self._lanes.position == reached

    async def _run_once(self) -> None:
        """Begin at the committed position, with what was left to reduce, and run to the end."""
        fence = self._lanes.known.fence
        left = await self._lanes.load()
        self._lag.begin(self._lanes.position)
        if self._lanes.known.fence != fence:
            self._state.forget()
            self._lanes.forget()
        await self._find_home()
        await self._lanes.check(self._form)
        self._state.places = await self._lanes.places()
        if self._is_new:
            at = self._lanes.position
            await self._state.passed_over(
                [delivery for delivery in self._begun if delivery.position <= at]
            )
            self._is_new = False
        async with background_tasks() as background:
            hints = HintWriter(
                self._store,
                settings=self._live,
                services=self._services,
                tasks=background,
            )
            try:
                await self._run_stages(left, hints)
            finally:
                await hints.close()

    async def _run_stages(self, left: list[MapItem], hints: HintWriter) -> None:
        """Run the stages side by side; the first failure ends them all."""
        to_map, prepared = anyio.create_memory_object_stream[Prepared](AHEAD_MAX)
        to_reduce, mapped = anyio.create_memory_object_stream[Mapped](MAPPED_MAX)
        works = (
            partial(self._read, self._lanes.position, to_map),
            partial(self._commit, prepared, to_reduce),
            partial(self._add_up, self._lanes.position, left, mapped, hints),
        )
        with to_map, prepared, to_reduce, mapped:
            async with anyio.create_task_group() as tasks:
                for work in works:
                    tasks.start_soon(work)

    async def _read(self, after: str, to_map: MemoryObjectSendStream[Prepared]) -> None:
        """Take in batch after batch of what follows a position."""
        most, is_open = self._settings.pipeline.batch_max, False
        longest = WAIT_TIMES * self._settings.pipeline.reduce_every
        is_live = isinstance(self._source, Live) and self._source.is_live
        pace = ReadPace(longest if is_live else 0.0, at=self._clock.monotonic())
        async with aclosing(self._source.batches(after, most=most)) as batches:
            while not self._is_stopping:
                found: Sequence[Delivery] | None = None
                with anyio.CancelScope() as self._waiting:
                    found = await anext(batches, None)
                if not found:
                    break
                pace.read(len(found), at=self._clock.monotonic())
                self._lag.read(self._form.time_of(found[0]), found[-1].position)
                if not is_open:
                    await self._lanes.open(
                        self._form, [delivery.position for delivery in self._begun]
                    )
                    is_open = True
                async with aclosing(self._state.apply(after, found)) as ready:
                    async for prepared in ready:
                        await to_map.send(prepared)
                after = found[-1].position
                if len(found) < most:
                    await self._wait_until(pace.next())
        to_map.close()

    async def _wait_until(self, moment: float) -> None:
        """Let records gather until a moment, or a stop."""
        seconds = moment - self._clock.monotonic()
        if seconds > 0 and not self._is_stopping:
            with anyio.CancelScope() as self._waiting:
                await self._clock.sleep(seconds)

    async def _commit(
        self,
        prepared: MemoryObjectReceiveStream[Prepared],
        to_reduce: MemoryObjectSendStream[Mapped],
    ) -> None:
        with to_reduce:
            async for batch in prepared:
                await to_reduce.send((batch.deliveries, await self._map.commit(batch)))

    async def _add_up(
        self,
        after: str,
        left: list[MapItem],
        mapped: MemoryObjectReceiveStream[Mapped],
        hints: HintWriter,
    ) -> None:
        """Reduce what was left up to a position, then what is committed meanwhile, and so on."""
        self._leave(hints, await self._reduce.reduce(left))
        if after:
            self._on_counted(after)
        async for first in mapped:
            await self._clock.sleep(self._settings.pipeline.reduce_every)
            batches = [first, *_ready(mapped)]
            items = [item for _, made in batches for item in made]
            self._leave(hints, await self._reduce.reduce(items))
            last = batches[-1][0][-1]
            self._lag.counted(last.position)
            self._on_counted(last.position)

    def _leave(self, hints: HintWriter, done: Reduced) -> None:
        """Lead the compactor to what must be merged, and to what is watched."""
        hints.wrote_all(done.entries)
        hints.added(done.categories, self._clock.now())


def _ready(mapped: MemoryObjectReceiveStream[Mapped]) -> list[Mapped]:
    """Return what is waiting already."""
    found: list[Mapped] = []
    while len(found) < MAPPED_MAX:
        try:
            found.append(mapped.receive_nowait())
        except (anyio.WouldBlock, anyio.EndOfStream):
            break
    return found
