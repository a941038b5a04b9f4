"""Budgets of a table that was restored to a point in time: what was spent is counted anew.

A restore takes items as one region showed them then, and items replicate one by one: beside a
rights item there may be entries, and transfers, that are newer::

    entries of eu-west-1's grant 7 ── shown        its rights item ── shown as of version 5
    home has taken 5 of eu-west-1 ── shown         eu-west-1 has sent 5 ── not shown

What is spent under grants that the item does not know is charged to it, what others have taken it
has sent, and it goes on behind the last version that anything names: so no new grant has the name
of one that was used. Done twice it changes nothing; on a table at work neither, since an item is
never older than what its own region shows of it.

To be done before anybody spends, closes or merges: each write of an item is a version more.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial

from ledger.core import amounts
from ledger.core.contract import Terms
from ledger.core.errors import BudgetUndecided, StateConflict
from ledger.limits.reading import read_own, read_rights
from ledger.limits.reclaiming import Regions, all_spends
from ledger.limits.rights import NO_GRANT, Account, GrantName, Rights, condition_of, rights_item
from ledger.limits.rolling import dated
from ledger.limits.spends import Spend
from ledger.runtime.tasks import run_requests
from ledger.store.port import Store
from ledger.store.writes import Applied, Put

_ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class Recounted:
    """What was charged to an account, and how much it has sent that it did not show."""

    charged: Decimal
    sent: Decimal


@dataclass(frozen=True, slots=True)
class Named:
    """What a region shows of an account beside its item: entries of its grants, and takers."""

    spends: tuple[Spend, ...]
    taken: Mapping[Account, Decimal]


def recount(rights: Rights, named: Named, budget: str, now: float) -> Rights | None:
    """Return an item that knows all that names it; None if it does already.

    Raises:
        AmountOverflow: a sum does not fit in 38 digits.
    """
    missing: dict[str, Decimal] = {}
    last = rights.version
    for spend in named.spends:
        versions = _versions(spend, rights.account, budget)
        last = max(last, *versions)
        if max(versions) > rights.version and not _is_open(rights, spend, budget):
            missing[spend.id] = spend.amount
    sent = {
        taker: max(amount, rights.sent.get(taker, _ZERO)) for taker, amount in named.taken.items()
    }
    after = replace(
        rights,
        charged=amounts.total((rights.charged, *missing.values())),
        sent={**rights.sent, **{taker: amount for taker, amount in sent.items() if amount}},
    )
    if after == rights and last == rights.version:
        return None
    return dated(replace(after, version=last + 1), now)


def _versions(spend: Spend, account: Account, budget: str) -> list[int]:
    """Return the versions of an account's item that an entry names; 0 for none."""
    names = (*spend.grants, *spend.adjusted)
    found = [name.version for name in names if (name.budget, name.account) == (budget, account)]
    return [NO_GRANT, *found]


def _is_open(rights: Rights, spend: Spend, budget: str) -> bool:
    """Return whether an entry is of a grant that the item has open: it is closed by its entries."""
    return any(
        (name.budget, name.account) == (budget, rights.account) and name.version in rights.grants
        for name in spend.grants
    )


async def named_newer(
    regions: Regions, versions: Mapping[str, Mapping[Account, int]]
) -> list[Spend]:
    """Return the entries that name a later version of a rights item than that of `versions`.

    By counter and account; an item that is not there has none. Each region's table is read whole.

    Raises:
        DamagedItem: what an entry says of its grants cannot be read.
        StoreError: a region cannot be read.
    """
    reads = [partial(_scan, store, regions.terms, versions) for store in regions.stores.values()]
    found = await run_requests(reads, at_once=len(reads))
    return list({(spend.id, spend.grants): spend for part in found for spend in part}.values())


async def _scan(
    store: Store, terms: Terms, versions: Mapping[str, Mapping[Account, int]]
) -> list[Spend]:
    def is_newer(name: GrantName) -> bool:
        account = name.account
        return (
            name.budget in versions
            and name.version > versions[name.budget].get(account, 0)
            and not terms.is_over(account.region, account.epoch)
        )

    return [
        spend
        async for spend in all_spends(store)
        if any(map(is_newer, (*spend.grants, *spend.adjusted)))
    ]


async def recount_budget(
    regions: Regions,
    counter: str,
    spends: Iterable[Spend],
    made: Mapping[Account, Rights | None],
) -> Mapping[Account, Recounted]:
    """Count a budget, or a window of it, anew in each region's item; return what was changed.

    `spends` are `named_newer`; `made` is what an account that has no item would make, None while a
    step of the limit that decides it is only announced.

    Raises:
        BudgetUndecided: such an account has spent, or others have taken of it.
        StateConflict: an item was written meanwhile: nobody may spend yet.
        AmountOverflow: a sum does not fit in 38 digits.
        DamagedItem: a rights item cannot be read.
        StoreError: a region cannot be read or written; run it again.
    """
    home = regions.stores[regions.terms.home]
    shown = await read_rights(home, counter)
    taken: dict[Account, dict[Account, Decimal]] = {}
    for taker, item in shown.items():
        for giver, amount in item.taken.items():
            taken.setdefault(giver, {})[taker] = amount
    own: list[Spend] = []
    named: set[Account] = set()
    for spend in spends:
        accounts = {n.account for n in (*spend.grants, *spend.adjusted) if n.budget == counter}
        if accounts:
            own.append(spend)
            named |= accounts
    found: dict[Account, Recounted] = {}
    for account in sorted(made.keys() | shown.keys() | taken.keys() | named):
        if not regions.keeps(account):
            continue
        store = regions.stores[account.region]
        before = await read_own(store, counter, account)
        first = made.get(account, Rights(account))
        base = before or first or Rights(account)
        shows = Named(tuple(own), taken.get(account, {}))
        after = recount(base, shows, counter, regions.now())
        if after is None:
            continue
        if before is None and first is None:
            raise BudgetUndecided(
                f"{account} has spent or given of {counter!r}, and its share is said by a step of"
                " the limit that is only announced: `ledger budget confirm`, then run this again"
            )
        put = Put(rights_item(after, counter), condition_of(before or Rights(account)))
        if not isinstance(await store.write(put), Applied):
            raise StateConflict(
                f"{account} of budget {counter!r} was written meanwhile: nobody may spend before"
                " all is counted; run this again"
            )
        found[account] = _difference(base, after)
    return found


def _difference(before: Rights, after: Rights) -> Recounted:
    charged = amounts.total_wide((after.charged, before.charged.copy_negate()))
    sent = (*after.sent.values(), *(amount.copy_negate() for amount in before.sent.values()))
    return Recounted(charged, amounts.total_wide(sent))
