"""The ledger's writes, measured as its users call them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from ledger.lab.bench.load import Work
from ledger.lab.bench.measuring import Measured, memory_bytes
from ledger.lab.bench.plain import amount
from ledger.lab.bench.rounds import Round
from ledger.ledger import Ledger

SAMPLES = 60
"""Samples of the memory, over the whole time."""


def recording(ledger: Ledger, options: Any) -> Work:
    """Return a call that records one change, of one of so many counters."""
    counters, record = options["counters"], ledger.record

    async def work(number: int) -> tuple[int, int]:
        change = amount(number)
        await record(f"counter-{number % counters}", change)
        return 1, change

    return work


async def record(round_: Round) -> Measured:
    """Record one change a call."""
    async with Ledger.open(round_.settings(), registry=round_.registry) as ledger:
        return await round_.measure(recording(ledger, round_.options))


async def record_many(round_: Round) -> Measured:
    """Record many changes a call, one call after the other."""
    size = round_.options["size"]
    async with Ledger.open(round_.settings(), registry=round_.registry) as ledger:

        async def work(number: int) -> tuple[int, int]:
            numbers = range(number * size, (number + 1) * size)
            await ledger.record_many((f"counter-{one}", amount(one)) for one in numbers)
            return size, sum(map(amount, numbers))

        return await round_.measure(work)


async def overload(round_: Round) -> Measured:
    """Record by more callers than the endpoint can serve, and compare the memory early and late."""
    async with _sampled_memory(round_.seconds / SAMPLES) as samples:
        found = await record(round_)
    return replace(found, extra=early_and_late(samples))


def early_and_late(samples: list[float]) -> dict[str, float]:
    """Return the means of the first and the last fifth, without the first tenth of all samples."""
    steady = samples[len(samples) // 10 :]
    part = max(1, len(steady) // 5)
    return {
        "MB, first fifth": sum(steady[:part]) / part,
        "MB, last fifth": sum(steady[-part:]) / part,
    }


@asynccontextmanager
async def _sampled_memory(pause_seconds: float) -> AsyncIterator[list[float]]:
    """Sample this process's memory in MB until the block ends."""
    samples = [memory_bytes() / 2**20]

    async def watch() -> None:
        while True:
            await asyncio.sleep(pause_seconds)
            samples.append(memory_bytes() / 2**20)

    watching = asyncio.create_task(watch())
    try:
        yield samples
    finally:
        watching.cancel()
