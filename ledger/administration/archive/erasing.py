"""Erasing the notes of single entries from the archive; the chain stays whole.

Digests cover a salted hash of each note, so a segment without note and salt has the same digest. It
is written in place of the former one, as long as that, so nothing that points to it changes.
"""

from collections.abc import Sequence

from ledger.administration.archive.indexed import rewritten
from ledger.archive import objects
from ledger.archive.access import archived_of
from ledger.archive.places.copies import Copies
from ledger.archive.reading import ArchiveReader, Found
from ledger.archive.segments import Segment, erased, microseconds, of_lines, to_lines
from ledger.core import ids, keys
from ledger.core.errors import InvalidInput
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.totals.collection import read_net


async def erase_notes(
    store: Store, places: Copies, counter: str, entries: Sequence[str], *, shards: int
) -> int:
    """Erase the notes of these entries of a counter in every place; return how many had one.

    It may be repeated, and is to be after an interruption: then some places may still have them.

    Raises:
        InvalidInput: one is not in the archive, or still in the table, which would archive it
            again; nothing was erased.
        ArchiveError: a place did not do it.
    """
    wanted = {each: await _found(store, places, counter, each, shards) for each in entries}
    count = 0
    for entry, found in wanted.items():
        count += await _erased(places, found, entry)
    return count


async def _found(store: Store, places: Copies, counter: str, entry: str, shards: int) -> Found:
    if ids.parse(entry) is None:
        raise InvalidInput(f"{entry!r} is not the id of an entry of the ledger")
    at, reader = microseconds(entry), ArchiveReader(places)
    for shard in range(shards):
        partition = keys.partition_key(counter, shard)
        if await store.get(Get((partition, entry))) is not None:
            raise InvalidInput(
                f"entry {entry} of {counter!r} is still in the table, with its note: erase it once"
                " it was merged and deleted"
            )
        head = archived_of(await read_net(store, partition), partition)
        for found in await reader.located(partition, head, first=at, last=at):
            segment = await reader.segment(partition, found.pointer)
            if any(line.id == entry for line in segment.lines):
                return found
    raise InvalidInput(f"the archive has no entry {entry} of counter {counter!r}")


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
