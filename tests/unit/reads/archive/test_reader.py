"""Reading a chain: any range, window by window, each segment fetched once."""

from collections.abc import AsyncIterator
from dataclasses import replace
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from support.archiving import fold_of

from ledger.core import archive_pointers
from ledger.core.archive_pointers import ArchiveState, PointerPlace
from ledger.core.entry import Item, entry_id
from ledger.core.errors import ArchiveDamaged
from ledger.core.ids import MICROSECOND, EntryId
from ledger.reads.archive import objects
from ledger.reads.archive import reader as reading
from ledger.reads.archive.metrics import CACHE, DAMAGED, PLACE
from ledger.reads.archive.places.memory import MemoryPlace
from ledger.reads.archive.places.opening import ReplicatedPlace
from ledger.reads.archive.reader import ArchiveReader
from ledger.reads.archive.segments import (
    SALT_BYTES,
    Line,
    head_with,
    microseconds,
    segment_of,
    to_lines,
)
from ledger.testing.clock import START

WINDOW = 4
SEGMENTS = 150
LATE_SEGMENTS = 3
"""A late entry is at most so many segments late."""


async def chain(random: Random, place: MemoryPlace) -> tuple[ArchiveState, list[str]]:
    """Put a chain of segments of three entries, some of them late; return its head and all ids."""
    head, made, late = archive_pointers.BEGUN, list[str](), list[str]()
    at = 0
    for number in range(SEGMENTS):
        found = late if number % LATE_SEGMENTS == 0 else []
        late = late if number % LATE_SEGMENTS else []
        for _ in range(3):
            at += random.randrange(5)
            one = str(entry_id(START + at * MICROSECOND, random.getrandbits(64)))
            (late if random.random() < 0.2 else found).append(one)
        if not found:
            continue
        made += found
        items: list[Item] = [
            {"pk": {"S": "c"}, "sk": {"S": each}, "change": {"N": "1"}} for each in sorted(found)
        ]
        segment = segment_of(
            "c",
            head,
            items,
            [bytes(SALT_BYTES)] * len(items),
            fold=fold_of(Decimal(len(made)), len(made)),
        )
        name = EntryId(number, 0)
        packed = objects.member(to_lines(segment))
        await place.put(objects.name_of(name), packed)
        head = head_with(head, segment, PointerPlace(name, 0, len(packed)), settled=0)
    return head, sorted(made)


async def ids_of(lines: AsyncIterator[Line]) -> list[str]:
    """Return the ids of entries."""
    return [line.id async for line in lines]


def span(first: str, last: str) -> dict[str, Any]:
    """Return a range between two ids."""
    times = {"since": microseconds(first), "until": microseconds(last)}
    return {"first": first, "last": last, **times}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
async def test_any_range_in_order(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the windows are, each entry between two ids comes once, in order."""
    monkeypatch.setattr(reading, "WINDOW_SEGMENTS", WINDOW)
    random, place = Random(seed), MemoryPlace()  # noqa: S311 (repeatable)
    head, made = await chain(random, place)
    reader = ArchiveReader(ReplicatedPlace([place]))
    for _ in range(40):
        first, last = sorted(random.choices(made, k=2))
        found = await ids_of(reader.in_order("c", head, **span(first, last)))
        assert found == [each for each in made if first <= each <= last]


async def test_a_window_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the chain is, few segments are known at once, and each is fetched once."""
    monkeypatch.setattr(reading, "WINDOW_SEGMENTS", WINDOW)
    place, known, sources = MemoryPlace(), list[int](), list[str]()
    head, made = await chain(Random(1), place)  # noqa: S311 (repeatable)
    reader = ArchiveReader(ReplicatedPlace([place]), on_segment=sources.append)
    lines = reader.lines

    def watched(partition: str, found: list[Any], **bounds: str) -> AsyncIterator[Line]:
        known.append(len(found))
        return lines(partition, found, **bounds)

    monkeypatch.setattr(reader, "lines", watched)
    assert await ids_of(reader.in_order("c", head, **span(made[0], made[-1]))) == made
    assert max(known) <= WINDOW + 2 * LATE_SEGMENTS
    assert len(known) > SEGMENTS / WINDOW / 2
    assert sources.count(PLACE) == reader.fetched == head.number
    assert {*sources} == {PLACE, CACHE}


async def test_what_is_damaged_is_counted() -> None:
    """A segment that is another than what leads to it is an error, and counted as damaged."""
    place, sources = MemoryPlace(), list[str]()
    head, _ = await chain(Random(1), place)  # noqa: S311 (repeatable)
    reader = ArchiveReader(ReplicatedPlace([place]), on_segment=sources.append)
    pointer = replace(head.pointers[0], stamp=bytes(8))
    with pytest.raises(ArchiveDamaged, match="is not the one that was archived there"):
        await reader.segment("c", pointer)
    assert sources == [PLACE, DAMAGED]
