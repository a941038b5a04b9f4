"""Reading a collection's archive: from the head in a net back through the chain, then in order.

A range of time is found without reading what lies between it and the head
(`ledger.core.archive_pointers`): from a segment, each pointer that may lead to something earlier
than the range's end is followed, many at a time, except those whose target, and everything before
it, ended before the range begins.

A long range is read window by window: the segments between two borders, which are the latest times
up to each 256th segment. So memory does not grow with the chain: at most 16 segments are unpacked
at a time, besides the entries of those that overlap in time, and `CACHE_BYTES` of packed ones.
"""

import heapq
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial

from ledger.core.archive_pointers import (
    BASE,
    CHAIN_BYTES,
    STAMP_BYTES,
    ArchiveState,
    Pointer,
    PointerPlace,
)
from ledger.core.errors import ArchiveDamaged, ArchiveMissing
from ledger.core.ids import MICROSECONDS_MAX, SUFFIX_BITS, EntryId
from ledger.reads.archive import objects
from ledger.reads.archive.metrics import CACHE, DAMAGED, PLACE
from ledger.reads.archive.places.opening import ReplicatedPlace
from ledger.reads.archive.segments import Line, Segment, microseconds, of_lines
from ledger.runtime.tasks import run_all

FETCHED_AT_ONCE = 16
WINDOW_SEGMENTS = BASE**4
"""Segments between two borders; a power of `BASE`, so each border points to the previous one."""
CACHE_BYTES = 32 * 1024 * 1024
"""Compressed segments cached in memory."""
CACHE_SECONDS = 300.0
"""How long they are cached: a running process shows an erased note at most that long."""


@dataclass(frozen=True, slots=True)
class ArchivedPage:
    """A segment that has entries in a range, to be read again."""

    pointer: Pointer
    first: int
    last: int


