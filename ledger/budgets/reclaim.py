"""Reclaiming what a lost region had of a budget, through those that remain (`lost_stake`).

::

    removed from the replicas ── contract in force ── a day ──> cut off in each remaining item
        ──> every region shows that ──> what is at stake ──> minted again in home's item, once

An operator's decision, never automatic. Each step may be repeated, by anybody.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from functools import partial

from ledger.budgets import credit_rules
from ledger.budgets.calendar import window_in
from ledger.budgets.grant_closing import RegionViews, all_spends
from ledger.budgets.lost_stake import (
    LostStake,
    arrived_seconds,
    check_resolved_alike,
    cut_off_all,
    debt_of,
    holders_of,
    is_reclaimed,
    mint_again,
    named_by,
    newest,
    stake_of,
)
from ledger.budgets.rights import Holder, Rights, condition_of, holder_in, rights_item, write_of
from ledger.budgets.rights_items import read_local_rights, read_rights
from ledger.budgets.rights_plan import create
from ledger.budgets.rolling_limits import dated, has_returned, roll_forward
from ledger.budgets.spend_record import SpendRecord
from ledger.core.contract import NO_HOME, Terms
from ledger.core.errors import ContractChangeRefused, InvalidInput
from ledger.runtime.tasks import run_requests
from ledger.store.port import Store
from ledger.store.writes import Applied, Put

TRIES_MAX = 8
"""How often an item is read and written again that its region writes at the same time."""
Shown = Mapping[str, Mapping[Holder, Rights]]
"""What each region shows of a budget."""
Spends = Mapping[str, Sequence[SpendRecord]]
"""Entries of grants by holders that are over, by the budget that the grants are of."""


@dataclass(frozen=True, slots=True)
class Reclaim:
    """What was at stake in a lost holder, and what was minted again for it."""

    stake: LostStake
    amount: Decimal


async def stakes_of(
    regions: RegionViews,
    lost: str,
    counter: str,
    *,
    spends: Spends | None = None,
    shares: Mapping[Holder, Decimal] | None = None,
) -> Mapping[Holder, LostStake]:
    """Return what is at stake in each holder of a lost region that was not reclaimed yet.

    It is also the most that the region may have acknowledged and that will never be seen. Nothing
    is written. `spends` are `lost_spends`, by default of now; `shares` are those of a window whose
    item a lost holder may have made, unseen.

    Raises:
        InvalidInput, ContractChangeRefused: as `check_lost`.
        DamagedItem: a rights item, or what an entry says of its grants, cannot be read.
        StoreError: a region cannot be read.
    """
    await check_lost(regions, lost)
    found = (await lost_spends(regions) if spends is None else spends).get(counter, ())
    shown = await _shown(regions, counter)
    holders = _lost_holders(regions, [lost], shown, shares or {}, holders_of(found, counter))
    return _stakes(regions, counter, holders, _as_cut(regions, holders, shown), found)


async def reclaim_lost(
    regions: RegionViews,
    lost: str,
    counter: str,
    *,
    most: Decimal | None = None,
    spends: Spends | None = None,
    shares: Mapping[Holder, Decimal] | None = None,
) -> Mapping[Holder, Reclaim]:
    """Mint again what a lost region had, in home's item, and return it by holder; once.

    At most `most` in each holder: an operator who owes what was acknowledged there reclaims less.
    Home's item is made, with its share, if it has none: in whichever item there is, two calls of
    which one stands still, or is late, would each mint in another. `spends` are `lost_spends`, read
    once the region's day had passed, by default now; `shares` are those of a window: of lost
    holders that may have made an item unseen, and of home.

    Raises:
        InvalidInput, ContractChangeRefused: as `check_lost`; or another region that is gone spent
            more than it had, and is to be reclaimed first; or a hold is resolved in some regions
            alone; or not every region shows yet that the lost one is cut off, and what it wrote
            last: run it again.
        DamagedItem: a rights item, or what an entry says of its grants, cannot be read.
        AmountOverflow: a sum does not fit in 38 digits.
        StoreError: a region cannot be read or written; run it again.
    """
    await check_lost(regions, lost)
    entries = (await lost_spends(regions) if spends is None else spends).get(counter, ())
    named = holders_of(entries, counter)
    shown = await _shown(regions, counter)
    holders = _lost_holders(regions, [lost], shown, shares or {}, named)
    if not holders:
        return {}
    check_resolved_alike(holders, entries, counter)
    if credit := credit_rules.unagreed(holders, entries, counter, regions=len(regions.stores)):
        raise ContractChangeRefused(
            f"credit {credit} of budget {counter!r} is not shown alike by every region:"
            " `compactor run --once --search` brings what has arrived to all, then run this again"
        )
    own = _own(regions, shown)
    home = holder_in(regions.terms.home, regions.terms)
    if home not in {item.holder for item in own}:
        own.append(await _made_at_home(regions, counter, shares))
    for item in own:
        await _change(regions, counter, item.holder, partial(cut_off_all, holders=holders))
    shown = await _shown(regions, counter)
    again = await _put_again(regions, counter, holders, shown)
    _check_cut(shown, own, holders, counter)
    if again:
        raise ContractChangeRefused(
            f"not every region shows the last of {again[0]} of budget {counter!r} yet, which is"
            " written again: run this again"
        )
    found = _stakes(regions, counter, holders, shown, entries)
    gone = _lost_holders(regions, frozenset(regions.terms.lost), shown, shares or {}, named)
    others = {holder: item for holder, item in gone.items() if holder not in holders}
    debt = debt_of(_stakes(regions, counter, others, _as_cut(regions, others, shown), entries))
    minted = {}
    for holder, stake in sorted(found.items(), key=lambda pair: pair[1].amount):
        if debt is not None and stake.amount > 0:
            raise ContractChangeRefused(
                f"{debt[0]} of budget {counter!r} spent {debt[1]} more than it had, which others"
                f" had sent it: `ledger budget reclaim --lost {debt[0].region}` first"
            )
        amount = stake.amount if most is None else min(stake.amount, most)
        plan = partial(mint_again, lost=holder, amount=amount, passed_on=stake.passed_on)
        if await _change(regions, counter, home, plan):
            minted[holder] = Reclaim(stake, amount)
    return minted


async def is_all_reclaimed(
    regions: RegionViews, counter: str, spends: Spends, shares: Mapping[Holder, Decimal] | None
) -> bool:
    """Return whether every holder that anything names, of regions that are gone, was reclaimed.

    Raises:
        DamagedItem: a rights item cannot be read.
        StoreError: a region cannot be read.
    """
    shown = await _shown(regions, counter)
    named = holders_of(spends.get(counter, ()), counter)
    holders = _lost_holders(regions, frozenset(regions.terms.lost), shown, shares or {}, named)
    everything = [item for items in shown.values() for item in items.values()]
    return all(is_reclaimed(everything, holder) for holder in holders)


async def _put_again(
    regions: RegionViews, counter: str, holders: Iterable[Holder], shown: Shown
) -> list[Holder]:
    """Write lost items through home as the newest that a region shows, where another shows less.

    What the lost region wrote last may have reached some alone, and nothing sends it to the others:
    they would show other limits for good, and were this home lost, too, the next would go by less
    than it had minted for. A day after the loss nothing of it can come in between.

    Raises:
        StoreError: home cannot be written.
    """
    home, again = regions.terms.home, list[Holder]()
    for holder in holders:
        items = [items.get(holder, Rights(holder)) for items in shown.values()]
        last = newest(holder, items)
        if all(item.version == last.version for item in items):
            continue
        as_read = condition_of(shown[home].get(holder, Rights(holder)))
        await regions.stores[home].write(Put(rights_item(last, counter), as_read))
        again.append(holder)
    return again


async def check_lost(regions: RegionViews, lost: str) -> None:
    """Check that nothing of a lost region is on its way any more, and nothing writes to it.

    One that was added again since is a new replica, with holders of a later epoch: before it was
    given up no region listed it any more (`compactor.home_takeover.check_removed`).

    Raises:
        InvalidInput: the contract knows no such region.
        ContractChangeRefused: with what is missing.
        StoreError: a region cannot be asked.
    """
    terms = regions.terms
    if lost not in {*terms.lost, *terms.regions}:
        raise InvalidInput(
            f"{lost} is not a region of the table that was lost or taken out: the contract names"
            f" {', '.join(sorted({*terms.lost})) or 'none'}"
        )
    if terms.home == NO_HOME or lost not in terms.lost:
        raise ContractChangeRefused(
            f"the table's contract in force must name {lost} as lost or taken out before its rights"
            f" are reclaimed: `compactor take-home HOME --lost {lost}` if it is lost"
        )
    if terms.given_up_at is None:
        raise ContractChangeRefused(f"the contract does not say when {lost} was given up")
    until = terms.given_up_at + timedelta(seconds=arrived_seconds(terms))
    if regions.time(terms.home).least <= until.timestamp():
        raise ContractChangeRefused(
            f"what {lost} wrote may arrive for a day after it was given up, or taken out, which was"
            f" at {terms.given_up_at.isoformat()}: reclaim after that"
        )
    if lost in terms.regions:
        return
    for store in regions.stores.values():
        if lost in (await store.replicas() or {}):
            raise ContractChangeRefused(
                f"{store.region} still lists {lost} among the table's replicas: remove it first"
            )


async def _shown(regions: RegionViews, counter: str) -> Shown:
    reads = [partial(read_rights, store, counter) for store in regions.stores.values()]
    found = await run_requests(reads, at_once=len(reads))
    return dict(zip(regions.stores, found, strict=True))


def _lost_holders(
    regions: RegionViews,
    lost: Collection[str],
    shown: Shown,
    shares: Mapping[Holder, Decimal],
    named: Iterable[Holder],
) -> dict[Holder, Rights]:
    """Return the newest item shown of each holder of lost regions, also of those shown nowhere.

    Such a holder is known by what was sent to it or taken from it, by the limit, which names it
    with its share, or is `named` by entries of its grants.
    """
    items = [item for there in shown.values() for item in there.values()]
    known = {*named, *shares, *named_by(items)}
    return {
        holder: roll_forward(
            newest(
                holder,
                (item for item in items if item.holder == holder),
                share=shares.get(holder, Decimal(0)),
            ),
            regions.time(regions.terms.home),
            margin=regions.terms.rolling_margin,
        )
        for holder in sorted(known)
        if holder.region in lost and regions.terms.is_over(holder.region, holder.epoch)
    }


def _as_cut(regions: RegionViews, holders: Collection[Holder], shown: Shown) -> Shown:
    """Return what regions show, with each item that remains as it will be cut off."""
    return {
        region: {
            holder: cut_off_all(item, holders) or item if regions.keeps(holder) else item
            for holder, item in items.items()
        }
        for region, items in shown.items()
    }


def _own(regions: RegionViews, shown: Shown) -> list[Rights]:
    """Return the items of holders that remain, each as its own region shows it."""
    return [
        item
        for region, items in shown.items()
        for holder, item in items.items()
        if holder.region == region and regions.keeps(holder)
    ]


def _check_cut(
    shown: Shown, own: Iterable[Rights], lost: Mapping[Holder, Rights], counter: str
) -> None:
    """Check that every region shows of each item that remains that it has cut lost holders off.

    Raises:
        ContractChangeRefused: one does not, yet.
    """
    for region, items in shown.items():
        for item in own:
            there = items.get(item.holder)
            if there is None or not lost.keys() <= there.cut.keys():
                raise ContractChangeRefused(
                    f"{region} does not show yet that {item.holder} has cut {min(lost).region} off"
                    f" from budget {counter!r}: run this again"
                )


async def _made_at_home(
    regions: RegionViews, counter: str, shares: Mapping[Holder, Decimal] | None
) -> Rights:
    """Make home's item of a budget that only others had rights of.

    Of a rolling limit its buckets are those of the contract: a holder that was lost before it
    made an item shows none.

    Raises:
        ContractChangeRefused: home's share is not decided yet, or another made the item meanwhile,
            or that is not known.
        StoreError: home cannot be written.
    """
    home = holder_in(regions.terms.home, regions.terms)
    share = Decimal(0) if shares is None else shares.get(home)
    if share is None:
        raise ContractChangeRefused(
            f"home's share of budget {counter!r} is not decided yet: run this again once the limit"
            " that is announced is in force (`ledger budget confirm`) or, where there is none, made"
            " (`ledger budget create`)"
        )
    window = window_in(counter, regions.terms)
    made = create(home, share, bucket=0 if window is None else window.bucket)
    write = write_of(Rights(home), made, counter)
    if not isinstance(await regions.stores[home.region].write(write), Applied):
        raise ContractChangeRefused(f"{home} of budget {counter!r} is being made: run this again")
    return made


async def _change(
    regions: RegionViews, counter: str, holder: Holder, plan: Callable[[Rights], Rights | None]
) -> bool:
    """Change an item through its region; return whether it had to be changed.

    Raises:
        ContractChangeRefused: others write it at the same time.
        StoreError: the region failed, or it is not known whether it is written.
    """
    store = regions.stores[holder.region]
    for _ in range(TRIES_MAX):
        before = await read_local_rights(store, counter, holder)
        after = None if before is None else plan(before)
        if before is None or after is None:
            return False
        after = dated(after, regions.time(holder.region).most)
        if isinstance(await store.write(write_of(before, after, counter)), Applied):
            return True
    raise ContractChangeRefused(
        f"{holder} of budget {counter!r} was written by others {TRIES_MAX} times: run this again"
    )


def _stakes(
    regions: RegionViews,
    counter: str,
    holders: Mapping[Holder, Rights],
    shown: Shown,
    spends: Iterable[SpendRecord],
) -> Mapping[Holder, LostStake]:
    """Return the stakes of those holders for which nothing was minted yet."""
    everything = [item for items in shown.values() for item in items.values()]
    return {
        holder: stake_of(
            base,
            _others(regions, holder, shown),
            _counting(regions, base, spends),
            budget=counter,
        )
        for holder, base in holders.items()
        if not is_reclaimed(everything, holder)
    }


def _counting(
    regions: RegionViews, base: Rights, spends: Iterable[SpendRecord]
) -> list[SpendRecord]:
    """Return the entries that still count: of a rolling limit those that have not come back."""
    margin, now = regions.terms.rolling_margin, regions.time(regions.terms.home).least
    return [spend for spend in spends if not has_returned(base, spend.id, now, margin=margin)]


def _others(regions: RegionViews, lost: Holder, shown: Shown) -> list[Rights]:
    """Return the items with which a lost holder's rights are compared.

    Each that remains, as its own region has it. Of those that are over the newest shown if it had
    cut the holder off.

    Raises:
        ContractChangeRefused: one was made since it was looked who is to cut the holder off.
    """
    everything = [item for items in shown.values() for item in items.values()]
    others = []
    for holder in sorted({item.holder for item in everything} - {lost}):
        if regions.keeps(holder):
            own = shown[holder.region].get(holder)
            if own is None or lost not in own.cut:
                raise ContractChangeRefused(f"{holder}'s item was made meanwhile: run this again")
            others.append(own)
            continue
        item = newest(holder, (rights for rights in everything if rights.holder == holder))
        if lost in item.cut:
            others.append(item)
    return others


async def lost_spends(regions: RegionViews) -> Spends:
    """Return all entries that any region shows of grants by holders that are over, by budget.

    Every region's table is read whole: which counters' entries a grant of several limits paid for
    is said by the grant, and its item may not have arrived. What is read a day after a region was
    given up stays enough: no entry is added, and one that is folded later is charged.

    Raises:
        DamagedItem: what an entry says of its grants cannot be read.
        StoreError: a region cannot be read.
    """
    reads = [partial(_scan, store, regions.terms) for store in regions.stores.values()]
    found: dict[str, list[SpendRecord]] = {}
    for spends in await run_requests(reads, at_once=len(reads)):
        for budget, spend in spends:
            found.setdefault(budget, []).append(spend)
    return found


async def _scan(store: Store, terms: Terms) -> list[tuple[str, SpendRecord]]:
    """Return the entries that one region shows, each with every budget that it names so."""
    found: list[tuple[str, SpendRecord]] = []
    async for spend in all_spends(store):
        holders = ((name.budget, name.holder) for name in spend.grants)
        over = {budget for budget, holder in holders if terms.is_over(holder.region, holder.epoch)}
        found += [(budget, spend) for budget in sorted(over)]
    return found
