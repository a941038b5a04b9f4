"""The merge as it is usually described: one transaction deletes the entries and puts their net.

It is atomic in its own region only. Elsewhere the deletes and the net arrive one by one, in any
order, so that readers there see entries vanish before the net counts them, or see them counted
twice. Benchmarks and tests compare the compactor with this baseline.
"""

from datetime import datetime, timedelta
from decimal import Decimal
from secrets import token_hex

from ledger.core import amounts, ids, keys
from ledger.core.capacity import item_size
from ledger.core.entry import Item, key_of, net_item, net_of, number_of
from ledger.core.values import NetChange
from ledger.runtime.clock import Clock
from ledger.store.conditions import Absent, Equals
from ledger.store.port import Store
from ledger.store.reads import Query
from ledger.store.writes import TRANSACTION_ACTIONS_MAX, Action, Applied, Delete, Put

ENTRIES_MAX = TRANSACTION_ACTIONS_MAX - 1
PAGES_MAX = 1000


async def merge_once(
    home: Store, partition: str, *, settle: float, most: int = ENTRIES_MAX, clock: Clock
) -> int:
    """Merge settled entries of one collection, all in one transaction; return how many."""
    items = await _read(home, partition)
    net = next((net_of(item) for item in items if is_net(item)), None)
    youngest = clock.now() - timedelta(seconds=settle)
    settled = [item for item in items if not is_net(item) and _is_settled(item, youngest)][:most]
    if not settled:
        return 0
    put = Put(
        net_item(_merged(net, settled, home=home.region), partition),
        condition=Equals("version", {"S": net.version}) if net else Absent(),
    )
    deletes: list[Action] = [Delete(key_of(one), size_bytes=item_size(one)) for one in settled]
    outcome = await home.transact([*deletes, put])
    return len(settled) if isinstance(outcome, Applied) else 0


def is_net(item: Item) -> bool:
    """Return whether an item is a net change."""
    return str(item["sk"]["S"]).startswith(keys.NET_PREFIX)


def _merged(net: NetChange | None, entries: list[Item], *, home: str) -> NetChange:
    before = net.change if net else Decimal(0)
    return NetChange(
        change=amounts.total([before, *(number_of(entry, "change") for entry in entries)]),
        count=(net.count if net else 0) + len(entries),
        merged=(),  # no ids needed: the same transaction deletes the entries
        version=token_hex(16),
        until=key_of(entries[-1])[1],
        home=home,
    )


def _is_settled(item: Item, youngest: datetime) -> bool:
    parsed = ids.parse(key_of(item)[1])
    return parsed is not None and parsed.at <= youngest


async def _read(store: Store, partition: str) -> list[Item]:
    items: list[Item] = []
    query = Query(partition)
    for _ in range(PAGES_MAX):
        page = await store.query(query)
        items += page.items
        if page.after is None:
            return items
        query = query.next(page)
    raise AssertionError(f"the query does not end after {PAGES_MAX} pages")
