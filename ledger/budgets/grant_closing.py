"""Closing grants by their entries, and resolving expired holds, for those who read all regions.

Of a grant whose owner is gone, or knows not of each entry what became of it, the entries say what
was spent. The order is what makes that right (`rights_plan.reclaim`):

1. an answer of the grant's region by which no request that names the grant can land any more;
2. its rights item, strongly consistent;
3. all entries of all shards that may name it, strongly consistent, there and in every other region;
4. one write, on condition of the version read.

A write that comes late, or loses its race, changes nothing; the next call reads and plans again.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from functools import partial

from ledger.budgets.calendar import window_in
from ledger.budgets.control import ControlStore, time_in
from ledger.budgets.credit_rules import is_credit, may_have_twin
from ledger.budgets.fail_open import ENTRIES_MAX, FailOpenCharge, charge_let_through, item_to_charge
from ledger.budgets.hold_rules import HoldResolution, apart_writes, charge_apart, expire
from ledger.budgets.lost_stake import is_minted_again
from ledger.budgets.rights import Grant, GrantName, Holder, Rights, holder_in, write_of
from ledger.budgets.rights_items import read_budget, read_local_rights, read_rights, scanned
from ledger.budgets.rights_plan import GrantGone, TooFewRights, excess_of, is_over, reclaim
from ledger.budgets.rolling_limits import dated
from ledger.budgets.spend_record import (
    SpendRecord,
    agree,
    charge_of,
    charge_unagreed,
    held_of,
    spend_of,
    to_close_unagreed,
)
from ledger.core import keys
from ledger.core.clock_offset import RegionTime
from ledger.core.contract import Terms
from ledger.core.entry import ADJUSTED, GRANT, HELD, HOLD, RESOLVED, Item, Key
from ledger.core.errors import BudgetUndecided, StoreError
from ledger.core.ids import EPOCH, MICROSECOND, SUFFIX_BITS, EntryId, earliest
from ledger.runtime.clock import Clock
from ledger.runtime.tasks import run_requests
from ledger.store.port import Store
from ledger.store.reads import Query, Scan
from ledger.store.writes import Applied

ATTRIBUTES = ("pk", "sk", "change", GRANT, HOLD, RESOLVED, ADJUSTED, HELD)
SPENDS = Scan(attributes=ATTRIBUTES, consistent=True)
"""A scan of what entries say of grants; of other items it reads the keys."""
_ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class RegionViews:
    """All regions of a table, and the terms of its contract in force."""

    stores: Mapping[str, Store]
    terms: Terms
    clock: Clock

    def __post_init__(self) -> None:
        """Let no write be sent while this machine's clock is off."""
        stores = self.stores.items()
        guarded = {region: ControlStore(store, lambda: self.terms) for region, store in stores}
        object.__setattr__(self, "stores", guarded)

    def time(self, region: str) -> RegionTime:
        """Return between which times a region's clock is; to be asked after an answer of it."""
        return time_in(self.stores[region], self.clock, self.terms)

    def is_over(self, grant: Grant, date: int) -> bool:
        """Return whether no request that names a grant can land any more, by its region's date."""
        return is_over(
            grant,
            date,
            signature_lifetime=self.terms.signature_lifetime,
            clock_skew=self.terms.longest("clock_skew"),
        )

    def keeps(self, holder: Holder) -> bool:
        """Return whether a holder is one of a region of the contract, in its epoch."""
        return holder.region in self.stores and not self.terms.is_over(holder.region, holder.epoch)


@dataclass(frozen=True, slots=True)
class Closing:
    """A grant that was closed by its entries, which come to `charged`.

    `excess` is how much that is above the grant: it was used twice. `is_agreed` is false where
    regions still showed its entries differently, and it was closed by what its own region shows.
    """

    name: GrantName
    charged: Decimal
    excess: Decimal
    is_agreed: bool


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """What became of a holder's grants that are over.

    `rights` is the item as it is now; None if another wrote it meanwhile, or that is not known:
    then nothing is known to be closed. `waiting` grants are over and not closed.
    """

    rights: Rights | None
    closings: tuple[Closing, ...] = ()
    waiting: int = 0


