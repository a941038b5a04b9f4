"""The archive against the table: each byte, each link, each sum, in each place and each region.

::

    objects       each one in each place: header, checksums, index, digest of each segment
    collections   each region's net: its chain walked to the base, its sums recounted

What no net names is left of folds that lost their race: counted, and no damage.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from ledger.administration.archive.indexed import Chains, ObjectIndex, index_of, names_in
from ledger.archive import objects
from ledger.archive.access import archived_of
from ledger.archive.places.copies import Copies
from ledger.archive.places.port import Place as ArchivePlace
from ledger.archive.reading import ArchiveReader
from ledger.archive.segments import of_lines
from ledger.core.archived import Archived
from ledger.core.errors import ArchiveError, DamagedItem
from ledger.core.ids import EntryId
from ledger.core.values import NetChange
from ledger.store.port import Store
from ledger.totals.collection import read_net


@dataclass(frozen=True, slots=True)
class Wrong:
    """What is not as it should be: of an object of a place, or of a collection in a region."""

    where: str
    text: str


@dataclass(slots=True)
class ArchiveCheck:
    """One check; `on_wrong` is called with each finding, and the counts grow meanwhile."""

    stores: Mapping[str, Store]
    places: Copies
    on_wrong: Callable[[Wrong], None]
    objects: int = 0
    segments: int = 0
    entries: int = 0
    collections: int = 0
    wrong: int = 0
    left_over: int = 0
    _chains: Chains = field(default_factory=Chains)
    _named: set[str] = field(default_factory=set)

    async def run(self, partitions: Iterable[str]) -> None:
        """Check all objects, and the chains of these collections.

        Raises:
            StoreError: a region cannot be read.
        """
        async for name, made in names_in(self.places):
            for place in self.places.places:
                await self._object(place, name, made)
            self.objects += 1
        for partition in partitions:
            await self._collection(partition)
            self.collections += 1
        found = {chain for here in self._chains.found.values() for chain in here}
        self.left_over = len(found - self._named)

    async def _object(self, place: ArchivePlace, name: str, made: EntryId) -> None:
        try:
            index = await index_of(place, name, made)
            data = await place.get(name)
            for segment in index.segments:
                what = f"segment {segment.number:,} of {segment.partition!r}"
                packed = data[segment.offset : segment.offset + segment.length]
                found = of_lines(objects.lines_of(packed, what), what)
                said = (found.partition, found.number, found.chain().hex(), found.previous.hex())
                if said != (segment.partition, segment.number, segment.chain, segment.previous):
                    self._report(f"object {name} in {place.url}", f"{what} is not what it says")
            self._take(index)
        except ArchiveError as error:
            self._report(f"object {name} in {place.url}", str(error))

    def _take(self, index: ObjectIndex) -> None:
        self._chains.add(index)

    async def _collection(self, partition: str) -> None:
        heads: dict[bytes, list[str]] = {}
        nets: dict[bytes, tuple[NetChange, Archived]] = {}
        for region, store in self.stores.items():
            try:
                net = await read_net(store, partition)
                head = archived_of(net, partition)
            except DamagedItem as error:
                self._report(f"{partition!r} in {region}", str(error))
                continue
            if net is not None and net.archive is not None:
                heads.setdefault(head.chain, []).append(region)
                nets[head.chain] = (net, head)
        for chain, regions in heads.items():
            await self._chain(partition, *nets[chain], where=", ".join(regions))

    async def _chain(self, partition: str, net: NetChange, head: Archived, *, where: str) -> None:
        """Walk a chain in each place: an error in one may hide behind the copy in another."""
        for place in self.places.places:
            at = f"{partition!r} in {where}, archive {place.url}"
            reader = ArchiveReader(place)
            count, is_first = head.base_count, True
            try:
                async for segment in reader.walk(partition, head):
                    if is_first and (segment.change, segment.count) != (net.change, net.count):
                        self._report(
                            at,
                            f"the net comes to {net.change} of {net.count:,} entries, the archive"
                            f" to {segment.change} of {segment.count:,}",
                        )
                    is_first = False
                    count += len(segment.lines)
                    self._named.add(segment.chain().hex())
                    self.segments += 1
                    self.entries += len(segment.lines)
            except ArchiveError as error:
                self._report(at, str(error))
                continue
            if count != net.count:
                self._report(at, f"{count:,} entries are archived, the net counts {net.count:,}")

    def _report(self, where: str, text: str) -> None:
        self.wrong += 1
        self.on_wrong(Wrong(where, text))
