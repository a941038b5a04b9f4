"""The ledger's writes, measured as its users call them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from ledger.lab.bench.load import Work
from ledger.lab.bench.measuring import Measured
from ledger.lab.bench.plain import amount
from ledger.lab.bench.rounds import Round
from ledger.ledger import Ledger


@asynccontextmanager
async def opened(round_: Round) -> AsyncIterator[Ledger]:
    """Open the ledger of a case, its requests going to the stub."""
    settings = round_.settings(**round_.options.get("settings", {}))
    async with Ledger.open(settings, registry=round_.registry) as ledger:
        yield ledger


def recording(ledger: Ledger, options: Any) -> Work:
    """Return a call that records one change, of one of so many counters."""
    counters, prefix = options["counters"], options.get("prefix", "counter-")
    record = ledger.record

    async def work(number: int) -> tuple[int, int]:
        change = amount(number)
        await record(f"{prefix}{number % counters}" if counters > 1 else prefix, change)
        return 1, change

    return work


async def nothing(round_: Round) -> Measured:
    """Make calls that only wait for a future: the cost of the callers' tasks and of measuring."""
    loop = asyncio.get_running_loop()

    async def work(_number: int) -> tuple[int, int]:
        done: asyncio.Future[None] = loop.create_future()
        loop.call_soon(done.set_result, None)
        await done
        return 1, 0

    return await round_.measure(work, callers=round_.options["callers"], kind="none")


async def record(round_: Round) -> Measured:
    """Record one change a call."""
    async with opened(round_) as ledger:
        work, callers = recording(ledger, round_.options), round_.options["callers"]
        return await round_.measure(work, callers=callers)


async def record_offered(round_: Round) -> Measured:
    """Record changes offered at a fixed rate, each request answered after a fixed service time."""
    options = round_.options
    async with opened(round_) as ledger:
        return await round_.measure_offered(
            recording(ledger, options),
            calls_per_second=options["calls_per_second"],
            calls_max=options["calls_max"],
            service_seconds=options["service_seconds"],
        )


async def record_many(round_: Round) -> Measured:
    """Record many changes a call."""
    size = round_.options["size"]
    async with opened(round_) as ledger:

        async def work(number: int) -> tuple[int, int]:
            numbers = range(number * size, (number + 1) * size)
            await ledger.record_many((f"counter-{one}", amount(one)) for one in numbers)
            return size, sum(map(amount, numbers))

        return await round_.measure(work, callers=1)
