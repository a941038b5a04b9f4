"""Lanes from files, as `ledger pipeline run` brings them in, until their end or a signal.

Everything that must not be lost is in the table (states, map items, the lane's position) or in the
file of dead letters. So the process may be killed at any moment, and begun again.
"""

import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import BinaryIO, Protocol

import anyio
import anyio.abc
import anyio.to_thread

from ledger.contract.view import ContractView
from ledger.core.errors import InvalidInput, LedgerError
from ledger.pipeline.core.record_adapter import form_of
from ledger.pipeline.metrics import PipelineMetrics
from ledger.pipeline.progress import LaneProgress, StreamProgress
from ledger.pipeline.sources.dead_letters import DeadLetterFile, LetterSource
from ledger.pipeline.sources.file_claims import Claims, LaneFile
from ledger.pipeline.sources.file_contents import LINE_BYTES_MAX, held_open, is_gzip
from ledger.pipeline.sources.files import FileSource
from ledger.pipeline.sources.followed_file import FOLLOW_SECONDS, Followed
from ledger.pipeline.sources.source import Source
from ledger.pipeline.stages.lanes import regions_of
from ledger.pipeline.stages.worker import LanePlace, LaneWorker, PipelineMetering
from ledger.runtime.clock import SystemClock, system_random
from ledger.runtime.gc import tune_gc
from ledger.runtime.services import Services
from ledger.runtime.signals import Signalled, ignore, stopped_by_signals
from ledger.runtime.tasks import background_tasks, run_all
from ledger.settings import Settings
from ledger.settings.live import LiveSettings
from ledger.store import connections
from ledger.store.port import Store
from ledger.store.retrier import Retrier

LANES_AT_ONCE = 4
"""Files of a directory that are brought in at once, each with its own cache of states."""
COPY_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class LaneRun:
    """A lane to be brought in: its name, its region, its file, and where its dead letters go.

    Without a name the file's content decides which lane it is. `is_letters` takes the records out
    of dead letters; `follows` waits at the file's end for more, and continues with the file that
    takes its place.
    """

    name: str | None
    region: str
    file: Path
    dead: Path
    is_letters: bool = False
    follows: bool = False


class FillingFile(Protocol):
    """A file on its way to be complete."""

    @property
    def is_complete(self) -> bool:
        """Whether no more will come."""

    async def fill(self) -> None:
        """Fill it until it is complete."""


@dataclass(slots=True)
class Spool:
    """A stream on its way into a file, which can be read again."""

    stream: BinaryIO
    file: Path
    is_complete: bool = False

    def begin(self) -> None:
        """Make the file, and copy until a first line is there, which names the lane.

        Raises:
            LedgerError: the file exists, or cannot be written.
        """
        try:
            with self.file.open("xb") as file:
                while b"\n" not in (chunk := self._copy(file)):
                    if not chunk:
                        self.is_complete = True
                        break
        except FileExistsError:
            raise LedgerError(
                f"{self.file} exists already: name a new file, or finish that one by"
                f" `ledger pipeline run {self.file}`"
            ) from None
        except OSError as error:
            raise LedgerError(f"{self.file}: cannot be filled: {error.strerror}") from error

    async def fill(self) -> None:
        """Copy the stream to its end; everything copied is on the disk.

        Raises:
            LedgerError: the stream cannot be read, or the file not written.
        """
        try:
            with self.file.open("ab") as file:
                while not self.is_complete:
                    with suppress(PermissionError):  # a plain file, which is always ready
                        await anyio.wait_readable(self.stream)
                    self.is_complete = not await anyio.to_thread.run_sync(self._copy, file)
        except OSError as error:
            raise LedgerError(f"{self.file}: cannot be filled: {error.strerror}") from error

    def _copy(self, file: BinaryIO) -> bytes:
        chunk = os.read(self.stream.fileno(), COPY_BYTES)
        file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
        return chunk


async def bring_in(
    lane: LaneRun,
    settings: Settings,
    progress: LaneProgress,
    *,
    spool: FillingFile | None = None,
    report: Callable[[str], None],
) -> Signalled:
    """Bring a lane in to its end, or until a signal, which is returned.

    What was left, as a last line without an end, is in `progress.problems`.

    Raises:
        LedgerError: the lane could not continue; what was committed stays.
    """
    async with open_run(settings, lane.region, progress, report) as (run, received, tasks):
        if spool is not None:
            tasks.start_soon(spool.fill)
        await run.bring_in(lane, spool)
    return received


