"""One lane from a file, as `ledger pipeline run` brings it in, until its end or a signal.

Everything that must not be lost is in the table (states, map items, the lane's position) or in the
file of dead letters. So the process may be killed at any moment, and begun again.
"""

import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import anyio
import anyio.to_thread

from ledger.contract.view import ContractView
from ledger.core.errors import LedgerError
from ledger.pipeline.core.records import Form
from ledger.pipeline.metrics import PipelineMetrics
from ledger.pipeline.progress import Progress
from ledger.pipeline.sources.dead_letters import DeadLetterFile, LetterSource
from ledger.pipeline.sources.source import FileSource, Source
from ledger.pipeline.stages.worker import Pipeline
from ledger.runtime.clock import Clock, SystemClock, system_random
from ledger.runtime.gc import tune_gc
from ledger.runtime.metrics import Metrics
from ledger.runtime.signals import Signalled, ignore, stopped_by_signals
from ledger.runtime.tasks import background_tasks
from ledger.settings import Settings
from ledger.settings.live import LiveSettings
from ledger.store import opening
from ledger.store.port import Store

FOLLOW_SECONDS = 0.2
"""Between two looks at the end of a file that may grow."""
COPY_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane to be brought in: its name, its region, its file, and where its dead letters go.

    `is_letters` takes the records out of dead letters; `follows` waits at the file's end for more.
    """

    name: str
    region: str
    file: Path
    dead: Path
    is_letters: bool = False
    follows: bool = False


@dataclass(slots=True)
class Spool:
    """A stream on its way into a file, which can be read again."""

    stream: BinaryIO
    file: Path
    is_complete: bool = False

    def begin(self) -> None:
        """Make the file, and copy until a first line is there, which names the lane.

        Raises:
            LedgerError: the file is there already, or cannot be written.
        """
        try:
            with self.file.open("xb") as file:
                while b"\n" not in (chunk := self._copy(file)):
                    if not chunk:
                        self.is_complete = True
                        break
        except FileExistsError:
            raise LedgerError(
                f"{self.file} is there already: name a new file, or finish that one by"
                f" `ledger pipeline run {self.file}`"
            ) from None
        except OSError as error:
            raise LedgerError(f"{self.file}: cannot be filled: {error.strerror}") from error

    async def fill(self) -> None:
        """Copy the stream to its end; what is copied is on the disk.

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
    lane: Lane,
    settings: Settings,
    progress: Progress,
    *,
    spool: Spool | None = None,
    tell: Callable[[str], None],
) -> Signalled:
    """Bring a lane in to its end, or until a signal, which is returned.

    Raises:
        LedgerError: the lane could not go on; what was committed stays.
    """
    clock = SystemClock()
    metrics = Metrics.of(progress.registry)
    async with open_lane(settings, lane.region, metrics=metrics, clock=clock) as (stores, live):
        pipeline = Pipeline(
            lane.name,
            _source(lane, spool, clock),
            region=lane.region,
            stores=stores,
            settings=live,
            dead_letters=DeadLetterFile(lane.dead),
            clock=clock,
            randomness=system_random(),
            metrics=PipelineMetrics.of(progress.registry),
            ledger_metrics=metrics,
            on_counted=progress.counted,
        )

        tune_gc()

        def stop(received: signal.Signals) -> None:
            tell(f"{received.name}: finishing what was read; a second signal stops at once")
            pipeline.stop()

        async with stopped_by_signals(stop, ignore) as received, background_tasks() as tasks:
            if spool is not None:
                tasks.start_soon(spool.fill)
            await pipeline.run()
        return received


@asynccontextmanager
async def open_stores(
    settings: Settings,
    region: str,
    *,
    metrics: Metrics,
    clock: Clock,
    opened: Mapping[str, Store] = {},
) -> AsyncIterator[Mapping[str, Store]]:
    """Open the stores of a lane's region and of every home region of records.

    Those in `opened` are taken as they are, and stay open.

    Raises:
        SettingsError: no category is configured, or a region is not in the settings.
    """
    needed = {region, *Form(settings).homes}
    missing = sorted(needed - opened.keys())
    async with opening.open_stores(settings, missing, metrics=metrics, clock=clock) as stores:
        yield {**opened} | stores


@asynccontextmanager
async def open_lane(
    settings: Settings, region: str, *, metrics: Metrics, clock: Clock
) -> AsyncIterator[tuple[Mapping[str, Store], LiveSettings]]:
    """Open the stores of a lane's region and of its records' homes, under the table's contract.

    Raises:
        ContractMissing, ContractConflict: the table has no contract, or another one.
        And as `open_stores`.
    """
    async with opening.open_store(settings, region, metrics=metrics, clock=clock) as store:
        view = ContractView(store, settings, clock=clock)
        await view.open()
        others = open_stores(
            view.current, region, metrics=metrics, clock=clock, opened={region: store}
        )
        async with others as stores:
            yield stores, view


def _source(lane: Lane, spool: Spool | None, clock: Clock) -> Source:
    async def grows() -> bool:
        if spool is not None and spool.is_complete:
            return False
        await clock.sleep(FOLLOW_SECONDS)
        return True

    may_grow = lane.follows or spool is not None
    lines = FileSource(lane.file, grows=grows if may_grow else None)
    return LetterSource(lines) if lane.is_letters else lines
