"""Reading the rights items of a budget, as one region shows them."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field

from ledger.core import keys
from ledger.core.entry import Item
from ledger.limits.rights import (
    RIGHTS_PREFIX,
    Account,
    Rights,
    is_rights,
    key_of,
    partition_of,
    rights_of,
)
from ledger.limits.spends import View
from ledger.limits.windows import LIMIT_PREFIX, Limit, limit_of, newest_of
from ledger.store.port import Store
from ledger.store.reads import Get, Query, Scan

EVENTUALLY = Scan()
"""A scan of whole items, each as the region showed it lately."""
_LAST = f"{RIGHTS_PREFIX}\U0010ffff"


@dataclass(frozen=True, slots=True)
class Shown:
    """A budget's control items as one region showed them; `limit` is of the newest generation."""

    items: Mapping[Account, Rights] = field(default_factory=dict)
    limit: Limit | None = None

    def of(self, account: Account) -> Rights:
        """Return the item of an account; version 0 if there is none."""
        return self.items.get(account) or Rights(account)


def _as_read(rights: Rights) -> Rights:
    return rights


async def read_budget(
    store: Store, counter: str, as_of_now: Callable[[Rights], Rights] = _as_read
) -> Shown:
    """Return all that a region shows of a budget, strongly consistent.

    Raises:
        DamagedItem: an item cannot be read whole.
        StoreError: the region cannot be read.
    """
    items: dict[Account, Rights] = {}
    limits: list[Limit] = []
    query = Query(partition_of(counter))
    while True:
        page = await store.query(query)
        for item in page.items:
            sort_key = item["sk"]["S"]
            if is_rights(sort_key):
                rights = as_of_now(rights_of(item))
                items[rights.account] = rights
            elif sort_key.startswith(LIMIT_PREFIX):
                limits.append(limit_of(item))
        if page.after is None:
            return Shown(items, newest_of(limits))
        query = query.next(page)


async def read_rights(store: Store, counter: str) -> dict[Account, Rights]:
    """Return the rights items of a counter's budget, strongly consistent, by account.

    Raises:
        DamagedItem: one of them cannot be read whole.
        StoreError: the region cannot be read.
    """
    query = Query(partition_of(counter), first=RIGHTS_PREFIX, last=_LAST)
    found: dict[Account, Rights] = {}
    while True:
        page = await store.query(query)
        found |= {rights.account: rights for rights in map(rights_of, page.items)}
        if page.after is None:
            return found
        query = query.next(page)


async def scanned(store: Store, scan: Scan = EVENTUALLY) -> AsyncIterator[Item]:
    """Yield all items of the table, by default eventually consistent: each is read and charged.

    Raises:
        StoreError: the region cannot be read.
    """
    while True:
        page = await store.scan(scan)
        for item in page.items:
            yield item
        if page.after is None:
            return
        scan = scan.next(page)


def check_control(item: Item) -> None:
    """Read a control item of a budget, as each reader of the budget does.

    Raises:
        DamagedItem: it cannot be read whole.
    """
    sort_key = item["sk"]["S"]
    if is_rights(sort_key):
        rights_of(item)
    elif sort_key.startswith(LIMIT_PREFIX):
        limit_of(item)


def budget_of(item: Item) -> str | None:
    """Return the counter of the budget that an item controls; None if it is none of a budget."""
    partition = item["pk"]["S"]
    is_budgets = partition.startswith(keys.BUDGET_PREFIX)
    return partition.removeprefix(keys.BUDGET_PREFIX) if is_budgets else None


async def read_own(store: Store, counter: str, account: Account) -> Rights | None:
    """Return one rights item, strongly consistent; None if there is none.

    Raises:
        DamagedItem: it cannot be read whole.
        StoreError: the region cannot be read.
    """
    item = await store.get(Get(key_of(counter, account)))
    return None if item is None else rights_of(item)


async def read_view(store: Store, counter: str, budgets: Iterable[str]) -> View:
    """Return what a region shows of budgets that entries of a counter name, "" is its own.

    Raises:
        DamagedItem, StoreError: as `read_rights`.
    """
    shown: Mapping[str, dict[Account, Rights]] = {
        budget: await read_rights(store, budget or counter) for budget in sorted(budgets)
    }
    return {
        (budget, account): rights
        for budget, items in shown.items()
        for account, rights in items.items()
    }
