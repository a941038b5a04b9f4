"""Removing the objects of which no net names a segment: those of folds that lost their race.

A fold is signed within an hour of its object's beginning (`SIGNED_WITHIN`), so segments
that no region's net leads to a day later never will be led to. Their entries are in another
segment, or still in the table. If they are nowhere else, a net was lost, or is not rebuilt yet, or
is in another table, or the archive was removed, which ended their chain: such an object stays.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from ledger.administration.archive.indexed import Chains, ObjectIndex, whole_indexes
from ledger.administration.archive.left_over import only_copies
from ledger.archive.access import archived_of
from ledger.archive.places.copies import Copies
from ledger.archive.reading import ArchiveReader
from ledger.store.port import Store
from ledger.totals.collection import read_net

SWEPT_AGE = timedelta(days=1)


@dataclass(slots=True)
class Swept:
    """The result of a sweep: objects kept, and removed; segments that no net names.

    Of the objects kept, `only_here` have entries that nothing else has.
    """

    kept: int = 0
    removed: int = 0
    left_over: int = 0
    only_here: int = 0


async def sweep(
    stores: Mapping[str, Store], places: Copies, *, home: str, now: datetime, dry_run: bool = False
) -> Swept:
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
    swept, reader = Swept(), ArchiveReader(places)
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
    home: Store, reader: ArchiveReader, places: Copies, index: ObjectIndex
) -> bool:
    """Return whether an object that no net names has an entry that is nowhere else."""
    for segment in index.segments:
        async for _ in only_copies(home, reader, places, index, segment):
            return True
    return False
