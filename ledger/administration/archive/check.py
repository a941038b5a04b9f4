"""The archive against the table: each byte, each link, each sum, in each place and each region.

::

    objects       each one in each place: header, checksums, index, digest of each segment
    collections   each region's net: its chain walked to the base, its sums recounted

Segments that no net names are left by folds that lost their race, or by a process killed before its
object was in every place: they are counted, and are no damage. If they have entries that are
nowhere else, a net was lost, or an older one was put back, in all regions; what was folded in a
time that a restore of the table took back is only counted. If a net needs an object
that a place lacks, its chain cannot be walked there. Memory holds one object, a segment for each
region and a number for each collection; indexes are kept only for collections with segments left
over.
"""

from collections import Counter
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Collection,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from ledger.administration.archive.chains import (
    Chains,
    ObjectIndex,
    index_of,
    names_in,
    readable_indexes,
)
from ledger.administration.archive.rebuild import only_copies
from ledger.core import amounts, books, keys
from ledger.core.archive_pointers import ArchiveState
from ledger.core.entry import key_of
from ledger.core.errors import (
    AmountOverflow,
    ArchiveDamaged,
    ArchiveError,
    ArchiveMissing,
    DamagedItem,
)
from ledger.core.ids import EntryId
from ledger.core.values import NetChange
from ledger.reads.archive import objects
from ledger.reads.archive.access import archived_of
from ledger.reads.archive.objects import Indexed
from ledger.reads.archive.places.opening import ReplicatedPlace
from ledger.reads.archive.places.port import Place as ArchivePlace
from ledger.reads.archive.reader import ArchiveReader
from ledger.reads.archive.segments import Segment, of_lines
from ledger.reads.collection import read_net
from ledger.runtime.output import utc_text
from ledger.store.port import Store
from ledger.store.reads import Scan


@dataclass(frozen=True, slots=True)
class ArchiveFault:
    """A problem of an object in a place, or of a collection in a region."""

    where: str
    text: str


@dataclass(frozen=True, slots=True)
class NetsShown:
    """A net with a chain, and the regions that show it."""

    net: NetChange
    head: ArchiveState
    balances: books.Accounts
    regions: list[str]


@dataclass(slots=True)
class ChainWalk:
    """A chain on its way back: the number of the next segment, and the balances that it came to.

    Those are None after a segment whose own cannot be read: the next are not compared.
    """

    shown: NetsShown
    at: str
    segments: AsyncGenerator[Segment, None]
    number: int
    balances: books.Accounts | None


@dataclass(frozen=True, slots=True)
class RestoredCollection:
    """A restore of the table: it took back what was folded after `moment`, up to `until`."""

    moment: datetime
    until: datetime

    def took_back(self, begun: datetime) -> bool:
        """Return whether it did so with a fold of an object that was begun at this time."""
        return self.moment - objects.SIGNED_WITHIN <= begun <= self.until