class ArchiveReader:
    """Reads segments, caches those read last, and checks each against its pointer.

    Of several places each is tried until one has the segment as it was archived. Cached ones are
    read again after `CACHE_SECONDS` of `monotonic`; without a clock they are cached for good.
    """

    def __init__(
        self,
        places: ReplicatedPlace,
        *,
        cache_bytes: int = CACHE_BYTES,
        on_segment: Callable[[str], None] = lambda _source: None,
        monotonic: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._places = places
        self._on_segment = on_segment
        self._monotonic = monotonic
        self._cache: OrderedDict[PointerPlace, tuple[float, bytes]] = OrderedDict()
        self._cache_bytes = cache_bytes
        self._cached = 0
        self.fetched = 0

    async def segment(self, partition: str, pointer: Pointer) -> Segment:
        """Return the segment that a pointer leads to.

        Raises:
            ArchiveDamaged: it is another one, or was changed.
            ArchiveError: it cannot be read.
        """
        name = objects.name_of(pointer.place.object)
        what = (
            f"segment {pointer.number:,} of {partition!r}, at byte {pointer.place.offset:,} of"
            f" object {name}"
        )
        read = partial(_led_to, partition=partition, pointer=pointer, what=what)
        try:
            kept = self._kept(pointer.place)
            return await self._fetched(pointer.place, name, read) if kept is None else read(kept)
        except (ArchiveDamaged, ArchiveMissing):
            self._on_segment(DAMAGED)
            raise

    def _kept(self, place: PointerPlace) -> bytes | None:
        if place not in self._cache:
            return None
        fetched, packed = self._cache[place]
        if self._monotonic() - fetched > CACHE_SECONDS:
            del self._cache[place]
            self._cached -= len(packed)
            return None
        self._on_segment(CACHE)
        self._cache.move_to_end(place)
        return packed

    async def _fetched(
        self, place: PointerPlace, name: str, read: Callable[[bytes], Segment]
    ) -> Segment:
        """Return a segment from the first place that has it intact; only then is it cached."""

        def accept(packed: bytes) -> tuple[bytes, Segment]:
            self.fetched += 1
            self._on_segment(PLACE)
            return packed, read(packed)

        packed, found = await self._places.accepted(
            name, accept, start=place.offset, length=place.length
        )
        if (before := self._cache.pop(place, None)) is not None:  # two concurrent reads
            self._cached -= len(before[1])
        self._cache[place] = (self._monotonic(), packed)
        self._cached += len(packed)
        while self._cached > self._cache_bytes and len(self._cache) > 1:
            _, (_, dropped) = self._cache.popitem(last=False)
            self._cached -= len(dropped)
        return found

    async def located(
        self,
        partition: str,
        head: ArchiveState,
        *,
        first: int = 0,
        last: int = MICROSECONDS_MAX,
        after: int = 0,
    ) -> list[ArchivedPage]:
        """Return the segments with entries from `first` to `last`, by number; not up to `after`.

        Times are in microseconds since 1970.

        Raises:
            ArchiveError: as `segment`.
        """
        found: dict[int, ArchivedPage] = {}
        known: set[int] = set()
        waiting = _leading(head.pointers, first=first, last=last, after=after)
        while waiting:
            waiting = [pointer for pointer in waiting if pointer.number not in known]
            known.update(pointer.number for pointer in waiting)
            jobs = [partial(self._outline, partition, pointer) for pointer in waiting]
            outlines = await run_all(jobs, at_once=FETCHED_AT_ONCE) if jobs else []
            following: dict[int, Pointer] = {}
            for one, pointers in outlines:
                if one.first <= last and one.last >= first:
                    found[one.pointer.number] = one
                for pointer in _leading(pointers, first=first, last=last, after=after):
                    following[pointer.number] = pointer
            waiting = list(following.values())
        return [found[number] for number in sorted(found)]

    async def _outline(
        self, partition: str, pointer: Pointer
    ) -> tuple[ArchivedPage, tuple[Pointer, ...]]:
        """Return the time range of a segment, and its pointers, without keeping its entries."""
        segment = await self.segment(partition, pointer)
        return ArchivedPage(pointer, segment.first, segment.last), segment.pointers

    async def in_order(
        self, partition: str, head: ArchiveState, *, first: str, last: str, since: int, until: int
    ) -> AsyncIterator[Line]:
        """Yield the entries between two ids, both included, in order, window by window.

        `since` and `until` are the times of the ids, in microseconds since 1970, or of the ids just
        outside of them.

        Raises:
            ArchiveError: as `segment`.
        """
        borders = await self._borders(partition, head, first=since, last=until)
        for border in (*borders, until):
            found = await self.located(partition, head, first=since, last=border)
            upto = min(last, str(EntryId(border, 2**SUFFIX_BITS - 1)))
            async for line in self.lines(
                partition, found, first=max(first, str(EntryId(since, 0))), last=upto
            ):
                yield line
            since = border + 1

    async def _borders(
        self, partition: str, head: ArchiveState, *, first: int, last: int
    ) -> list[int]:
        """Return the latest times up to each 256th segment that are in a range, each once."""
        found: list[int] = []
        pointers = head.pointers
        while (one := _windowed(pointers)) is not None and one.until >= first:
            if one.until < last and one.until not in found[-1:]:
                found.append(one.until)
            _, pointers = await self._outline(partition, one)
        return found[::-1]

    async def lines(
        self, partition: str, found: list[ArchivedPage], *, first: str = "", last: str = "\uffff"
    ) -> AsyncIterator[Line]:
        """Yield the entries of these segments between two ids, both included, in order.

        Raises:
            ArchiveError: as `segment`.
        """
        heap: list[tuple[str, int, Line]] = []
        for each in sorted(found, key=lambda one: one.first):
            while heap and microseconds(heap[0][0]) < each.first:
                yield heapq.heappop(heap)[2]
            segment = await self.segment(partition, each.pointer)
            for line in segment.lines:
                if first <= line.id <= last:
                    heapq.heappush(heap, (line.id, each.pointer.number, line))
        while heap:
            yield heapq.heappop(heap)[2]

    async def walk(self, partition: str, head: ArchiveState) -> AsyncGenerator[Segment, None]:
        """Yield every segment from the head back to the first, each link checked.

        Raises:
            ArchiveDamaged: a link of chain, sums, or numbers does not hold.
            ArchiveError: as `segment`.
        """
        chain, pointers, number = head.chain, head.pointers, head.number
        change, count = None, None
        while number:
            if not pointers or pointers[0].number != number:
                raise ArchiveDamaged(f"segment {number:,} of {partition!r} has no pointer to it")
            segment = await self.segment(partition, pointers[0])
            said = (segment.base_change, segment.base_count, segment.since)
            if segment.chain() != chain or said != (head.base_change, head.base_count, head.since):
                raise ArchiveDamaged(
                    f"segment {number:,} of {partition!r} is not the one that the chain names"
                )
            if change is not None and (segment.change, segment.count) != (change, count):
                raise ArchiveDamaged(
                    f"after segment {number:,} of {partition!r} the net was {segment.change} of"
                    f" {segment.count:,} entries, before the next one to {change} of {count:,}"
                )
            yield segment
            change = segment.before_change
            count = segment.count - len(segment.lines)
            chain, pointers, number = segment.previous, segment.pointers, number - 1
        if chain != bytes(CHAIN_BYTES):
            raise ArchiveDamaged(f"the first segment of {partition!r} follows another")
        if change is not None and (change, count) != (head.base_change, head.base_count):
            raise ArchiveDamaged(
                f"before the first segment of {partition!r} the net was {change} of {count:,}"
                f" entries, not to {head.base_change} of {head.base_count:,}"
            )


def _led_to(packed: bytes, partition: str, pointer: Pointer, what: str) -> Segment:
    found = of_lines(objects.lines_of(packed, what), what)
    is_it = found.partition == partition and found.number == pointer.number
    if not is_it or found.chain()[:STAMP_BYTES] != pointer.stamp:
        raise ArchiveDamaged(
            f"{what} is not the one that was archived there: it is segment"
            f" {found.number:,} of {found.partition!r}"
        )
    return found


def _windowed(pointers: tuple[Pointer, ...]) -> Pointer | None:
    """Return the first pointer to a segment at which a window ends."""
    return next((pointer for pointer in pointers if pointer.number % WINDOW_SEGMENTS == 0), None)


def _leading(pointers: tuple[Pointer, ...], *, first: int, last: int, after: int) -> list[Pointer]:
    """Return the pointers to follow for the entries of a range."""
    kept: list[Pointer] = []
    for pointer in reversed(pointers):  # from the furthest back
        if pointer.until < first or pointer.number <= after:
            continue
        kept.append(pointer)
        if pointer.least > last:  # everything it skips is later
            break
    return kept


async def archived_line(
    reader: ArchiveReader, partition: str, head: ArchiveState, entry_id: str
) -> Line | None:
    """Return an entry from a collection's archive; None if it has none of this id.

    Raises:
        ArchiveError: the archive cannot be read.
    """
    at = microseconds(entry_id)
    found = await reader.located(partition, head, first=at, last=at)
    async for line in reader.lines(partition, found, first=entry_id, last=entry_id):
        return line
    return None
