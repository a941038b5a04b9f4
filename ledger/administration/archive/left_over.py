"""Entries of segments that no net leads to, if they are nowhere else.

A fold that lost its race leaves such a segment, and so does a process that was killed: its entries
are in another segment, in a net's base, or still in the table. If they are in none of these, a net
was lost, an older one was put back, or the table is not rebuilt yet, or is another one.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from ledger.administration.archive.indexed import ObjectIndex
from ledger.archive import objects
from ledger.archive.access import archived_of
from ledger.archive.objects import Indexed
from ledger.archive.places.copies import Copies
from ledger.archive.reading import ArchiveReader, archived_line
from ledger.archive.segments import Line, of_lines
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.totals.collection import read_net


@dataclass(frozen=True, slots=True)
class Only:
    """An entry that is in no item of the table, nor in the chain that home's net names.

    `is_counted` if it may be in that net's base: the entries of a chain that ended when the archive
    was removed are part of the sum.
    """

    line: Line
    is_counted: bool


async def only_copies(
    home: Store, reader: ArchiveReader, places: Copies, index: ObjectIndex, one: Indexed
) -> AsyncIterator[Only]:
    """Yield the entries of a segment without a net that are nowhere else.

    An entry is looked for in the table, *then* in the net, which has what the table no longer
    shows.

    Raises:
        ArchiveError: the segment, or one that a net names, cannot be read.
        StoreError: the table cannot be read.
    """
    place = index.place(one)
    what = f"segment {one.number:,} of {one.partition!r} in object {index.name}"
    packed = await places.get(index.name, start=place.offset, length=place.length)
    for line in of_lines(objects.lines_of(packed, what), what).lines:
        if await home.get(Get((one.partition, line.id))) is not None:
            continue
        net = await read_net(home, one.partition)
        head = archived_of(net, one.partition)
        if await archived_line(reader, one.partition, head, line.id) is None:
            base = net.until if net is not None and net.archive is None else head.since
            yield Only(line, is_counted=line.id <= base)
