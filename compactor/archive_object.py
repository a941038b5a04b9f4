"""An archive object while it is filled: segments of many collections, until the first fold is sent.

Pure: no clock, no randomness, no I/O.
"""

from dataclasses import dataclass, field
from datetime import datetime

from ledger.core.archive_pointers import PointerPlace
from ledger.core.errors import ArchiveError
from ledger.core.ids import EntryId
from ledger.reads.archive import objects


@dataclass(slots=True)
class ArchiveObject:
    """An object that accepts segments until it is closed, and is put once."""

    made: EntryId
    members: list[bytes] = field(default_factory=list)
    index: list[objects.Indexed] = field(default_factory=list)
    size: int = 0
    entries: int = 0
    is_put: bool = False
    failed: ArchiveError | None = None
    """Why it could not be put: its folds wait for the next pass."""

    @property
    def name(self) -> str:
        """The name under which it is put."""
        return objects.name_of(self.made)

    @property
    def signed_until(self) -> datetime:
        """The last moment at which a fold that names it may be signed."""
        return self.made.at + objects.SIGNED_WITHIN

    def add(self, packed: bytes) -> PointerPlace:
        """Add a segment's member and return its place."""
        place = PointerPlace(self.made, self.size, len(packed))
        self.members.append(packed)
        self.size += len(packed)
        return place

    def data(self) -> bytes:
        """Return the whole object."""
        index = objects.index_member(self.index)
        return b"".join([*self.members, index, objects.trailer(self.size, index)])