async def close_over(regions: RegionViews, counter: str, shown: Rights) -> Reclaimed:
    """Close the grants of a holder that are over, by their entries.

    `shown` is its item as its region answered just now: by that it is found which are over. Where
    regions show the entries of a grant differently it waits, or one region cannot be read; but of
    more than `spends.WAITING_MAX` such the oldest are closed by what their own region shows. Those
    of credits always wait, also while a copy may arrive from a region that is gone.

    Raises:
        DamagedItem: the item, or what an entry says of its grants, cannot be read.
        AmountOverflow: a sum does not fit in 38 digits.
        StoreError: the holder's region cannot be read, or failed.
    """
    region = shown.holder.region
    date = regions.time(region).earliest
    if not any(regions.is_over(grant, date) for grant in shown.grants.values()):
        return Reclaimed(shown)
    store = regions.stores[region]
    rights = await read_local_rights(store, counter, shown.holder)
    if rights is None:
        return Reclaimed(None)
    over = {
        version: grant for version, grant in rights.grants.items() if regions.is_over(grant, date)
    }
    if not over:
        return Reclaimed(rights)
    names = {version: GrantName(rights.holder, version, counter) for version in over}
    seen = await _spends(regions, counter, region, over, frozenset(names.values()))
    arriving = _may_have_twins(regions, region, names, seen)
    agreed = {
        version
        for version in over.keys() - arriving
        if len(seen) == len(regions.stores) and agree(names[version], seen)
    }
    # What was credited would never be free: that waits, however many there are.
    waiting = {version for version in over.keys() - agreed if over[version].amount}
    unagreed = to_close_unagreed(waiting)
    closings: list[Closing] = []
    after = rights
    for version in sorted({*agreed, *unagreed}):
        charge = charge_of if version in agreed else charge_unagreed
        charged = charge(seen[region], names[version])
        excess = excess_of(rights, version, charged)
        held = held_of(seen[region], names[version])
        closed = reclaim(after, version, charged, held=held)
        assert not isinstance(closed, GrantGone)  # noqa: S101 (it is in the item that was read)
        after = replace(closed, version=rights.version)  # all of them in one write
        closings.append(Closing(names[version], charged, excess, version in agreed))
    if not closings:
        return Reclaimed(rights, waiting=len(over))
    after = dated(replace(after, version=rights.version + 1), regions.time(region).most)
    outcome = await store.write(write_of(rights, after, counter))
    if not isinstance(outcome, Applied):
        return Reclaimed(None, waiting=len(over))
    return Reclaimed(after, tuple(closings), len(over) - len(closings))


def _may_have_twins(
    regions: RegionViews,
    region: str,
    names: Mapping[int, GrantName],
    seen: Mapping[str, Sequence[SpendRecord]],
) -> set[int]:
    """Return the grants of credits of which copies may still arrive from a region that is gone."""
    now = regions.time(region).least
    credited = [spend for spends in seen.values() for spend in spends if is_credit(spend)]
    held_up = [spend for spend in credited if may_have_twin(spend.id, regions.terms, now)]
    return {
        version for version, name in names.items() if any(name in spend.grants for spend in held_up)
    }


def is_own_open(regions: RegionViews, region: str, spend: SpendRecord) -> bool:
    """Return whether an entry that a region shows is still open, to be resolved through it."""
    holders = [name.holder for name in spend.grants]
    is_own = all(holder.region == region and regions.keeps(holder) for holder in holders)
    return spend.is_open and is_own


def is_left_open(regions: RegionViews, spend: SpendRecord) -> bool:
    """Return whether an entry that is still open was left by a lost region.

    It is resolved through home, if all regions show it alike: a hold once that region is reclaimed.
    """
    holders = [name.holder for name in spend.grants]
    return spend.is_open and not any(regions.keeps(holder) for holder in holders)


