"""Reading one collection: ascending pages of a Query up to the net, which sorts after all entries.

A read is wrong if an entry that it saw early is merged, deleted everywhere and dropped from the
net's `merged` before the net is read::

    reader      page 1: entry e ..................... last page: net without e in `merged`
    compactor        net with e | delay | delete e | delay | net without e

Two delays separate the two nets, so a read that takes less than one (`read_deadline` <
`observation_delay`) cannot span both; a read that took longer starts again. A machine can be
suspended between two pages, so its time is the larger of monotonic and wall time (`ElapsedTime`).

Which entries count is known only when the net has been read, so their sort keys are kept until
then. If a collection has more than `read_keys_max` of them, the net is also read before the last
page, and only the sum of the entries that it does not name is kept::

    reader      page | page | net at version v | page | page | ... | last page: net at version v

With `terms` a net of a generation that the table's contract does not have is refused: readers use
only the highest, so anyone who may put items under a counter could raise or lower its total by one.

If the last page shows another version, that sum is useless and the read starts again. At most one
fold happens during one read (`read_deadline` < `observation_delay`), so the restarts end.

What pipelines add (`ledger.core.sums`) sorts after the net, so one Query ends with it. Merging does
not touch it and each of its items is complete by itself, so it does not matter when in a read it is
seen: it counts what had reached the region then.

With `cache.incremental` the sum of the entries before a border in time is kept from read to read,
as long as the net does not change; see `ledger.settings.groups.CacheSettings`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from ledger.core import keys
from ledger.core.contract import Terms
from ledger.core.entry import Item
from ledger.core.errors import DamagedItem, ReadTooSlow
from ledger.core.fold import (
    ATTRIBUTES,
    DATED,
    LEGS,
    Collection,
    Portions,
    Subtotal,
    collect,
    stamp_of,
)
from ledger.core.transfers import are_shared
from ledger.core.values import NetChange
from ledger.runtime.clock import ElapsedTime
from ledger.runtime.tasks import in_portions
from ledger.settings import Settings
from ledger.settings.groups import READ_KEYS_MAX
from ledger.settings.live import LiveSettings
from ledger.store.port import Store
from ledger.store.reads import Page, Query

RESTARTS_MAX = 10
TRANSFERS_PORTION, SHARED_WEIGHT = 100, 10
"""Items of a book that are read at once, in some ten milliseconds; one that transfers share counts
as so many."""


@dataclass(frozen=True, slots=True)
class Base:
    """The sum of every entry below a sort key, valid as long as the net does not change."""

    border: str
    below: Subtotal


class CollectionRead(NamedTuple):
    """A whole collection read within `read_deadline`, and what the read took.

    `base` is where a later read can continue, if a border was given. (A tuple, because one is made
    for every read, in half the time.)
    """

    collection: Collection
    pages: int
    restarts: int = 0
    base: Base | None = None


class ReadBounds(NamedTuple):
    """How many seconds a read may take, and how many sort keys it keeps.

    `terms` are those of the contract under which it reads, valid as long as its requests; with None
    it takes a net of any generation. (A tuple, as `CollectionRead`.)
    """

    deadline: float
    keys_max: int = READ_KEYS_MAX
    terms: Terms | None = None

    @classmethod
    def of(cls, settings: Settings, *, keys_max: int | None = None) -> Self:
        """Return the bounds by these settings, or with another `keys_max`."""
        return cls(settings.read_deadline, keys_max or settings.read_keys_max, settings.terms)

    def has_legs(self, partition: str) -> bool:
        """Return whether a collection is of a book."""
        if self.terms is None or not self.terms.books:
            return False
        place = keys.counter_of(partition)
        return place is not None and self.terms.is_book(place[0])


async def read_collection(
    store: Store,
    partition: str,
    elapsed: ElapsedTime,
    bounds: ReadBounds,
    *,
    consistent: bool,
    base: Base | None = None,
    border: str | None = None,
    with_dates: bool = False,
) -> CollectionRead:
    """Return a whole collection, restarting when a read was too slow or the net changed meanwhile.

    Of a book, by the terms of `bounds`, it has the legs of transfers, too. The read is timed from
    the last look at `elapsed`, which is before it begins.

    Raises:
        ReadTooSlow: every read took too long, or met a net that changed.
        DamagedItem: an item cannot be counted, or the net does not belong to this table.
    """
    for restarts in range(RESTARTS_MAX + 1):
        progress = ReadProgress(
            partition,
            keys_max=bounds.keys_max,
            base=base,
            border=border,
            with_dates=with_dates,
            with_legs=bounds.has_legs(partition),
        )
        read = await _read_once(store, progress, elapsed, bounds.deadline, consistent=consistent)
        if read is not None:
            check_generation(read.collection.net, partition, store.region, bounds.terms)
            return read._replace(restarts=restarts) if restarts else read
        base = None
    raise ReadTooSlow(
        f"collection {partition!r} in {store.region}: {RESTARTS_MAX + 1} reads in a row took longer"
        f" than read_deadline ({bounds.deadline:g} s) or met a net that changed; merge the"
        " collection, or raise read_deadline and observation_delay together"
    )


async def read_net(
    store: Store, partition: str, *, consistent: bool = True, terms: Terms | None = None
) -> NetChange | None:
    """Return a collection's net change, the one of the highest generation.

    Raises:
        DamagedItem: it cannot be read whole, or, with `terms`, its generation is beyond theirs.
    """
    net = collect(await query_nets(store, partition, consistent=consistent)).net
    check_generation(net, partition, store.region, terms)
    return net


async def read_known_net(store: Store, partition: str, settings: LiveSettings) -> NetChange | None:
    """Return a collection's net change, outside of the validity of a view of the contract.

    A net of a generation beyond the view's is judged after the contract is read again, if due.

    Raises:
        ContractStale: the contract cannot be read.
        DamagedItem: as `read_net`.
    """
    net = await read_net(store, partition)
    if net is not None and net.generation > settings.current.terms.generation_max:
        await settings.renew()
    check_generation(net, partition, store.region, settings.current.terms)
    return net


def check_generation(
    net: NetChange | None, partition: str, region: str, terms: Terms | None
) -> None:
    """Refuse a net of a generation that the table's contract neither has nor is about to have.

    Raises:
        DamagedItem: no home of the table wrote it.
    """
    if terms is None or net is None or net.generation <= terms.generation_max:
        return
    raise DamagedItem(
        f"item {keys.net_sort_key(net.generation)!r} of counter {partition!r} in {region} is"
        f" damaged: a net change of generation {net.generation}, and the table's contract is of"
        f" {terms.generation_max}: none of its homes wrote it (deploy/runbooks/net-forged.md)"
    )


async def query_nets(
    store: Store, partition: str, *, consistent: bool = True, with_sums: bool = False
) -> list[Item]:
    """Return the net changes of a collection, one for each generation that still exists.

    With `with_sums` also the items that sort after them.
    """
    last = None if with_sums else keys.net_sort_key(keys.GENERATION_MAX)
    query = Query(partition, consistent=consistent, first=keys.NET_PREFIX, last=last)
    nets: list[Item] = []
    while True:  # nearly always one page: of nets of 400 KB two fill it
        page = await store.query(query)
        nets += page.items
        if page.after is None:
            return nets
        query = query.next(page)


async def _read_once(
    store: Store,
    progress: "ReadProgress",
    elapsed: ElapsedTime,
    read_deadline: float,
    *,
    consistent: bool,
) -> CollectionRead | None:
    """Return the collection from every page; None if that took too long or the net changed.

    The read is timed from the last look at `elapsed`, a moment before it begins.
    """
    started = elapsed.last
    query = Query(
        progress.partition,
        consistent=consistent,
        first=progress.first,
        attributes=progress.attributes,
    )
    while True:
        page = await store.query(query)
        if elapsed.seconds() - started > read_deadline:
            return None
        await in_portions(progress.take(page))
        if page.after is None:
            return await in_portions(progress.end())
        query = query.next(page)
        del page  # before the next wait, so that two pages are never held, nor scanned as garbage
        if progress.is_full:
            if not progress.knows_net:
                progress.expect(await read_net(store, progress.partition, consistent=consistent))
            if not await in_portions(progress.condense()):
                return None


def _portions_of(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    start = weight = 0
    for place, item in enumerate(items, start=1):
        weight += SHARED_WEIGHT if are_shared(item) else 1
        if weight >= TRANSFERS_PORTION:
            yield items[start:place]
            start, weight = place, 0
    if start < len(items):
        yield items[start:]


class ReadProgress:
    """The state of one read of a collection; it does no I/O.

    The read begins at `first`, the border of `base`, whose sum stands for all entries before it.
    Beyond `keys_max` the sort keys are condensed, page by page, to a sum for the expected net.
    """

    def __init__(
        self,
        partition: str,
        *,
        keys_max: int,
        base: Base | None = None,
        border: str | None = None,
        with_dates: bool = False,
        with_legs: bool = False,
    ) -> None:
        self.attributes = (
            *(DATED if with_dates else ATTRIBUTES),
            *((LEGS,) if with_legs else ()),
        )
        self.partition = partition
        self.first = base.border if base else None
        # Clocks may step back, but a sum cannot be divided again.
        self._border = max(border, base.border) if border and base else border
        self._keys_max = keys_max
        below = base.below if base else None
        self._collection = Collection(
            partition=partition, below=below, with_dates=with_dates, with_legs=with_legs
        )
        self._base: Base | None = None
        self._pages = 0
        self._last = ""
        self._expected: NetChange | None = None
        self.knows_net = False

    def take(self, page: Page) -> Portions[None]:
        """Add the next page; of a book, whose items may have a hundred legs each, in portions.

        Raises:
            DamagedItem: an item cannot be counted.
        """
        portions = [page.items]
        if self._collection.legs is not None:
            portions = list(_portions_of(page.items))
        for place, portion in enumerate(portions):
            if place:
                yield
            self._collection.add(portion)
        self._pages += 1
        if page.items:
            self._last = page.items[-1]["sk"]["S"]

    @property
    def is_full(self) -> bool:
        """Whether more than `keys_max` sort keys are kept."""
        return self._collection.kept > self._keys_max

    def expect(self, net: NetChange | None) -> None:
        """Set the net that the last page will hold, unless it changes meanwhile."""
        self._expected = net
        self.knows_net = True
        self._pages += 1

    def condense(self) -> Portions[bool]:
        """Replace the sort keys by a sum; return False if the base belongs to another net."""
        below = self._collection.below
        if below is not None and below.stamp != stamp_of(self._expected):
            return False
        if self._border is not None and self._last >= self._border:
            yield from self._keep_base(self._border, self._expected)
        yield from self._collection.condense(self._expected)
        return True

    def end(self) -> Portions[CollectionRead | None]:
        """Return the collection; None if a sum belongs to another net than the last page's."""
        if not self._collection.is_sound:
            return None
        if self._border is not None:
            yield from self._keep_base(self._border, self._collection.net)
        return CollectionRead(self._collection, self._pages, base=self._base)

    def _keep_base(self, border: str, net: NetChange | None) -> Portions[None]:
        if self._base is None:
            below = yield from self._collection.condense(net, upto=border)
            self._base = Base(border, below)
