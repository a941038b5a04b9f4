"""The contents of an archive, by the indexes of its objects."""

from collections import defaultdict
from collections.abc import AsyncIterator, Container
from dataclasses import dataclass, field, replace

from ledger.core.archive_pointers import PointerPlace
from ledger.core.errors import ArchiveDamaged, ArchiveError
from ledger.core.ids import EntryId
from ledger.reads.archive import objects
from ledger.reads.archive.objects import Indexed
from ledger.reads.archive.places.opening import ReplicatedPlace
from ledger.reads.archive.places.port import Place as ArchivePlace


@dataclass(frozen=True, slots=True)
class ObjectIndex:
    """An object, and the segments in it."""

    name: str
    made: EntryId
    segments: tuple[Indexed, ...]

    def place(self, segment: Indexed) -> PointerPlace:
        """Return the location of one of them."""
        return PointerPlace(self.made, segment.offset, segment.length)


@dataclass(slots=True)
class Chains:
    """All segments of an archive: of each collection, by their chains."""

    found: dict[str, dict[str, tuple[ObjectIndex, Indexed]]] = field(
        default_factory=lambda: defaultdict(dict)
    )

    def add(self, index: ObjectIndex, *, only: Container[str] | None = None) -> None:
        """Add the segments of an object, restricted to the collections in `only` if given."""
        for segment in index.segments:
            if only is None or segment.partition in only:
                self.found[segment.partition][segment.chain] = (index, segment)

    def named_from(self, partition: str, chain: bytes, number: int) -> set[str]:
        """Return the chains of a segment and of all earlier ones.

        Raises:
            ArchiveDamaged: one is in no object.
        """
        here, at, named = self.found[partition], chain.hex(), set[str]()
        for expected in range(number, 0, -1):
            if at not in here or here[at][1].number != expected:
                raise ArchiveDamaged(
                    f"segment {expected:,} of {partition!r} is in no object of the archive"
                )
            named.add(at)
            at = here[at][1].previous
        return named

    def heads(self, partition: str) -> list[tuple[ObjectIndex, Indexed]]:
        """Return the segments that no other follows, the longest chain first."""
        here = self.found[partition]
        followed = {segment.previous for _, segment in here.values()}
        ends = [each for chain, each in here.items() if chain not in followed]
        return sorted(ends, key=lambda each: (-each[1].number, each[0].name))


async def index_of(place: ArchivePlace, name: str, made: EntryId) -> ObjectIndex:
    """Return the index of an object, reading all of it and checking each byte.

    Raises:
        ArchiveDamaged: it is not as it was written.
    """
    found = objects.whole_index(await place.get(name), f"object {name} in {place.url}")
    return ObjectIndex(name, made, tuple(found))


async def names_in(places: ReplicatedPlace) -> AsyncIterator[tuple[str, EntryId]]:
    """Yield the names of the objects of any place, and when they were made; others are left out."""
    async for name in places.names():
        made = objects.id_of(name)
        if made is not None:
            yield name, made


async def whole_indexes(places: ReplicatedPlace) -> AsyncIterator[ObjectIndex]:
    """Yield the index of each object, from the first place that has it intact.

    Raises:
        ArchiveError: no place has one of them.
    """
    async for name, made in names_in(places):
        found = await _first_index(places, name, made)
        if isinstance(found, ArchiveError):
            raise found
        yield found


async def readable_indexes(places: ReplicatedPlace) -> AsyncIterator[ObjectIndex]:
    """Yield the index of each object that any place has intact."""
    async for name, made in names_in(places):
        found = await _first_index(places, name, made)
        if not isinstance(found, ArchiveError):
            yield found


async def _first_index(
    places: ReplicatedPlace, name: str, made: EntryId
) -> ObjectIndex | ArchiveError:
    """Return the index from the first place, or why it has none."""
    failures: list[ArchiveError] = []
    for place in places.places:
        try:
            return await index_of(place, name, made)
        except ArchiveError as error:
            failures.append(error)
    return failures[0]


def rewritten(data: bytes, what: str, members: dict[int, bytes]) -> bytes:
    """Return an object with some members, by their offsets, replaced by others of the same length.

    Raises:
        ArchiveDamaged: it is not as it was written.
    """
    index = objects.whole_index(data, what)
    parts = [
        members.get(indexed.offset, data[indexed.offset : indexed.offset + indexed.length])
        for indexed in index
    ]
    for one, packed in zip(index, parts, strict=True):
        if len(packed) != one.length:
            raise ValueError(f"{len(packed)} bytes instead of {one.length}")
    rows = [
        replace(one, sha256=objects.sha256_of(packed))
        for one, packed in zip(index, parts, strict=True)
    ]
    body, member = b"".join(parts), objects.index_member(rows)
    return body + member + objects.trailer(len(body), member)
