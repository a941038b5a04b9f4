"""The archive that the table's contract names, opened when it is first read."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial

import anyio

from ledger.core import archive_pointers
from ledger.core.archive_pointers import ArchiveState
from ledger.core.errors import DamagedItem
from ledger.core.values import NetChange
from ledger.reads.archive.metrics import ArchiveMetrics
from ledger.reads.archive.places.opening import ReplicatedPlace, metered_places
from ledger.reads.archive.places.port import Place
from ledger.reads.archive.reader import ArchiveReader
from ledger.runtime.clock import Clock
from ledger.settings.live import LiveSettings

OpenArchive = Callable[[], Awaitable[ArchiveReader | None]]
"""Returns the reader of the archive; None if the table has none."""


class ArchiveAccess:
    """Opens the places of the contract's archive once, and again when the contract names others."""

    def __init__(
        self,
        live: LiveSettings,
        *,
        region: str,
        clock: Clock,
        metrics: ArchiveMetrics,
        places: Sequence[Place] | None = None,
    ) -> None:
        self._live = live
        self._region = region
        self._metrics = metrics
        self._clock = clock
        self._given = places
        self._stack = AsyncExitStack()
        self._lock = anyio.Lock()
        self._urls: tuple[str, ...] = ()
        self._reader: ArchiveReader | None = None

    async def reader(self) -> ArchiveReader | None:
        """Return the reader of the archive; None if the contract names no archive.

        Raises:
            ArchiveError: a place cannot be opened.
        """
        urls = self._live.current.terms.archive
        async with self._lock:
            if urls != self._urls:
                await self._open(urls)
            return self._reader

    async def _open(self, urls: tuple[str, ...]) -> None:
        self._reader, self._urls = None, ()
        await self._stack.aclose()
        if urls:
            places = self._given
            if places is None:
                # Imported only here: most tables have no archive.
                from ledger.reads.archive.places.opening import open_places  # noqa: PLC0415

                opened = await self._stack.enter_async_context(open_places(urls, clock=self._clock))
                places = opened.places
            region, metrics = self._region, self._metrics
            metered = metered_places(places, region=region, metrics=metrics, clock=self._clock)
            found = partial(metrics.segment, region)
            self._reader = ArchiveReader(
                ReplicatedPlace(metered), on_segment=found, monotonic=self._clock.monotonic
            )
        self._urls = urls

    async def close(self) -> None:
        """Close what is open."""
        self._reader, self._urls = None, ()
        await self._stack.aclose()


def archived_of(net: NetChange | None, partition: str) -> ArchiveState:
    """Return a net's head of its archive; an empty chain if it has none.

    Raises:
        DamagedItem: it cannot be read.
    """
    if net is None or net.archive is None:
        return archive_pointers.BEGUN
    try:
        return archive_pointers.of_bytes(net.archive)
    except ValueError as error:
        raise DamagedItem(f"net change of counter {partition!r}: archive: {error}") from None
