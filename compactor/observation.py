"""Observing a collection: the home region's net first, then the collection in every region.

Of a long collection a visit reads only what it can use: home is read, oldest entries first, up to
the settled entries that one fold takes, the other regions equally far, and then their nets. The
rest is left to later visits, as long as **every region is read up to the newest id that the net
names**: an id that was not looked for would be assumed deleted, and count twice.
"""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Self, TypeVar

from compactor.merge_plan import MergeRules, Observation, older_than
from compactor.net_reader import NetReader
from ledger.budgets import spend_record
from ledger.budgets.rights_items import read_view
from ledger.core import ids, keys, once
from ledger.core.entry import Key
from ledger.core.errors import DamagedItem, RegionUnreadable, StoreError
from ledger.core.fold import ATTRIBUTES, DATED, LEGS, Collection, named_by
from ledger.core.item_checks import check_said
from ledger.core.values import NetChange
from ledger.primitives.leases.lease_rules import lease_key
from ledger.reads.collection import query_nets, read_net
from ledger.runtime.clock import Clock
from ledger.runtime.tasks import run_requests
from ledger.settings import Settings
from ledger.store.port import Store
from ledger.store.reads import EACH_GETS_MAX, Get, Query

Result = TypeVar("Result")
PAGES_WHOLE_MAX = 8
"""Pages of a megabyte of one region that a visit reads if it keeps entries whole, with notes."""


@dataclass(frozen=True, slots=True)
class ReadExtent:
    """How far a visit reads, and what of each entry; by default all entries, without dates.

    It reads up to the sort key `settled`, or `entries_max` entries of ours, and always up to the
    newest id that the net names. `waiting` are entries that it has to read past: they wait for
    grants. With `with_dates` it reads the effective dates of entries, with `with_items` whole
    entries, as they are archived, and with `with_rights` then also what each region shows of the
    budgets that entries at home name.
    """

    settled: str | None = None
    entries_max: int | None = None
    waiting: int = 0
    with_dates: bool = False
    with_items: bool = False
    with_rights: bool = False

    @classmethod
    def of(cls, rules: MergeRules, partition: str, *, now: datetime) -> Self:
        """Return what a visit of a collection by these rules has to read."""
        return cls(
            older_than(rules.settle, now=now),
            rules.fold_max + 1,
            with_dates=rules.needs_dates(partition),
            with_items=rules.needs_items(partition),
            with_rights=rules.has_budget(partition),
        )

    def past(self, waiting: int) -> Self:
        """Return one that reads past so many entries, and as many again if they go on."""
        entries_max = None if self.entries_max is None else self.entries_max + 2 * waiting
        return replace(self, waiting=waiting, entries_max=entries_max)


EVERYTHING = ReadExtent()


@dataclass(frozen=True, slots=True)
class View:
    """A collection as one region shows it.

    It holds every entry up to the sort key `upto`, and perhaps more; None if it holds them all.
    """

    collection: Collection
    upto: str | None = None
    pages: int = 0


@dataclass(frozen=True, slots=True)
class CollectionViews:
    """An observation: when it began, and when it was complete (monotonic).

    The views hold every entry up to the sort key `upto`; None if they hold them all. `is_cut` is
    whether one of them was left before its end.
    """

    observation: Observation
    at: float
    began: datetime
    upto: str | None = None
    is_cut: bool = False


