"""Opening the places of an archive by their URLs.

Several places as one: each object is in all of them, and is read from any that has it.

A place that measures each request: its outcome, its duration, the bytes of objects.

Listing names is not measured: no process with metrics does it.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeVar

from ledger.core.errors import ArchiveError, InvalidInput
from ledger.core.urls import S3, wrong_place
from ledger.reads.archive.metrics import DONE, ArchiveMetrics
from ledger.reads.archive.places.files import FilePlace
from ledger.reads.archive.places.port import Place
from ledger.runtime.clock import Clock
from ledger.runtime.tasks import run_all

Result = TypeVar("Result")


class ReplicatedPlace:
    """All places of an archive."""

    def __init__(self, places: Sequence[Place]) -> None:
        self.places = tuple(places)

    async def get(self, name: str, *, start: int = 0, length: int | None = None) -> bytes:
        """Return an object, or a part of it, from the first place that has it whole.

        Raises:
            ArchiveError: no place has it; the error of the first.
        """
        return await self.accepted(name, lambda data: data, start=start, length=length)

    async def accepted(
        self,
        name: str,
        accept: Callable[[bytes], Result],
        *,
        start: int = 0,
        length: int | None = None,
    ) -> Result:
        """Return the result of `accept` on an object, or a part, from the first place that has it.

        Raises:
            ArchiveError: no place has it, or `accept` raised for every place; the error of the
                first.
        """
        failures: list[ArchiveError] = []
        for place in self.places:
            try:
                return accept(await place.get(name, start=start, length=length))
            except ArchiveError as error:
                failures.append(error)
        raise failures[0]

    async def names(self) -> AsyncIterator[str]:
        """Yield the names of all objects in any place, in ascending order, each once."""
        streams = [place.names() for place in self.places]
        heads = [await anext(stream, None) for stream in streams]
        while waiting := [name for name in heads if name is not None]:
            least = min(waiting)
            yield least
            for number, name in enumerate(heads):
                if name == least:
                    heads[number] = await anext(streams[number], None)

    async def replace(self, name: str, data: bytes) -> None:
        """Replace an object in every place."""
        jobs = [lambda place=place: place.replace(name, data) for place in self.places]
        await run_all(jobs, at_once=len(jobs))

    async def delete(self, name: str) -> None:
        """Delete an object in every place."""
        jobs = [lambda place=place: place.delete(name) for place in self.places]
        await run_all(jobs, at_once=len(jobs))


@asynccontextmanager
async def open_places(urls: Sequence[str], *, clock: Clock) -> AsyncIterator[ReplicatedPlace]:
    """Open places, S3's as the AWS SDK finds endpoint and credentials (AWS_ENDPOINT_URL_S3).

    Raises:
        InvalidInput: a URL is not one of a place.
        ArchiveError: the SDK has no credentials.
    """
    async with AsyncExitStack() as stack:
        places: list[Place] = []
        for url in urls:
            if wrong := wrong_place(url):
                raise InvalidInput(wrong)
            if url.startswith(S3):
                # Imported only here, since it brings botocore.
                from ledger.reads.archive.places.s3 import open_s3  # noqa: PLC0415

                places.append(await stack.enter_async_context(open_s3(url)))
            else:
                places.append(FilePlace(url, clock=clock))
        yield ReplicatedPlace(places)


PUT, GET = "put", "get"


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
