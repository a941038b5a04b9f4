"""A place that measures each request: its outcome, its duration, the bytes of objects.

Listing names is not measured: no process with metrics does it.
"""

from collections.abc import AsyncIterator, Awaitable, Sequence
from typing import TypeVar

from ledger.archive.metrics import DONE, ArchiveMetrics
from ledger.archive.places.port import Place
from ledger.core.errors import ArchiveError
from ledger.runtime.clock import Clock

PUT, GET = "put", "get"
Result = TypeVar("Result")


def metered_places(
    places: Sequence[Place], *, region: str, metrics: ArchiveMetrics, clock: Clock
) -> list[Place]:
    """Return places that measure each request of a process in a region."""
    return [MeteredPlace(place, region=region, metrics=metrics, clock=clock) for place in places]


class MeteredPlace:
    """A `Place` that forwards every request and measures it."""

    def __init__(self, inner: Place, *, region: str, metrics: ArchiveMetrics, clock: Clock) -> None:
        self.url = inner.url
        self._inner = inner
        self._region = region
        self._metrics = metrics
        self._clock = clock

    async def put(self, name: str, data: bytes) -> None:
        """Put an object; see `Place.put`."""
        await self._measured(PUT, self._inner.put(name, data))
        self._metrics.moved(self._region, self.url, PUT, len(data))

    async def get(self, name: str, *, start: int = 0, length: int | None = None) -> bytes:
        """Return an object or a part of it; see `Place.get`."""
        data = await self._measured(GET, self._inner.get(name, start=start, length=length))
        self._metrics.moved(self._region, self.url, GET, len(data))
        return data

    async def names(self, after: str = "") -> AsyncIterator[str]:
        """Yield the names of all objects; see `Place.names`."""
        async for name in self._inner.names(after):
            yield name

    async def replace(self, name: str, data: bytes) -> None:
        """Put an object in place of another; see `Place.replace`."""
        await self._measured("replace", self._inner.replace(name, data))

    async def delete(self, name: str) -> None:
        """Delete an object."""
        await self._measured("delete", self._inner.delete(name))

    async def region(self) -> str | None:
        """Return its AWS region; see `Place.region`."""
        return await self._measured("region", self._inner.region())

    async def _measured(self, operation: str, request: Awaitable[Result]) -> Result:
        started, outcome = self._clock.monotonic(), DONE
        try:
            return await request
        except ArchiveError as error:
            outcome = error.reason
            raise
        finally:
            seconds = self._clock.monotonic() - started
            self._metrics.asked(self._region, self.url, operation, outcome=outcome, seconds=seconds)