async def resolve_expired(
    regions: RegionViews, key: Key, hold: SpendRecord
) -> HoldResolution | None:
    """Resolve a hold that has expired as its budget's rule says, through its own region or home.

    In one transaction with the rights items of the grants that it names. None if it has not expired
    by that region's clock, another resolved or extended it meanwhile, or that is not known. It was
    read in an answer of the region just now (`is_own_open`, `is_left_open`). What a region held
    that is gone is charged to home's item, once its rights are minted again, by whichever item.

    Raises:
        DamagedItem: a rights item cannot be read.
        AmountOverflow: a sum does not fit in 38 digits.
        StoreError: the region failed.
    """
    place = keys.counter_of(key[0])
    rule = None if place is None else regions.terms.budget_of(place[0])
    if place is None or rule is None:
        return None
    region = regions.terms.home if is_left_open(regions, hold) else hold.grants[0].holder.region
    store = regions.stores[region]
    resolved = expire(hold, regions.time(region).earliest, captures=rule.on_expiry == "settle")
    if resolved is None:
        return None
    items: dict[str, FailOpenCharge] = {}
    for name in hold.grants:
        charged = await _charged_for(regions, store, name.budget or place[0], name.holder, hold.id)
        if charged is None:
            return None
        items[name.budget] = charged
    made = {budget: charged.made for budget, charged in items.items()}
    gone = {name.holder for name in hold.grants if not regions.keeps(name.holder)}
    apart = charge_apart(resolved, made, now=regions.time(region).latest, gone=gone)
    if isinstance(apart, TooFewRights):
        return None
    read = {budget: charged.before for budget, charged in items.items()}
    actions = apart_writes(key, apart, read, place[0])
    return resolved if isinstance(await store.transact(actions), Applied) else None


async def charge_open(regions: RegionViews, spends: Mapping[Key, SpendRecord]) -> int:
    """Charge what was let through, and is not charged yet; return how many entries were.

    Each was read in an answer of its own region just now, or, where that is lost, of home, as all
    regions show it (`is_own_open`, `is_left_open`): through that region it is charged, to the item
    that the region has. Where another wrote an entry or item meanwhile nothing is charged. One of
    which no budget has a limit waits for that until it may be folded, and is charged to none then.

    Raises:
        BudgetUndecided: an item is to be made, and its share is not decided.
        DamagedItem: an item cannot be read whole.
        AmountOverflow: a sum does not fit in 38 digits.
        StoreError: a region failed.
    """
    groups: dict[tuple[str, tuple[GrantName, ...]], dict[Key, SpendRecord]] = {}
    for key, spend in spends.items():
        place = keys.counter_of(key[0])
        if place is not None:
            groups.setdefault((place[0], spend.grants), {})[key] = spend
    done = 0
    for (counter, grants), group in groups.items():
        entries = list(group.items())
        for at in range(0, len(entries), ENTRIES_MAX):
            some = dict(entries[at : at + ENTRIES_MAX])
            done += await _charge_open(regions, counter, grants, some)
    return done


async def _charge_open(
    regions: RegionViews,
    counter: str,
    grants: Sequence[GrantName],
    entries: Mapping[Key, SpendRecord],
) -> int:
    """Charge entries of a counter that name the same; return how many are known to be."""
    terms = regions.terms
    holder = grants[0].holder
    if not regions.keeps(holder):
        holder = holder_in(terms.home, terms)
    store = regions.stores[holder.region]
    items: dict[str, FailOpenCharge] = {}
    for name in grants:
        charged_to = name.budget or counter
        window = window_in(charged_to, terms)
        if window is not None:
            item = await item_to_charge(
                window,
                holder,
                own=partial(read_budget, store),
                limits=partial(read_budget, regions.stores[terms.home]),
            )
            if item is not None:
                items[name.budget] = item
    if not items:
        settled = earliest(regions.clock.now() - timedelta(seconds=terms.settle))
        entries = {key: spend for key, spend in entries.items() if key[1] < settled}
    if not entries:
        return 0
    now = regions.time(holder.region).most
    writes = charge_let_through(entries, items, counter, now=now)
    is_applied = isinstance(await store.transact(writes), Applied)
    return len(entries) if is_applied and items else 0


