"""Several places as one: each object is in all of them, and is read from any that has it."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import TypeVar

from ledger.archive.places.port import Place
from ledger.core.errors import ArchiveError
from ledger.runtime.tasks import run_all

Result = TypeVar("Result")


class Copies:
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