async def observe(
    stores: Mapping[str, Store],
    partition: str,
    *,
    home: str,
    clock: Clock,
    extent: ReadExtent = EVERYTHING,
    nets: NetReader | None = None,
) -> CollectionViews:
    """Read the net in the home region, then the collection in every region, all consistent.

    It reads as far as `extent` says. Of entries that a call makes once their records are looked
    for. `nets` reads the net at home together with others', if nets are of one generation.

    Raises:
        RegionUnreadable: one of them cannot be read.
        DamagedItem: an item in one of them cannot be counted, a net is of another generation, or
            what is wanted of an entry, or a rights item says of grants, cannot be read.
    """
    began = clock.now()
    if nets is None:
        net = await _readable(home, read_net(stores[home], partition))
    else:
        net = await nets.read(partition)
    named = len(net.merged) if net else 0
    own = await _read_view(
        stores[home],
        partition,
        extent,
        upto=_enough(net, extent.settled),
        least=_enough(net, ""),
        entries_max=None if extent.entries_max is None else extent.entries_max + named,
    )
    upto = own.upto if own.upto is not None else _enough(net, extent.settled)
    others = [region for region in stores if region != home]
    reads = [partial(_read_view, stores[region], partition, extent, upto=upto) for region in others]
    views = dict(zip(others, await run_requests(reads, at_once=len(stores)), strict=True))
    collections = {
        region: own.collection if region == home else views[region].collection for region in stores
    }
    if nets is not None:
        _check_generation(collections, partition, nets.generation)
    rights = await _rights(stores, partition, own.collection) if extent.with_rights else {}
    if rights and extent.settled is not None and own.upto is not None:
        waiting = _waiting(own.collection, rights, extent.settled)
        if waiting > extent.waiting and own.pages < PAGES_WHOLE_MAX:
            # Open holds, or grants of a lost region: what comes after them is merged all the same.
            further = extent.past(waiting)
            return await observe(
                stores, partition, home=home, clock=clock, extent=further, nets=nets
            )
    recorded = await _recorded(stores, partition, own.collection, net)
    seen = Observation(partition, net, collections, rights, recorded)
    is_cut = any(view.upto is not None for view in (own, *views.values()))
    return CollectionViews(seen, clock.monotonic(), began, upto, is_cut)


async def _recorded(
    stores: Mapping[str, Store], partition: str, home: Collection, net: NetChange | None
) -> Mapping[str, frozenset[str]]:
    """Return the entries at home, to be merged, whose records each region shows now."""
    named = frozenset(named_by(net)) if home.records else ()
    records = {key: record for key, record in (home.records or {}).items() if key not in named}
    if not records:
        return {}
    reads = [partial(_shows, store, partition, records) for store in stores.values()]
    return dict(zip(stores, await run_requests(reads, at_once=len(reads)), strict=True))


async def _shows(store: Store, partition: str, records: Mapping[str, Key]) -> frozenset[str]:
    """Return the entries whose records a region shows, each where it belongs."""
    wanted, shown = list(records.items()), set[str]()
    for start in range(0, len(wanted), EACH_GETS_MAX):
        part = wanted[start : start + EACH_GETS_MAX]
        gets = [Get(record) for _, record in part]
        found = await _readable(store.region, store.get_each(gets))
        shown |= {
            key
            for (key, _), record in zip(part, found.items, strict=True)
            if once.leads_to(record, (partition, key))
        }
    return frozenset(shown)


async def _rights(
    stores: Mapping[str, Store], partition: str, home: Collection
) -> Mapping[str, spend_record.View]:
    """Return what each region shows now of the budgets whose grants entries at home name."""
    shown = filter(None, map(spend_record.spend_of, (home.items or {}).values()))
    budgets = {name.budget for spend in shown for name in spend.grants}
    place = keys.counter_of(partition)
    if not budgets or place is None:
        return {}
    reads = [
        partial(_readable, store.region, read_view(store, place[0], budgets))
        for store in stores.values()
    ]
    return dict(zip(stores, await run_requests(reads, at_once=len(reads)), strict=True))


def _waiting(home: Collection, rights: Mapping[str, spend_record.View], settled: str) -> int:
    """Return how many settled entries wait for a grant to be closed, or for a hold's end."""
    found = (
        spend_record.spend_of(item) for key, item in (home.items or {}).items() if key < settled
    )
    return sum(spend is not None and not spend_record.may_fold(spend, rights) for spend in found)


