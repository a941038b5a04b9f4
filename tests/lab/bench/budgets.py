"""What a spend costs beside a record, and beside other ways to keep a limit, on a local table.

Units are those of the whole process, as its stores meter them: grants and their renewals included.
The table is one process, and in the way at full speed: compare processor time.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

from lab.bench import load
from lab.bench.life import JITTER_SECONDS, LAG_SECONDS, engine
from lab.bench.measurement import Measured, Meter
from lab.bench.rounds import Round, warm_seconds
from ledger.budgets.spend_request import Refused
from ledger.core.errors import LedgerError
from ledger.demo.harness.options import REGIONS, LabOptions
from ledger.demo.harness.table import open_table
from ledger.store.writes import Applied
from ledger.table import Table

LIMIT = 10**12
BUDGET = "spent"


async def record(round_: Round) -> Measured:
    """Record one change a call, without a limit."""
    async with _opened(round_) as table:

        async def work(_number: int) -> tuple[int, int]:
            await table.ledger.record(BUDGET, -1)
            return 1, 1

        return await _measured(round_, work)


async def spend(round_: Round) -> Measured:
    """Spend from one budget."""
    async with _opened(round_) as table:
        budget = table.budget(BUDGET)
        await budget.create(LIMIT)

        async def work(_number: int) -> tuple[int, int]:
            if isinstance(await budget.spend(1), Refused):
                raise LedgerError("a spend was refused, far below the limit")
            return 1, 1

        return await _measured(round_, work)


async def item(round_: Round) -> Measured:
    """Take from one item on a condition, which is so many seconds away."""
    away = round_.options["away_seconds"]
    async with _opened(round_) as table:
        stock = table.counter("stock", method="atomic", minimum=0)
        await stock.add(LIMIT)

        async def work(_number: int) -> tuple[int, int]:
            await asyncio.sleep(away)
            if not isinstance(await stock.add(-1), Applied):
                raise LedgerError("nothing was taken, far above the minimum")
            return 1, 1

        return await _measured(round_, work)


@asynccontextmanager
async def _opened(round_: Round) -> AsyncIterator[Table]:
    options = LabOptions(engine=engine(), lag=LAG_SECONDS, jitter=JITTER_SECONDS)
    settings = {"budgets": {BUDGET: {}}, **round_.options.get("settings", {})}
    async with (
        open_table(options, REGIONS[:2], **settings) as table,
        Table.open(table.settings, registry=round_.registry) as opened,
    ):
        yield opened


async def _measured(round_: Round, work: load.Work) -> Measured:
    """Warm up, then put on the load: so many callers, or calls at a rate."""
    options, meter = round_.options, Meter()
    seconds = options.get("seconds", round_.seconds)
    rate = options.get("calls_per_second")
    if rate:
        run = partial(load.offered, work, meter, calls_per_second=rate, calls_max=rate * 10)
    else:
        run = partial(load.closed, work, meter, callers=options["callers"])
    await run(seconds=warm_seconds(seconds))
    units = round_.units("write")
    meter.begin()
    await run(seconds=seconds)
    return replace(meter.end(), units=round_.units("write") - units)
