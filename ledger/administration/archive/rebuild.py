"""A table's collections rebuilt from the archive alone.

Every entry in the archive was in every region when it was archived, so each is real, even if its
fold lost the race. Of each collection the longest chain becomes the net: among those that begin
last, if the archive was removed and begun again, because their base has what was before. Entries in
segments outside of it become entries again, and are merged later. Reversals and counts get
their records. What was never archived is not restored: the youngest entries, those of counters that
are not merged, what pipelines add, and the records of imports.

Each net is put on condition that there is none, so an interrupted run is continued by another. No
compactor may run meanwhile: it would merge entries that were put before their net.

Entries of segments that no net leads to, if they are nowhere else.

A fold that lost its race leaves such a segment, and so does a process that was killed: its entries
are in another segment, in a net's base, or still in the table. If they are in none of these, a net
was lost, an older one was put back, or the table is not rebuilt yet, or is another one.
"""

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from random import Random

from ledger.administration.archive.chains import Chains, ObjectIndex, whole_indexes
from ledger.core import archive_pointers, books, keys, once, periods
from ledger.core.archive_pointers import ArchiveState, PointerPlace
from ledger.core.entry import net_item
from ledger.core.errors import ArchiveDamaged, OutcomeUnknown, StateConflict
from ledger.core.ids import EntryIds
from ledger.core.periods import rule_of
from ledger.core.values import NetChange
from ledger.reads.archive import objects
from ledger.reads.archive.access import archived_of
from ledger.reads.archive.objects import Indexed
from ledger.reads.archive.places.opening import ReplicatedPlace
from ledger.reads.archive.reader import ArchiveReader, archived_line
from ledger.reads.archive.segments import Line, Segment, head_with, item_of, of_lines
from ledger.reads.collection import read_net
from ledger.settings import Settings
from ledger.store.conditions import Absent
from ledger.store.port import Store
from ledger.store.reads import Get, Query
from ledger.store.writes import Applied, Put, Rejected, Unknown

VERSION_BITS = 128


@dataclass(slots=True)
class RebuildResult:
    """The progress of a rebuild; `there` were in the table already."""

    collections: int = 0
    there: int = 0
    entries: int = 0
    unmerged: int = 0


