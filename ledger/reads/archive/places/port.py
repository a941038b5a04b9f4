"""The port to one place of an archive.

Objects are bytes under a name that is used once: they are put, read, and finally deleted. Only
erasing a note replaces one. An acknowledged put is durable, and every later read shows it.
"""

import re
from collections.abc import AsyncIterator
from typing import Protocol

from ledger.core.errors import InvalidInput

NAME_CHARACTERS_MAX = 100
OBJECT_BYTES_MAX = 128 * 1024 * 1024
"""The most that is read of an object, or a part of one; what is written has less."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*", flags=re.ASCII)


class Place(Protocol):
    """One place: a bucket's prefix, or a folder.

    Raises of every method: `ArchiveError`: the place did not do it; `ArchiveMissing`: it has no
    such object.
    """

    url: str

    async def put(self, name: str, data: bytes) -> None:
        """Put an object; the same one again changes nothing.

        Raises:
            ArchiveDamaged: another one exists under this name, and stays.
        """

    async def get(self, name: str, *, start: int = 0, length: int | None = None) -> bytes:
        """Return an object, or exactly `length` bytes of it from `start`.

        Raises:
            ArchiveDamaged: it is shorter, or has more than `OBJECT_BYTES_MAX` bytes, and is not
                read.
        """

    def names(self, after: str = "") -> AsyncIterator[str]:
        """Yield the names of all objects in ascending order, from after one on."""

    async def replace(self, name: str, data: bytes) -> None:
        """Replace the object of this name; a reader sees the old or the new one, complete."""

    async def delete(self, name: str) -> None:
        """Delete an object; it may be gone already."""

    async def region(self) -> str | None:
        """Return its AWS region; None for a place outside of AWS."""


def checked_name(name: str) -> str:
    """Return a name that objects may have.

    Raises:
        InvalidInput: the name is not allowed.
    """
    if len(name) > NAME_CHARACTERS_MAX or not _NAME.fullmatch(name):
        raise InvalidInput(
            f"an archive object's name has 1 to {NAME_CHARACTERS_MAX} of letters, digits, - and .,"
            f" got {name!r}"
        )
    return name
