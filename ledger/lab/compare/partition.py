"""Regions that write during a partition: changes, and sales from one stock."""

from functools import partial

from ledger.lab.compare.figures import Partitioned, Sold
from ledger.lab.compare.options import CompareOptions
from ledger.lab.compare.participants import ComparedTable, Participants, share
from ledger.primitives.counters import METHODS
from ledger.runtime.tasks import run_all

STOCK_SHARE = 8
"""The stock is the number of changes divided by this."""
BUYERS_PER_PIECE = 2


async def write_partitioned(
    table: ComparedTable, method: str, options: CompareOptions
) -> Partitioned:
    """Make changes in every region during a partition, without other faults."""
    participants = Participants(table, method, "partition", options.seed)
    await participants.add_first()
    await table.heal()
    await _in_every_region(participants, options.changes // len(table.stores), change=1)
    values = {region: await participants.value(region) - 1 for region in table.stores}
    return Partitioned(participants.answers.applied, values)


async def sell(table: ComparedTable, method: str, options: CompareOptions) -> Sold:
    """Sell to twice as many buyers as there are pieces, in one region, with answers lost."""
    shop, stock = await _open_shop(table, method, "sale", options, lost=options.lost)
    buyers = [shop.client(f"buyer {place}") for place in range(options.writers)]
    await share(buyers, stock * BUYERS_PER_PIECE, _sale(method))
    return Sold(stock, stock * BUYERS_PER_PIECE, shop.answers.applied, shop.answers.unknown)


async def sell_partitioned(table: ComparedTable, method: str, options: CompareOptions) -> Sold:
    """Sell to twice as many buyers as there are pieces, in every region during a partition."""
    shop, stock = await _open_shop(table, method, "sale-partition", options, lost=0.0)
    each = stock * BUYERS_PER_PIECE
    await _in_every_region(shop, each, change=_sale(method))
    return Sold(stock, each * len(table.stores), shop.answers.applied, shop.answers.unknown)


async def _in_every_region(participants: Participants, each: int, *, change: int) -> None:
    """Make changes by one client in each region while all links are cut, then heal them."""
    table = participants.table
    jobs = [
        partial(share, [participants.client("writer", region)], each, change)
        for region in table.stores
    ]
    table.cut()
    try:
        await run_all(jobs, at_once=len(jobs))
    finally:
        await table.heal()


async def _open_shop(
    table: ComparedTable, method: str, name: str, options: CompareOptions, *, lost: float
) -> tuple[Participants, int]:
    """Return buyers, and the size of a stock that every region shows."""
    pieces = max(1, options.changes // STOCK_SHARE)
    limits = {"maximum": pieces} if method == "slots" else {"minimum": 0}
    if not METHODS[method].has_thresholds:
        limits = {}
    shop = Participants(table, method, name, options.seed, lost=lost, limits=limits)
    if method != "slots":  # a set is filled up to its maximum
        await share([shop.client("supplier", is_reliable=True)], pieces)
    await table.heal()
    return shop, pieces


def _sale(method: str) -> int:
    return 1 if method == "slots" else -1