@dataclass(slots=True)
class Rebuild:
    """One run, through the home region's store of a table without these collections."""

    store: Store
    places: ReplicatedPlace
    settings: Settings
    now: datetime
    randomness: Random
    on_collection: Callable[[RebuildResult], None] = lambda _done: None

    async def run(self) -> RebuildResult:
        """Rebuild every collection of the archive that the table does not have.

        Raises:
            StateConflict: a collection has other items already: this is not an empty table.
            ArchiveError: an object cannot be read, or is damaged.
            StoreError, OutcomeUnknown: DynamoDB could not do it; repeat the call.
        """
        chains, done = Chains(), RebuildResult()
        async for index in whole_indexes(self.places):
            chains.add(index)
        for partition in sorted(chains.found):
            await self._collection(partition, chains, done)
            self.on_collection(done)
        return done

    async def _collection(self, partition: str, chains: Chains, done: RebuildResult) -> None:
        head = await self._head(partition, chains)
        named = chains.named_from(partition, head.chain(), head.number)
        if await self._is_there(partition, named):
            done.there += 1
            return
        path = [await self._segment(partition, chains, chain) for chain in named]
        path.sort(key=lambda each: each[0].number)
        others = [
            (await self._segment(partition, chains, chain))[0]
            for chain in chains.found[partition]
            if chain not in named
        ]
        left = _left(others, path)
        if await self._has_others(partition, {line.id for line in left}):
            raise self._taken(partition)
        for line in left:
            await self._put(Put(item_of(line, partition), Absent()))
        for segment in [*others, *(each for each, _ in path)]:
            for line in segment.lines:
                item = item_of(line, partition)
                if once.record_key(item) is not None:
                    await self._put(Put(once.record_of(item), Absent()))
        if not await self._put(Put(net_item(self._net(partition, path), partition), Absent())):
            if not await self._is_there(partition, named):  # another run put and deleted it
                raise self._taken(partition)
            done.there += 1
            return
        done.collections += 1
        done.entries += sum(len(segment.lines) for segment, _ in path)
        done.unmerged += len(left)

    async def _is_there(self, partition: str, named: Collection[str]) -> bool:
        """Return whether a collection has a net already, of this chain.

        Raises:
            StateConflict: it has the net of another chain.
        """
        there = await read_net(self.store, partition)
        if there is None:
            return False
        if archived_of(there, partition).chain.hex() not in named:
            raise self._taken(partition)
        return True

    def _taken(self, partition: str) -> StateConflict:
        return StateConflict(
            f"table {self.settings.table} has other items of collection {partition!r}: a table is"
            " rebuilt only without them, while no compactor and no writer runs. If a"
            " compactor merged what an interrupted rebuild had put: stop it, delete the items of"
            " this collection, which are in the archive, and repeat the rebuild"
        )

    async def _has_others(self, partition: str, own: set[str]) -> bool:
        """Return whether a collection shows more than what an interrupted run may have put."""
        query = Query(partition, attributes=("sk",))
        while True:
            page = await self.store.query(query)
            if any(item["sk"]["S"] not in own for item in page.items):
                return True
            if page.after is None:
                return False
            query = query.next(page)

    async def _head(self, partition: str, chains: Chains) -> Segment:
        """Return the last segment of the chain that begins last, and of those of the longest."""
        ends = [
            (await self._segment(partition, chains, one.chain))[0]
            for _, one in chains.heads(partition)
        ]
        return max(ends, key=lambda each: (each.base_count, each.number))

    async def _segment(
        self, partition: str, chains: Chains, chain: str
    ) -> tuple[Segment, PointerPlace]:
        index, one = chains.found[partition][chain]
        place = index.place(one)
        what = f"segment {one.number:,} of {partition!r} in object {index.name}"
        packed = await self.places.get(index.name, start=place.offset, length=place.length)
        segment = of_lines(objects.lines_of(packed, what), what)
        if segment.chain().hex() != chain:
            raise ArchiveDamaged(f"{what} is not the one in the index")
        return segment, place

    def _net(self, partition: str, path: list[tuple[Segment, PointerPlace]]) -> NetChange:
        first = path[0][0]
        head: ArchiveState = replace(
            archive_pointers.BEGUN,
            since=first.since,
            base_count=first.base_count,
            base_change=first.base_change,
        )
        until = first.since
        for segment, place in path:
            head = head_with(head, segment, place, settled=0)
            until = max(until, segment.lines[-1].id)
        last = path[-1][0]
        return NetChange(
            change=last.change,
            count=last.count,
            merged=EntryIds(),
            version=f"{self.randomness.getrandbits(VERSION_BITS):032x}",
            until=until,
            home=self.store.region,
            generation=self.settings.terms.generation,
            periods=self._periods(partition, first, path),
            archive=archive_pointers.to_bytes(head),
            accounts=_accounts(path),
        )

    def _periods(
        self, partition: str, first: Segment, path: list[tuple[Segment, PointerPlace]]
    ) -> str | None:
        place = keys.counter_of(partition)
        rule = rule_of(self.settings.terms.periods, place[0]) if place else None
        if rule is None:
            return None
        begun = periods.begun(rule, None, count=first.base_count, until=first.since)
        changes = [
            (line.id, line.effective, line.change) for segment, _ in path for line in segment.lines
        ]
        return periods.to_text(begun.folded(changes, rule, self.now))

    async def _put(self, put: Put) -> bool:
        """Put an item unless there is one; return whether it was put.

        Raises:
            OutcomeUnknown: no answer.
        """
        match await self.store.write(put):
            case Applied():
                return True
            case Rejected():
                return False
            case Unknown():
                raise OutcomeUnknown(
                    f"no answer for {put.key}: it may be in the table or not; repeat the rebuild",
                    entries=[],
                    retryable=True,
                )


def _accounts(path: Sequence[tuple[Segment, PointerPlace]]) -> bytes | None:
    """Return the balances of a book's transfers, from the base and the lines; None of no book."""
    if path[-1][0].accounts is None:
        return None
    balances = books.AccountSums()
    balances.add(path[0][0].before_balances)
    for segment, _ in path:
        for line in segment.lines:
            balances.move(line.legs)
    return books.packed(balances.accounts())


def _left(others: Iterable[Segment], path: Sequence[tuple[Segment, PointerPlace]]) -> list[Line]:
    """Return the entries that are only in other segments, and not in the base."""
    base, counted = path[0][0], {line.id for segment, _ in path for line in segment.lines}
    left: dict[str, Line] = {}
    for segment in others:
        # A chain that was ended, by removing the archive, is in the base of the next one.
        if (segment.since, segment.base_count) != (base.since, base.base_count):
            continue
        left |= {line.id: line for line in segment.lines if line.id not in counted}
    return [left[entry] for entry in sorted(left)]


@dataclass(frozen=True, slots=True)
class OrphanEntries:
    """An entry that is in no item of the table, nor in the chain that home's net names.

    `is_counted` if it may be in that net's base: the entries of a chain that ended when the archive
    was removed are part of the sum.
    """

    line: Line
    is_counted: bool


async def only_copies(
    home: Store, reader: ArchiveReader, places: ReplicatedPlace, index: ObjectIndex, one: Indexed
) -> AsyncIterator[OrphanEntries]:
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
            yield OrphanEntries(line, is_counted=line.id <= base)