async def bring_in_all(
    lanes: Sequence[LaneRun],
    settings: Settings,
    progress: LaneProgress,
    *,
    report: Callable[[str], None],
) -> Signalled:
    """Bring several lanes of one region in, `LANES_AT_ONCE` together; return a signal that came.

    A lane that could not continue is in `progress.problems`; the others continue.
    """
    async with open_run(settings, lanes[0].region, progress, report) as (run, received, _):
        await run_all([partial(run.try_in, lane) for lane in lanes], at_once=LANES_AT_ONCE)
    return received


@asynccontextmanager
async def open_run(
    settings: Settings,
    region: str,
    progress: LaneProgress | StreamProgress,
    report: Callable[[str], None],
) -> AsyncIterator[tuple["PipelineRun", Signalled, anyio.abc.TaskGroup]]:
    """Open what lanes of a region need, with tasks beside them; signals stop the lanes.

    Raises:
        LedgerError: as `open_lane`.
    """
    services = Services.of(registry=progress.registry)
    async with open_lane(settings, region, services) as (stores, live):
        run = PipelineRun(region, stores, live, progress, services=services, report=report)
        tune_gc()

        def stop(received: signal.Signals) -> None:
            report(f"{received.name}: finishing what was read; a second signal stops at once")
            run.stop()

        async with stopped_by_signals(stop, ignore) as received, background_tasks() as tasks:
            yield run, received, tasks


class PipelineRun:
    """Lanes that are brought in by one process in one region."""

    def __init__(
        self,
        region: str,
        stores: Mapping[str, Store],
        live: LiveSettings,
        progress: LaneProgress | StreamProgress,
        *,
        services: Services,
        report: Callable[[str], None],
    ) -> None:
        self.is_stopping = False
        self._region = region
        self._stores = stores
        self._live = live
        self._progress = progress
        self._clock = services.clock
        self._services = services
        self._metering = PipelineMetering(PipelineMetrics.of(progress.registry))
        self._report = report
        self._letters: dict[Path, DeadLetterFile] = {}
        self._pipelines: set[LaneWorker] = set()
        self._waiting: set[anyio.CancelScope] = set()
        store = stores[region]
        retrier = Retrier.of(store, clock=services.clock, randomness=services.randomness)
        self.store = store
        self._claims = Claims(store, retrier, pipeline=live.current.pipeline.name)

    def stop(self) -> None:
        """Read nothing more; what was read is brought in."""
        self.is_stopping = True
        for pipeline in self._pipelines:
            pipeline.stop()
        for waiting in self._waiting:
            waiting.cancel()

    async def bring_in(self, lane: LaneRun, spool: FillingFile | None = None) -> None:
        """Bring a lane in to its end.

        Raises:
            LedgerError: it could not continue.
        """
        if lane.follows:
            await self._follow(lane)
        elif not self.is_stopping:
            grows = partial(self._filled, spool) if spool else None
            with held_open(lane.file) as file:
                await self._file(lane, LaneFile(lane.file, file), grows)

    async def try_in(self, lane: LaneRun) -> None:
        """Bring a lane in; what keeps it from its end is noted."""
        try:
            await self.bring_in(lane)
        except LedgerError as error:
            self._progress.problems.append(str(error))

    async def _follow(self, lane: LaneRun) -> None:
        if is_gzip(lane.file):
            raise InvalidInput(f"{lane.file} is compressed: --follow is for files that grow")
        followed = Followed(lane.file, self._clock)
        try:
            await followed.begin()
            await self._catch_up(lane)
            while await self.wait_for(followed.has_line):
                await self._file(
                    lane, LaneFile(lane.file, followed.file, grows=True), followed.grows
                )
                if not followed.is_last:
                    self._report(f"{lane.file}: taken in to its end; another file has its place")
                    followed.go_on()
        finally:
            followed.close()

    async def _catch_up(self, lane: LaneRun) -> None:
        """Bring in files that were rotated away while nothing followed the path."""
        for path in [] if lane.name else await self._claims.rotated(lane.file):
            if not self.is_stopping:
                self._report(
                    f"{path}: it was moved away from {lane.file} meanwhile: taken in first"
                )
                with held_open(path) as file:
                    await self._file(lane, LaneFile(path, file, moved_from=lane.file), None)

    async def wait_for(self, wanted: Callable[[], Awaitable[object]]) -> bool:
        """Wait for something; return False if a stop is wanted, at once."""
        with anyio.CancelScope() as waiting:
            self._waiting.add(waiting)
            if not self.is_stopping:
                await wanted()
        self._waiting.discard(waiting)
        return not self.is_stopping

    async def _filled(self, spool: FillingFile) -> bool:
        if spool.is_complete:
            return False
        await self._clock.sleep(FOLLOW_SECONDS)
        return True

    async def _file(
        self, lane: LaneRun, file: LaneFile, grows: Callable[[], Awaitable[bool]] | None
    ) -> None:
        found = await self._claims.find(file, lane.name, report=self._report)
        source = FileSource(
            file.path,
            grows=grows,
            form=found.form,
            bytes_max=max(LINE_BYTES_MAX, self._live.current.pipeline.record_bytes_max),
            claim=found.claim,
            file=file.file,
        )
        lines = LetterSource(source) if lane.is_letters else source
        await self.run(found.lane, lines, lane.dead)
        if source.unfinished_bytes and not self.is_stopping:
            self._unfinished(lane, source)

    async def run(
        self, name: str, source: Source, dead: Path, *, until: anyio.Event | None = None
    ) -> None:
        """Run the pipeline of a lane to the end of its source, or until an event.

        Raises:
            LedgerError: it could not continue.
        """
        pipeline = LaneWorker(
            LanePlace(self._region, name),
            source,
            stores=self._stores,
            settings=self._live,
            dead_letters=self._letters.setdefault(dead, DeadLetterFile(dead, self._clock)),
            services=self._services,
            metering=replace(self._metering, on_counted=self._progress.begin(name)),
        )

        async def stop_then(event: anyio.Event) -> None:
            await event.wait()
            pipeline.stop()

        self._pipelines.add(pipeline)
        try:
            async with background_tasks() as tasks:
                if until is not None:
                    tasks.start_soon(stop_then, until)
                if not self.is_stopping:
                    await pipeline.run()
        finally:
            self._pipelines.discard(pipeline)

    def _unfinished(self, lane: LaneRun, source: FileSource) -> None:
        problem = (
            f"{lane.file}: its last {source.unfinished_bytes:,} bytes, from byte"
            f" {source.size_bytes - source.unfinished_bytes:,} on, are a record without an end and"
            " were not taken: run it again once the rest is there, or end it by a line break"
        )
        if lane.follows:
            self._report(problem)
        else:
            self._progress.problems.append(problem)