async def observe_nets(
    readers: Mapping[str, NetReader], partition: str
) -> Mapping[str, NetChange | None]:
    """Return the net in every region, read consistent, if need be now.

    Raises:
        RegionUnreadable: one of them cannot be read.
        DamagedItem: a net cannot be read whole.
    """
    if all(reader.knows(partition) for reader in readers.values()):
        return {region: await reader.read(partition) for region, reader in readers.items()}
    reads = [partial(reader.read, partition) for reader in readers.values()]
    return dict(zip(readers, await run_requests(reads, at_once=len(reads)), strict=True))


async def check_readable(stores: Mapping[str, Store], *, settings: Settings) -> None:
    """Read one item beside home in each region: a pass without a visit has read nothing there.

    Raises:
        RegionUnreadable: one of them cannot be read.
    """
    asked = Get(lease_key(lease_name(settings)), consistent=True)

    async def read(store: Store) -> None:
        await _readable(store.region, store.get(asked))

    reads = [partial(read, store) for region, store in stores.items() if region != settings.home]
    await run_requests(reads, at_once=len(stores))


def _check_generation(views: Mapping[str, Collection], partition: str, generation: int) -> None:
    """Refuse a net that no home of this table wrote: it would supersede all others.

    Raises:
        DamagedItem: there is one.
    """
    for region, view in views.items():
        if view.net is not None and view.net.generation != generation:
            raise DamagedItem(
                f"collection {partition!r} in {region} has a net of generation"
                f" {view.net.generation}, and the table's contract is of {generation}"
            )


def _enough(net: NetChange | None, upto: str | None) -> str | None:
    """Return the later of a sort key and the newest id that the net names; None for everything."""
    if upto is None or net is None or not net.merged:
        return upto
    return max(upto, str(net.merged[-1]))


def lease_name(settings: Settings) -> str:
    """Return the name of the compactor's lease: each home has its own, and each generation.

    Written through two regions, one item would keep only the later write: a late heartbeat of the
    old home would take the lease away from the new one.
    """
    name = f"{settings.compactor.name}@{settings.home}"
    generation = settings.terms.generation
    return name if generation == 1 else f"{name}#{generation}"


async def _read_view(
    store: Store,
    partition: str,
    extent: ReadExtent = EVERYTHING,
    *,
    upto: str | None = None,
    least: str | None = None,
    entries_max: int | None = None,
) -> View:
    """Read page after page up to a sort key, or `entries_max` and `least`; then net and sums."""
    with_dates, with_items = extent.with_dates, extent.with_items
    collection = Collection(
        partition=partition,
        with_dates=with_dates,
        with_items=with_items,
        with_records=True,
        with_legs=True,
    )
    attributes = (*(DATED if with_dates else ATTRIBUTES), *once.NAMED_IN, LEGS)
    query = Query(partition, attributes=() if with_items else attributes)
    entries = pages = 0
    while True:
        page = await _readable(store.region, store.query(query))
        pages += 1
        check_said(page.items, partition, with_items=with_items, with_dates=with_dates)
        collection.add(page.items)
        if page.after is None:
            return View(collection)
        query, last = query.next(page), page.after[1]
        is_full = False
        if entries_max is not None and least is not None:
            entries += len(ids.ours([item["sk"]["S"] for item in page.items]))
            is_long = entries >= entries_max or (with_items and pages >= PAGES_WHOLE_MAX)
            is_full = is_long and last >= least
        is_far = upto is not None and last >= upto
        if (is_full or is_far) and last < keys.NET_PREFIX:
            collection.add(
                await _readable(store.region, query_nets(store, partition, with_sums=True))
            )
            return View(collection, last, pages)


async def _readable(region: str, read: Awaitable[Result]) -> Result:
    try:
        return await read
    except StoreError as error:
        raise RegionUnreadable(region, error) from error
