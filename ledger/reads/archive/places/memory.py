"""A place in memory, for tests and simulated worlds."""

from collections.abc import AsyncIterator

from ledger.core.errors import ArchiveDamaged, ArchiveMissing
from ledger.reads.archive.places.port import OBJECT_BYTES_MAX, checked_name


class MemoryPlace:
    """A place whose objects are gone with the process."""

    def __init__(self, url: str = "memory://", *, region: str | None = None) -> None:
        self.url = url
        self.objects: dict[str, bytes] = {}
        self._region = region

    async def put(self, name: str, data: bytes) -> None:
        """Put an object; see `Place.put`."""
        if self.objects.setdefault(checked_name(name), data) != data:
            raise other_there(self.url, name)

    async def get(self, name: str, *, start: int = 0, length: int | None = None) -> bytes:
        """Return an object or a part of it; see `Place.get`."""
        if name not in self.objects:
            raise missing(self.url, name)
        data = self.objects[name]
        found = data[start:] if length is None else data[start : start + length]
        check_size(len(found), self.url, name)
        return checked_length(found, length, self.url, name)

    async def names(self, after: str = "") -> AsyncIterator[str]:
        """Yield the names of all objects; see `Place.names`."""
        for name in sorted(self.objects):
            if name > after:
                yield name

    async def replace(self, name: str, data: bytes) -> None:
        """Put an object in place of another; see `Place.replace`."""
        self.objects[checked_name(name)] = data

    async def delete(self, name: str) -> None:
        """Delete an object."""
        self.objects.pop(name, None)

    async def region(self) -> str | None:
        """Return the region given."""
        return self._region


def missing(url: str, name: str) -> ArchiveMissing:
    """Return the error of a missing object."""
    return ArchiveMissing(f"object {name} is not in {url}: it was deleted, or never put there")


def other_there(url: str, name: str) -> ArchiveDamaged:
    """Return the error of a put that finds another object."""
    return ArchiveDamaged(f"object {name} in {url} differs from the one to be put there")


def check_size(size: int, url: str, name: str) -> None:
    """Return if so many bytes may be read of an object.

    Raises:
        ArchiveDamaged: no object has so many.
    """
    if size > OBJECT_BYTES_MAX:
        raise ArchiveDamaged(
            f"object {name} in {url} is not the ledger's: {size:,} bytes are to be read of it, and"
            f" {OBJECT_BYTES_MAX:,} is the most"
        )


def checked_length(data: bytes, length: int | None, url: str, name: str) -> bytes:
    """Return the bytes read of an object if their length is as requested.

    Raises:
        ArchiveDamaged: it is not.
    """
    if length is not None and len(data) != length:
        raise ArchiveDamaged(
            f"object {name} in {url} is truncated: {len(data):,} bytes instead of {length:,}"
        )
    return data
