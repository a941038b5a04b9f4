"""Erasing the notes of single entries from the archive; the chain stays whole.

The operation that made an entry may have kept its note in the table, for its repeats: the record of
a reversal, or of a count (`reconcile`). It is erased there, too; the record stays.

Digests cover a salted hash of each note, so a segment without note and salt has the same digest. It
replaces the former one at the same length, so nothing that points to it changes.
"""

from collections.abc import Collection, Sequence

from ledger.administration.archive.indexed import rewritten
from ledger.archive import objects
from ledger.archive.access import archived_of
from ledger.archive.places.copies import Copies
from ledger.archive.reading import ArchiveReader, Found
from ledger.archive.segments import Line, Segment, erased, microseconds, of_lines, to_lines
from ledger.core import ids, keys
from ledger.core.entry import Item
from ledger.core.errors import InvalidInput, OutcomeUnknown, StateConflict
from ledger.reversing import reversal_key, without_note
from ledger.store.conditions import Equals
from ledger.store.port import Store
from ledger.store.reads import Get, Query
from ledger.store.writes import Applied, Put
from ledger.totals.collection import read_net


async def erase_notes(
    store: Store, places: Copies, counter: str, entries: Sequence[str], *, shards: int
) -> int:
    """Erase the notes of these entries of a counter in every place; return how many had one.

    The records of reversals and counts lose them, too, through `store`, home's. Idempotent; repeat
    it after an interruption, because some places may still have them.

    Raises:
        StateConflict: one is not in the archive, or still in the table, which would archive it
            again; nothing was erased.
        ArchiveError: a place did not do it.
        StoreError, OutcomeUnknown: DynamoDB did not do it; repeat the call.
    """
    wanted = {
        entry_id: await _found(store, places, counter, entry_id, shards) for entry_id in entries
    }
    count = 0
    for entry, (found, line) in wanted.items():
        if line.reverses is not None:
            await _erase_of_reversal(store, counter, line.reverses, entry)
        count += await _erased(places, found, entry)
    await _erase_of_counts(store, counter, wanted.keys())
    return count


async def _found(
    store: Store, places: Copies, counter: str, entry: str, shards: int
) -> tuple[Found, Line]:
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
                    return found, line
    raise StateConflict(f"the archive has no entry {entry} of counter {counter!r}")


async def _erase_of_reversal(store: Store, counter: str, reversed_id: str, entry: str) -> None:
    """Erase the note in the record by which a reversal is made once."""
    record = await store.get(Get(reversal_key(counter, reversed_id)))
    is_its = record is not None and record.get("entry") == {"S": entry}
    if record is not None and is_its and "note" in record:
        await _replace(store, without_note(record), entry)


async def _erase_of_counts(store: Store, counter: str, entries: Collection[str]) -> None:
    """Erase the reasons in the records of counts that made these entries."""
    query = Query(f"{keys.RECONCILE_PREFIX}{counter}")
    while True:
        page = await store.query(query)
        for record in page.items:
            entry = record.get("entry", {}).get("S", "")
            if entry in entries and "reason" in record:
                kept = {name: value for name, value in record.items() if name != "reason"}
                await _replace(store, kept, entry)
        if page.after is None:
            return
        query = query.next(page)


async def _replace(store: Store, record: Item, entry: str) -> None:
    """Replace a record by the one without a note; nothing else changes records."""
    outcome = await store.write(Put(record, Equals("entry", {"S": entry})))
    if not isinstance(outcome, Applied):
        raise OutcomeUnknown(
            f"the note of {entry} may still be in the table, in its record: repeat the call",
            entries=[],
            retryable=True,
        )


async def _erased(places: Copies, found: Found, entry: str) -> int:
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