@asynccontextmanager
async def open_stores(
    settings: Settings,
    region: str,
    *,
    services: Services,
    opened: Mapping[str, Store] = {},
) -> AsyncIterator[Mapping[str, Store]]:
    """Open the stores of a lane's region and of every home region of records.

    Those in `opened` are taken as they are, and stay open.

    Raises:
        SettingsError: no category is configured, or a region is not in the settings.
    """
    needed = {region, *form_of(settings).homes}
    if region in opened:
        needed |= await regions_of(opened[region], settings)
    missing = sorted(needed - opened.keys())
    opens = connections.open_stores(
        settings, missing, metrics=services.metrics, clock=services.clock
    )
    async with opens as stores:
        yield {**opened} | stores


@asynccontextmanager
async def open_lane(
    settings: Settings, region: str, services: Services
) -> AsyncIterator[tuple[Mapping[str, Store], LiveSettings]]:
    """Open the stores of a lane's region and of its records' homes, under the table's contract.

    Raises:
        ContractMissing, ContractConflict: the table has no contract, or another one.
        And as `open_stores`.
    """
    clock, metrics = services.clock, services.metrics
    async with connections.open_store(settings, region, metrics=metrics, clock=clock) as store:
        view = ContractView(store, settings, clock=clock)
        await view.open()
        others = open_stores(view.current, region, services=services, opened={region: store})
        async with others as stores:
            yield stores, view


async def lane_of(file: Path, store: Store, settings: Settings) -> str:
    """Return the lane of a file in a region, or the one that it would begin.

    Raises:
        LedgerError: as `Claims.find`.
    """
    retrier = Retrier.of(store, clock=SystemClock(), randomness=system_random())
    claims = Claims(store, retrier, pipeline=settings.pipeline.name)
    return (await claims.find(LaneFile(file))).lane