@dataclass(slots=True)
class ArchiveCheck:
    """One check; `on_wrong` is called with each finding, and the counts grow meanwhile.

    Segments in several places are counted in each of them. `taken_back` are entries that a restore
    of the table took out of it, and that are nowhere else.
    """

    stores: Mapping[str, Store]
    home: str
    places: ReplicatedPlace
    on_wrong: Callable[[ArchiveFault], None]
    restored: Sequence[RestoredCollection] = ()
    objects: int = 0
    segments: int = 0
    entries: int = 0
    collections: int = 0
    wrong: int = 0
    taken_back: int = 0
    _kept: Counter[str] = field(default_factory=Counter)
    _named: Counter[str] = field(default_factory=Counter)
    _only: Collection[str] | None = None

    @property
    def left_over(self) -> int:
        """Segments of the collections checked that no region's net leads to."""
        return (self._kept - self._named).total()

    async def run(self, partitions: Collection[str]) -> None:
        """Check all objects, and the chains of these collections.

        Raises:
            StoreError: a region cannot be read.
        """
        self._only = frozenset(partitions)
        await self._objects()
        for partition in partitions:
            await self._collection(partition)
        await self._left_over()

    async def whole(self, partitions: AsyncIterable[str]) -> None:
        """Check all objects, and the chains of all collections, which come one by one.

        Raises:
            StoreError: a region cannot be read.
        """
        await self._objects()
        async for partition in partitions:
            await self._collection(partition)
        for partition in sorted(self._kept.keys() - self._named.keys()):
            await self._collection(partition)  # which only the archive, or only a region, has
        await self._left_over()

    async def _objects(self) -> None:
        async for name, made in names_in(self.places):
            found = [await self._object(place, name, made) for place in self.places.places]
            chains = {
                (segment.partition, segment.chain)
                for index in found
                if index is not None
                for segment in index.segments
                if self._only is None or segment.partition in self._only
            }
            self._kept.update(partition for partition, _ in chains)
            self.objects += 1

    async def _object(self, place: ArchivePlace, name: str, made: EntryId) -> ObjectIndex | None:
        try:
            index = await index_of(place, name, made)
            data = await place.get(name)
            for segment in index.segments:
                what = f"segment {segment.number:,} of {segment.partition!r}"
                packed = data[segment.offset : segment.offset + segment.length]
                found = of_lines(objects.lines_of(packed, what), what)
                said = (found.partition, found.number, found.chain().hex(), found.previous.hex())
                if said != (segment.partition, segment.number, segment.chain, segment.previous):
                    self._report(f"object {name} in {place.url}", f"{what} is not as indexed")
        except ArchiveMissing:
            return None  # see above
        except ArchiveError as error:
            self._report(f"object {name} in {place.url}", str(error))
            return None
        return index

    async def _collection(self, partition: str) -> None:
        found: dict[bytes, NetsShown] = {}
        for region, store in self.stores.items():
            try:
                net = await read_net(store, partition)
                head, balances = archived_of(net, partition), books.accounts_of(net)
            except DamagedItem as error:
                self._report(f"{partition!r} in {region}", str(error))
                continue
            if net is not None and net.archive is not None:
                shown = found.setdefault(head.chain, NetsShown(net, head, balances, []))
                shown.regions.append(region)
        # In each place: an error in one may hide behind the copy in another.
        named = [await self._chains(partition, found, place) for place in self.places.places]
        self._named[partition] = max(named)
        self.collections += 1

    async def _chains(
        self, partition: str, found: Mapping[bytes, NetsShown], place: ArchivePlace
    ) -> int:
        """Walk the chains of a collection side by side; return how many segments they have.

        A region that is behind shows a chain that is part of the others': where two meet, only one
        continues.
        """
        count, reader = 0, ArchiveReader(ReplicatedPlace([place]))
        async with AsyncExitStack() as stack:
            walks: list[ChainWalk] = []
            for shown in found.values():
                segments = reader.walk(partition, shown.head)
                stack.push_async_callback(segments.aclose)
                at = f"{partition!r} in {', '.join(shown.regions)}, archive {place.url}"
                number = shown.head.number
                walks.append(ChainWalk(shown, at, segments, number, shown.balances))
                if not shown.head.number:
                    self._compare(at, shown.net, shown.head.base_change, shown.head.base_count)
            for number in range(max((walk.number for walk in walks), default=0), 0, -1):
                here: dict[bytes, Segment] = {}
                for walk in [other for other in walks if other.number == number]:
                    segment = await self._step(walk)
                    if segment is None or segment.chain() in here:
                        walk.number = 0  # the walk ends here
                    else:
                        here[segment.chain()] = segment
                        walk.number -= 1
                count += len(here)
                self.segments += len(here)
                self.entries += sum(len(segment.lines) for segment in here.values())
        return count

    async def _step(self, walk: ChainWalk) -> Segment | None:
        """Return the next segment of a chain, its link checked; None if that does not hold."""
        try:
            segment = await anext(walk.segments)
        except ArchiveError as error:
            self._report(walk.at, str(error))
            return None
        if walk.number == walk.shown.head.number:
            self._compare(walk.at, walk.shown.net, segment.change, segment.count)
        self._balance(walk, segment)
        return segment

    def _balance(self, walk: ChainWalk, segment: Segment) -> None:
        """Compare the balances in a segment with those that the later ones began with."""
        later, walk.balances = walk.balances, None
        after = f"after segment {segment.number:,}"
        try:
            if later is not None:
                self._balanced(walk, {after: segment.balances, "what followed": later})
            walk.balances = segment.before_balances
        except (ValueError, AmountOverflow) as error:
            self._report(walk.at, f"the accounts of segment {segment.number:,}: {error}")
            return
        if segment.number == 1 and not segment.base_count:
            self._balanced(walk, {"before all transfers": walk.balances, "must be": {}})

    def _balanced(self, walk: ChainWalk, shown: Mapping[str, books.Accounts]) -> None:
        if unlike := books.unlike(shown):
            self._report(walk.at, f"balances differ: {unlike}")

    def _compare(self, at: str, net: NetChange, change: Decimal, count: int) -> None:
        """Compare a net with its chain's newest segment, or with its base."""
        if (change, count) != (net.change, net.count):
            self._report(
                at,
                f"the net is {net.change} of {net.count:,} entries, the archive to"
                f" {change} of {count:,}",
            )

    async def _left_over(self) -> None:
        """Report the entries of left-over segments that nothing else has.

        The nets are read first: each segment that they name was put before, so its index is found.
        """
        partitions = sorted((self._kept - self._named).keys())
        if not partitions:
            return
        heads = {partition: await self._heads(partition) for partition in partitions}
        chains = Chains()
        async for index in readable_indexes(self.places):
            chains.add(index, only=heads.keys())
        reader = ArchiveReader(self.places)
        for partition in partitions:
            try:
                named: set[str] = set()
                for head in heads[partition]:
                    named |= chains.named_from(partition, head.chain, head.number)
            except ArchiveDamaged:
                continue  # a chain with a gap, which the walk has reported
            for chain, (index, one) in list(chains.found[partition].items()):
                if chain not in named:
                    await self._left(reader, index, one)

    async def _heads(self, partition: str) -> list[ArchiveState]:
        """Return the heads of archives in the nets of all regions; unreadable ones are reported."""
        heads: list[ArchiveState] = []
        for store in self.stores.values():
            with suppress(DamagedItem):
                heads.append(archived_of(await read_net(store, partition), partition))
        return [head for head in heads if head.number]

    async def _left(self, reader: ArchiveReader, index: ObjectIndex, one: Indexed) -> None:
        where = f"{one.partition!r}, object {index.name}"
        count, change, first = 0, Decimal(0), ""
        try:
            async for only in only_copies(self.stores[self.home], reader, self.places, index, one):
                if not only.is_counted:
                    count, first = count + 1, first or only.line.id
                    change = amounts.total_wide([change, only.line.change])
        except (ArchiveError, DamagedItem) as error:
            self._report(where, str(error))
        begun = index.made.at
        if any(restored.took_back(begun) for restored in self.restored):
            self.taken_back += count
        elif count:
            self._report(
                where,
                f"{count:,} entries of segment {one.number:,}, {change} in all, the first {first},"
                f" folded at {utc_text(begun)} or within an hour of it, are neither in the table"
                " nor in a chain that a net names: a net was lost, or an older one put back",
            )

    def _report(self, where: str, text: str) -> None:
        self.wrong += 1
        self.on_wrong(ArchiveFault(where, text))


async def archived_in(store: Store) -> AsyncIterator[str]:
    """Yield the collections of which a region has a net, as they lie in the table."""
    last, scan = "", Scan(attributes=("pk", "sk"))
    while True:
        page = await store.scan(scan)
        for partition, sort_key in map(key_of, page.items):
            if sort_key.startswith(keys.NET_PREFIX) and partition != last:
                last = partition
                yield partition
        if page.after is None:
            return
        scan = scan.next(page)
