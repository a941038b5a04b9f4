"""Chains of segments read back: in order, in a range, and each link checked."""

from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from random import Random

import pytest
from support.archiving import fold_of
from support.tiers import few_fast

from ledger.core import archive_pointers
from ledger.core.amounts import EXACT
from ledger.core.archive_pointers import ArchiveState, PointerPlace
from ledger.core.entry import entry_item
from ledger.core.errors import ArchiveDamaged
from ledger.core.ids import EPOCH, EntryId, sort_key
from ledger.core.values import Entry
from ledger.reads.archive import objects
from ledger.reads.archive.places.memory import MemoryPlace
from ledger.reads.archive.places.opening import ReplicatedPlace
from ledger.reads.archive.reader import ArchiveReader
from ledger.reads.archive.segments import Segment, head_with, segment_of, to_lines

COUNTER = "counter"


def id_at(microseconds: int, suffix: int) -> str:
    """Return the id of an entry."""
    return sort_key(EPOCH + timedelta(microseconds=microseconds), suffix)


@dataclass
class Written:
    """A chain in memory; each segment in an object of its own."""

    place: MemoryPlace = field(default_factory=MemoryPlace)
    head: ArchiveState = archive_pointers.BEGUN
    ids: list[str] = field(default_factory=list)

    def add(self, entries: list[str], **changed: object) -> Segment:
        """Add a segment of these entries; `changed` are values that its header should not have."""
        total = len(self.ids) + len(entries)
        items = [entry_item(Entry(COUNTER, entry, Decimal(1))) for entry in sorted(entries)]
        segment = segment_of(
            COUNTER,
            self.head,
            items,
            [b""] * len(items),
            fold=fold_of(EXACT.add(self.head.base_change, total), self.head.base_count + total),
        )
        segment = replace(segment, **changed)  # type: ignore[arg-type]
        packed = objects.padded(to_lines(segment), 2_000)
        made = EntryId(self.head.number + 1, 1)
        self.place.objects[objects.name_of(made)] = packed
        self.head = head_with(self.head, segment, PointerPlace(made, 0, len(packed)), settled=0)
        self.ids += entries
        return segment

    async def between(self, first: int, last: int) -> list[str]:
        """Return the ids of the entries of a range of microseconds."""
        reader = ArchiveReader(ReplicatedPlace([self.place]))
        found = await reader.located(COUNTER, self.head, first=first, last=last)
        assert [one.pointer.number for one in found] == sorted(
            number.pointer.number for number in found if number.first <= last >= first
        )
        low, high = id_at(first, 0), id_at(last, 2**64 - 1)
        return [line.id async for line in reader.lines(COUNTER, found, first=low, last=high)]

    async def walked(self) -> int:
        """Walk the chain; return of how many segments it is."""
        reader = ArchiveReader(ReplicatedPlace([self.place]))
        return len([segment async for segment in reader.walk(COUNTER, self.head)])


@pytest.mark.parametrize("seed", few_fast(range(12), fast=4))
async def test_any_range_is_whole_and_in_order(seed: int) -> None:
    """Whatever came late, and with many entries of one microsecond in several segments."""
    random = Random(seed)  # noqa: S311 (repeatable)
    chain = Written()
    for number in range(random.randrange(1, 40)):
        around = number if random.random() < 0.7 else random.randrange(40)
        chain.add(
            [
                id_at(max(0, around + random.randrange(-2, 3)), random.getrandbits(64))
                for _ in range(random.randrange(1, 4))
            ]
        )
    for _ in range(60):
        first = random.randrange(-1, 44)
        last = first + random.choice([0, 0, 1, 3, 50])
        low, high = id_at(max(0, first), 0), id_at(max(0, last), 2**64 - 1)
        expected = sorted(one for one in chain.ids if low <= one <= high)
        assert await chain.between(max(0, first), max(0, last)) == expected


async def test_a_whole_chain_is_walked() -> None:
    """From its head to its base."""
    chain = Written(head=replace(archive_pointers.BEGUN, base_change=Decimal(5), base_count=2))
    for number in range(9):
        chain.add([id_at(number, 1)])
    assert await chain.walked() == 9


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"change": Decimal(9), "count": 3}, "after segment 3 of 'counter' the net was 9"),
        ({"change": Decimal(3), "count": 4}, "after segment 3 of 'counter' the net was 3 of 4"),
        ({"since": id_at(1, 1)}, "is not the one that the chain names"),
        ({"base_count": 1}, "is not the one that the chain names"),
        ({"pointers": ()}, "segment 2 of 'counter' has no pointer to it"),
    ],
)
async def test_a_link_that_does_not_hold(changed: dict[str, object], said: str) -> None:
    """Sums, base and pointers of each segment are those of the next, or it is named."""
    chain = Written()
    for number in range(5):
        chain.add([id_at(number, 1)], **(changed if number == 2 else {}))
    with pytest.raises(ArchiveDamaged, match=said):
        await chain.walked()


async def test_the_first_segment_follows_the_base() -> None:
    """No other segment, and its sums are the base's and its entries'."""
    chain = Written()
    chain.add([id_at(1, 1)], previous=b"\1" * archive_pointers.CHAIN_BYTES)
    with pytest.raises(ArchiveDamaged, match="the first segment of 'counter' follows another"):
        await chain.walked()
    chain = Written()
    chain.add([id_at(1, 1)], change=Decimal(7))
    with pytest.raises(ArchiveDamaged, match=r"before the first .* the net was 6 of 0 entries"):
        await chain.walked()


async def test_another_segment_in_its_place_is_named() -> None:
    """A whole one of the same collection and number, but of another fold."""
    chain, other = Written(), Written()
    chain.add([id_at(1, 1)])
    other.add([id_at(1, 2)])
    (name,) = chain.place.objects
    (pointer,) = chain.head.pointers
    chain.place.objects[name] = other.place.objects[name]
    with pytest.raises(ArchiveDamaged, match="is not the one that was archived there"):
        await ArchiveReader(ReplicatedPlace([chain.place])).segment(COUNTER, pointer)
