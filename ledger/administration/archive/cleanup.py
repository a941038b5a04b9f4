"""What may go from an archive: the notes of single entries, and objects that no net leads to.

Erasing a note leaves the chain whole: digests cover a salted hash of each note, so a segment
without note and salt has the same digest. It replaces the former segment at the same length, so
nothing that points to it changes. The record of a reversal, or of a count (`reconcile`), is a copy
of its entry in the table. The note is erased there, too; the record stays.

An object of which no net names a segment is of a fold that lost its race. A fold is signed within
an hour of its object's beginning (`SIGNED_WITHIN`), so segments that no region's net leads to a day
later never will be led to. Their entries are in another segment, or still in the table. If they are
nowhere else, a net was lost, or is not rebuilt yet, or is in another table, or the archive was
removed, which ended their chain: such an object stays.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ledger.administration.archive.chains import Chains, ObjectIndex, rewritten, whole_indexes
from ledger.administration.archive.rebuild import only_copies
from ledger.core import ids, keys, once
from ledger.core.entry import Item
from ledger.core.errors import InvalidInput, OutcomeUnknown, StateConflict
from ledger.reads.archive import objects
from ledger.reads.archive.access import archived_of
from ledger.reads.archive.places.opening import ReplicatedPlace
from ledger.reads.archive.reader import ArchivedPage, ArchiveReader
from ledger.reads.archive.segments import (
    Line,
    Segment,
    erased,
    item_of,
    microseconds,
    of_lines,
    to_lines,
)
from ledger.reads.collection import read_net
from ledger.store.conditions import Equals
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.store.writes import Applied, Put


async def erase_notes(
    store: Store, places: ReplicatedPlace, counter: str, entries: Sequence[str], *, shards: int
) -> int:
    """Erase the notes of these entries of a counter in every place; return how many had one.

    The records of reversals and counts lose them, too, through `store`, home's. Idempotent; repeat
    it after an interruption, because some places may still have them.

    Raises:
        InvalidInput: one has no id of ours, or shares its item with others, which have no notes.
        StateConflict: one is not in the archive, or still in the table, which would archive it
            again; nothing was erased.
        ArchiveError: a place did not do it.
        StoreError, OutcomeUnknown: DynamoDB did not do it; repeat the call.
    """
    wanted = {
        entry_id: await _found(store, places, counter, entry_id, shards) for entry_id in entries
    }
    count = 0
    for entry, (partition, found, line) in wanted.items():
        await _erase_in_record(store, partition, line)
        count += await _erased(places, found, entry)
    return count


async def _found(
    store: Store, places: ReplicatedPlace, counter: str, entry: str, shards: int
) -> tuple[str, ArchivedPage, Line]:
    if ids.split(entry)[1] is not None:
        raise InvalidInput(
            f"entry {entry} shares its item with others: such entries have no notes to erase"
        )
    if ids.parse(entry) is None:
        raise InvalidInput(f"{entry!r} is not the id of an entry of the ledger")
    at, reader = microseconds(entry), ArchiveReader(places)
    for shard in range(shards):
        partition = keys.partition_key(counter, shard)
        if await store.get(Get((partition, entry))) is not None:
            raise StateConflict(
                f"entry {entry} of {counter!r} is still in the table, with its note: erase it once"
                " it was merged and deleted"
            )
        head = archived_of(await read_net(store, partition), partition)
        for found in await reader.located(partition, head, first=at, last=at):
            segment = await reader.segment(partition, found.pointer)
            for line in segment.lines:
                if line.id == entry:
                    return partition, found, line
    raise StateConflict(f"the archive has no entry {entry} of counter {counter!r}")


async def _erase_in_record(store: Store, partition: str, line: Line) -> None:
    """Erase the note in the record of an entry that a call makes once, if it is one."""
    key = once.record_key(item_of(line, partition))
    record = None if key is None else await store.get(Get(key))
    is_its = record is not None and record.get(once.ENTRY) == {"S": line.id}
    if record is not None and is_its and "note" in record:
        await _replace(store, once.without_note(record), line.id)


async def _replace(store: Store, record: Item, entry: str) -> None:
    """Replace a record by the one without a note; nothing else changes records."""
    outcome = await store.write(Put(record, Equals(once.ENTRY, {"S": entry})))
    if not isinstance(outcome, Applied):
        raise OutcomeUnknown(
            f"the note of {entry} may still be in the table, in its record: repeat the call",
            entries=[],
            retryable=True,
        )


async def _erased(places: ReplicatedPlace, found: ArchivedPage, entry: str) -> int:
    """Erase a note in every place; return 1 if the first had it."""
    place = found.pointer.place
    name = objects.name_of(place.object)
    had = 0
    for number, each in enumerate(places.places):
        what = f"object {name} in {each.url}"
        data = await each.get(name)
        packed = data[place.offset : place.offset + place.length]
        segment = of_lines(objects.lines_of(packed, what), what)
        if _has_note(segment, entry):
            had += number == 0
            without = objects.padded(to_lines(erased(segment, {entry})), place.length)
            await each.replace(name, rewritten(data, what, {place.offset: without}))
    return had


def _has_note(segment: Segment, entry: str) -> bool:
    return any(line.id == entry and line.note is not None for line in segment.lines)


SWEPT_AGE = timedelta(days=1)


@dataclass(slots=True)
class SweepResult:
    """The result of a sweep: objects kept, and removed; segments that no net names.

    Of the objects kept, `only_here` have entries that nothing else has.
    """

    kept: int = 0
    removed: int = 0
    left_over: int = 0
    only_here: int = 0


async def sweep(
    stores: Mapping[str, Store],
    places: ReplicatedPlace,
    *,
    home: str,
    now: datetime,
    dry_run: bool = False,
) -> SweepResult:
    """Remove the objects, at least a day old, of which no region's net names a segment.

    All objects are read first; while one is damaged, nothing is removed. An object with an entry
    that `home` shows nowhere else stays.

    Raises:
        ArchiveError: an object, or a segment that a net names, cannot be read: see `ledger verify
            --archive`.
        StoreError: a region cannot be read.
    """
    chains, indexes = Chains(), list[ObjectIndex]()
    async for index in whole_indexes(places):
        chains.add(index)
        indexes.append(index)
    named = set[str]()
    async for chain, number, partition in _heads(stores, list(chains.found)):
        named |= chains.named_from(partition, chain, number)
    swept, reader = SweepResult(), ArchiveReader(places)
    for index in indexes:
        left = [segment for segment in index.segments if segment.chain not in named]
        swept.left_over += len(left)
        if len(left) < len(index.segments) or now - index.made.at < SWEPT_AGE:
            swept.kept += 1
            continue
        if await _has_only_copies(stores[home], reader, places, index):
            swept.only_here += 1
            swept.kept += 1
            continue
        swept.removed += 1
        if not dry_run:
            await places.delete(index.name)
    return swept


async def _heads(
    stores: Mapping[str, Store], partitions: Iterable[str]
) -> AsyncIterator[tuple[bytes, int, str]]:
    for partition in partitions:
        for store in stores.values():
            head = archived_of(await read_net(store, partition), partition)
            if head.number:
                yield head.chain, head.number, partition


async def _has_only_copies(
    home: Store, reader: ArchiveReader, places: ReplicatedPlace, index: ObjectIndex
) -> bool:
    """Return whether an object that no net names has an entry that is nowhere else."""
    for segment in index.segments:
        async for _ in only_copies(home, reader, places, index, segment):
            return True
    return False