async def _charged_for(
    regions: RegionViews, store: Store, counter: str, holder: Holder, hold: str
) -> FailOpenCharge | None:
    """Return the item that what a holder paid is charged to; None if it waits for one.

    Of a holder that is gone it is home's, once all that it had is minted again. A region that is
    gone since may have resolved the hold, and charged the difference: it is not charged twice.
    """
    if regions.keeps(holder):
        rights = await read_local_rights(store, counter, holder)
        return None if rights is None else FailOpenCharge(rights, rights)
    shown = await read_rights(store, counter)
    is_charged = any(hold in item.resolved for item in shown.values())
    if is_charged or not is_minted_again(holder, shown, keeps=regions.keeps):
        return None
    window = window_in(counter, regions.terms)
    if window is None:
        return None
    home = holder_in(store.region, regions.terms)
    read = partial(read_budget, store)
    with suppress(BudgetUndecided):
        return await item_to_charge(window, home, own=read, limits=read)
    return None


async def _spends(
    regions: RegionViews,
    counter: str,
    own: str,
    over: Mapping[int, Grant],
    names: Collection[GrantName],
) -> Mapping[str, Sequence[SpendRecord]]:
    """Return what each region that can be read shows of the entries that name grants.

    Each name is whole, with its budget: one without is of the counter of the entry.

    Raises:
        StoreError: the grants' own region cannot be read.
    """
    ends: dict[str, int] = {}
    for grant in over.values():
        named = grant.counter or counter
        ends[named] = max(grant.expires, ends.get(named, 0))

    async def read(region: str) -> list[SpendRecord] | None:
        store = regions.stores[region]
        try:
            return [
                spend
                for named in sorted(ends)
                for spend in await _read(store, named, ends[named], regions.terms)
                if any(name in names for name in spend.grants)
            ]
        except StoreError:
            if region == own:
                raise
            return None

    found = await run_requests(
        [partial(read, region) for region in regions.stores], at_once=len(regions.stores)
    )
    return {
        region: spends
        for region, spends in zip(regions.stores, found, strict=True)
        if spends is not None
    }


async def _read(store: Store, counter: str, expires: int, terms: Terms) -> list[SpendRecord]:
    """Return the spends of a counter under grants that expire by then, with whole names.

    However old: how old an entry could be when it was sent is said by the terms of then, and what
    is old and not merged is little. An id may be ahead of the clock by which it is made, and that
    may be set back by twice the skew before it is sent.
    """
    last = EPOCH + timedelta(seconds=expires + 3 * terms.longest("clock_skew"))
    bound = str(EntryId((last - EPOCH) // MICROSECOND, 2**SUFFIX_BITS - 1))
    found: list[SpendRecord] = []
    for shard in range(terms.shards_read(counter)):
        query = Query(keys.partition_key(counter, shard), last=bound, attributes=ATTRIBUTES)
        while True:
            page = await store.query(query)
            shown = filter(None, map(spend_of, page.items))
            found += [spend.named_in(counter) for spend in shown]
            if page.after is None:
                break
            query = query.next(page)
    return found


async def all_spends(store: Store) -> AsyncIterator[SpendRecord]:
    """Yield what all entries of a region say of grants, strongly consistent, with whole names.

    Raises:
        DamagedItem: what an entry says of its grants cannot be read.
        StoreError: the region cannot be read.
    """
    async for item in scanned(store, SPENDS):
        spend = spend_in(item)
        if spend is not None:
            yield spend


def spend_in(item: Item) -> SpendRecord | None:
    """Return what an entry says of grants, with whole names; None if an item is none that does.

    Raises:
        DamagedItem: it cannot be read.
    """
    place = keys.counter_of(item["pk"]["S"])
    spend = None if place is None else spend_of(item)
    return None if place is None or spend is None else spend.named_in(place[0])
