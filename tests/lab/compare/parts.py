"""The parts of a comparison: what is done with one method, on a local table or on the model."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from lab.compare.figures import (
    AFTER_MANY,
    AFTER_ONE,
    DAYS_LATER,
    ELSEWHERE,
    MANY,
    MINUTES_LATER,
    Alone,
    Counted,
    Partitioned,
    Point,
    Repeat,
    Sold,
)
from lab.compare.options import CompareOptions
from lab.compare.participants import Client, ComparedTable, Participants, requests_of, share, spent
from lab.compare.ways import COMPARED
from lab.harness.model import Model
from ledger.core.errors import RetryHorizonPassed
from ledger.runtime.tasks import run_all
from ledger.store.writes import Applied, Rejected, Unknown

ALONE_CHANGES = 10
CONTENTION_SECONDS = 1.0
CHANGES_MAX = 10_000
"""Bound on the changes of one client under contention."""
STOCK_SHARE = 8
"""The stock is the number of changes divided by this."""
BUYERS_PER_PIECE = 2
_WAIT_SECONDS = {MINUTES_LATER: 11 * 60.0, DAYS_LATER: 8 * 86_400.0}
_OTHERS = {AFTER_ONE: 1, AFTER_MANY: MANY}


async def count(table: ComparedTable, method: str, options: CompareOptions) -> Counted:
    """Make all changes at home by concurrent clients, and compare what is kept."""
    async with Participants(
        table, method, "count", options.seed, lost=options.lost
    ) as participants:
        await participants.add_first()
        before, clients = spent(table), participants.clients(options.writers)
        await share(clients, options.changes)
    taken, answers = spent(table, before), participants.answers
    return Counted(
        changes=options.changes,
        lost=options.lost,
        applied=answers.counts[Applied],
        unknown=answers.counts[Unknown],
        rejected=answers.counts[Rejected],
        refused=answers.counts[None],
        value=await participants.value() - 1,
        requests=requests_of(clients) + int(taken.retries),
        write_units=taken.write_units,
        read_units=taken.read_units,
        p50_milliseconds=1e3 * answers.latencies.p50,
        p99_milliseconds=1e3 * answers.latencies.p99,
    )


async def count_alone(table: ComparedTable, method: str, options: CompareOptions) -> Alone:
    """Return what a change costs without faults and without other clients."""
    async with Participants(table, method, "alone", options.seed) as participants:
        client = participants.client("writer")
        await client.add(1)  # the first one may have to create its items
        before = spent(table)
        for _ in range(ALONE_CHANGES):
            await client.add(1)
        taken = spent(table, before)
    return Alone(taken.write_units / ALONE_CHANGES, taken.read_units / ALONE_CHANGES)


async def contend(
    table: ComparedTable, method: str, writers: int, options: CompareOptions
) -> Point:
    """Add for a while with many clients, each as fast as it is answered."""
    async with Participants(table, method, f"contention-{writers}", options.seed) as participants:
        await participants.add_first()
        before, clients = spent(table), participants.clients(writers)
        deadline = table.clock.monotonic() + CONTENTION_SECONDS
        jobs = [partial(_add_until, client, deadline) for client in clients]
        useful = sum(await run_all(jobs, at_once=writers))
    answers = participants.answers
    requests = requests_of(clients) + spent(table, before).retries
    calls, applied = answers.counts.total(), answers.counts[Applied]
    repeated = max(0.0, 1 - calls / requests) if requests else 0.0
    failed = 1 - applied / calls
    return Point(writers, useful / CONTENTION_SECONDS, repeated, failed)


async def _add_until(client: Client, deadline: float) -> int:
    """Add until the deadline; return how many changes were applied by then."""
    useful = 0
    for _ in range(CHANGES_MAX):
        if client.clock.monotonic() >= deadline:
            break
        if await client.add(1) and client.clock.monotonic() <= deadline:
            useful += 1
    return useful


async def repeat(model: Model, method: str, moment: str, options: CompareOptions) -> Repeat:
    """Make a change twice under the same token, and return how often it counts."""
    name = f"repeat-{moment.replace(' ', '-')}"
    async with Participants(model, method, name, options.seed) as participants:
        return await _repeat(participants, model, moment)


async def _repeat(participants: Participants, model: Model, moment: str) -> Repeat:
    first, others = participants.client("first"), _OTHERS.get(moment, 0)
    token = first.token()
    await first.add(1, token)
    if others:
        await share([participants.client("other")], others)
    if moment in _WAIT_SECONDS:
        await model.clock.sleep(_WAIT_SECONDS[moment])
        model.expire()
    where = participants.home
    if moment == ELSEWHERE:
        await model.heal()
        where = list(model.stores)[1]
    refused = False
    try:
        await participants.client("again", where).add(1, token)
    except RetryHorizonPassed:
        refused = True
    await model.heal()
    return Repeat(await participants.value() - others, refused)


async def write_partitioned(
    table: ComparedTable, method: str, options: CompareOptions
) -> Partitioned:
    """Make changes in every region during a partition, without other faults."""
    async with Participants(table, method, "partition", options.seed) as participants:
        await participants.add_first()
        await table.heal()
        await _in_every_region(participants, options.changes // len(table.stores), change=1)
    values = {region: await participants.value(region) - 1 for region in table.stores}
    return Partitioned(participants.answers.counts[Applied], values)


async def sell(table: ComparedTable, method: str, options: CompareOptions) -> Sold:
    """Sell to twice as many buyers as there are pieces, in one region, with answers lost."""
    async with _open_shop(table, method, "sale", options, lost=options.lost) as (shop, stock):
        buyers = [shop.client(f"buyer {place}") for place in range(options.writers)]
        await share(buyers, stock * BUYERS_PER_PIECE, _sale(method))
    return _sold(shop, stock, stock * BUYERS_PER_PIECE)


async def sell_partitioned(table: ComparedTable, method: str, options: CompareOptions) -> Sold:
    """Sell to twice as many buyers as there are pieces, in every region during a partition."""
    async with _open_shop(table, method, "sale-partition", options, lost=0.0) as (shop, stock):
        each = stock * BUYERS_PER_PIECE
        await _in_every_region(shop, each, change=_sale(method))
    return _sold(shop, stock, each * len(table.stores))


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


@asynccontextmanager
async def _open_shop(
    table: ComparedTable, method: str, name: str, options: CompareOptions, *, lost: float
) -> AsyncIterator[tuple[Participants, int]]:
    """Yield buyers, and the size of a stock, delivered at once, that every region shows."""
    pieces = max(1, options.changes // STOCK_SHARE)
    limits = {"maximum": pieces} if method == "slots" else {"minimum": 0}
    if not COMPARED[method].has_thresholds:
        limits = {}
    async with Participants(table, method, name, options.seed, lost=lost, limits=limits) as shop:
        if method != "slots":  # a set is filled up to its maximum
            await shop.client("supplier", is_reliable=True).add(pieces)
        await table.heal()
        yield shop, pieces


def _sold(shop: Participants, stock: int, buyers: int) -> Sold:
    return Sold(stock, buyers, shop.answers.counts[Applied], shop.answers.counts[Unknown])


def _sale(method: str) -> int:
    return 1 if method == "slots" else -1
