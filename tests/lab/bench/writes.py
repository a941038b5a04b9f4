"""The ledger's writes, measured as its users call them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from lab.bench.load import Work
from lab.bench.measurement import Measured, memory_bytes
from lab.bench.plain import amount
from lab.bench.rounds import Round
from ledger.core.entry import Item
from ledger.primitives.versions import ConditionGuard
from ledger.runtime.clock import SystemClock, system_random
from ledger.runtime.services import Services
from ledger.session.ledger import Ledger
from ledger.writes.change_list import ChangeLike
from ledger.writes.entry_plan import Change

_clock = SystemClock()
SAMPLES = 60
"""Samples of the memory, over the whole time."""


def recording(ledger: Ledger, options: Any) -> Work:
    """Return a call that records one change, of one of so many counters."""
    counters, name, record = options["counters"], options.get("name", "counter"), ledger.record

    async def work(number: int) -> tuple[int, int]:
        change = amount(number)
        await record(f"{name}-{number % counters}", change)
        return 1, change

    return work


async def record(round_: Round) -> Measured:
    """Record one change a call."""
    async with Ledger.open(round_.settings(), registry=round_.registry) as ledger:
        return await round_.measure(recording(ledger, round_.options))


def _keyed(number: int) -> Change:
    key, now = f"key-{number}", _clock.now()
    return Change(f"counter-{number}", amount(number), key=key, at=now)


async def record_keyed(round_: Round) -> Measured:
    """Record one change with a key a call; calls made at the same time share requests."""
    async with Ledger.open(round_.settings(), registry=round_.registry) as ledger:

        async def work(number: int) -> tuple[int, int]:
            asked = _keyed(number)
            await ledger.record(asked.counter, asked.change, key=asked.key, at=asked.at)
            return 1, amount(number)

        return await round_.measure(work)


async def keyed_alone(round_: Round) -> Measured:
    """Record one change with a key a call, in a request of its own."""
    return await _many(round_, _keyed, 1)


async def record_many_keyed(round_: Round) -> Measured:
    """Record many changes with keys a call."""
    return await _many(round_, _keyed, round_.options["size"])


async def version_put(round_: Round) -> Measured:
    """Put one new record with its version a call."""
    async with _guard(round_) as guard:

        async def work(number: int) -> tuple[int, int]:
            await guard.put(_record(number), version=1)
            return 1, amount(number)

        return await round_.measure(work)


async def version_put_many(round_: Round) -> Measured:
    """Put many new records with their versions a call."""
    size = round_.options["size"]
    async with _guard(round_) as guard:

        async def work(number: int) -> tuple[int, int]:
            numbers = range(number * size, (number + 1) * size)
            await guard.put_many([(_record(one), 1) for one in numbers])
            return size, sum(map(amount, numbers))

        return await round_.measure(work)


@asynccontextmanager
async def _guard(round_: Round) -> AsyncIterator[ConditionGuard]:
    async with Ledger.open(round_.settings(), registry=round_.registry) as ledger:
        yield ConditionGuard(
            ledger.store, services=Services.of(clock=_clock, randomness=system_random())
        )


def _record(number: int) -> Item:
    place = {"pk": {"S": f"record-{number}"}, "sk": {"S": "record"}}
    return {**place, "change": {"N": str(amount(number))}}


async def record_many(round_: Round) -> Measured:
    """Record many changes a call, one call after the other."""
    return await _many(round_, lambda one: (f"counter-{one}", amount(one)), round_.options["size"])


async def _many(round_: Round, change: Callable[[int], ChangeLike], size: int) -> Measured:
    async with Ledger.open(round_.settings(), registry=round_.registry) as ledger:

        async def work(number: int) -> tuple[int, int]:
            numbers = range(number * size, (number + 1) * size)
            await ledger.record_many(map(change, numbers))
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
