"""What a change costs in its whole life, and what merging makes of a read, on a local table.

Changes are written in the home region, merged until nothing but net changes is left, by the
compactor or in the usual way, and then read. Units come from our model of DynamoDB's rules, as
charged in one region: a global table charges a write the same in each of its regions.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import anyio

from compactor import Compactor
from ledger.core.errors import LedgerError, LocalTableError
from ledger.lab.bench import usual_merge
from ledger.lab.bench.measuring import Measured, Meter
from ledger.lab.bench.rounds import Round
from ledger.ledger import Ledger
from ledger.local import LocalGlobalTable
from ledger.local.engines.dynoxide import find_binary
from ledger.runtime.clock import SystemClock
from ledger.runtime.metrics import Metrics
from ledger.runtime.tasks import run_all
from ledger.settings import Settings
from ledger.store.opening import open_store

REGIONS = ("us-east-1", "eu-west-1", "ap-southeast-1", "us-west-2", "sa-east-1")
HOLD_SECONDS = 0.3
PASSES_MAX = 400
TOTALS_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class _World:
    """A running local table and a ledger of its home region."""

    table: LocalGlobalTable
    settings: Settings
    ledger: Ledger
    round: Round


Merge = Callable[[_World, list[str]], Awaitable[int]]
"""Merges all entries of these counters; returns how many it says it did."""


async def ledger(round_: Round) -> Measured:
    """Merge with the compactor."""
    return await _life(round_, _by_compactor)


async def usual(round_: Round) -> Measured:
    """Merge entries and net change in one transaction, as it is usually described."""
    return await _life(round_, _in_one_transaction)


async def _life(round_: Round, merge: Merge) -> Measured:
    """Write and merge round after round, then check and read the totals."""
    options = round_.options
    entries, rounds = options["entries"], options["rounds"]
    counters = [f"life-{number}" for number in range(options["counters"])]
    meter, seconds, cpu_seconds, merged = Meter(), 0.0, 0.0, 0
    async with _world(round_) as world:
        for _ in range(rounds):
            for name in counters:
                await world.ledger.record_many([(name, 1)] * entries)
            await world.table.wait_replicated()
            await anyio.sleep(world.settings.settle)
            meter.begin()
            merged += await merge(world, counters)
            found = meter.end()
            seconds, cpu_seconds = seconds + found.seconds, cpu_seconds + found.cpu_seconds
        # Reading takes no write units, and merging alone is timed.
        write_units, merge_reads = round_.units("write"), round_.units("read")
        reads = await _reads(world, counters, entries * rounds)
    work = len(counters) * entries * rounds
    if merged < work:
        raise LedgerError(f"{merged} of {work} entries were merged")
    return replace(
        found,
        work=work,
        calls=rounds,
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        units=write_units,
        extra={**reads, "merge_read_units_per_change": merge_reads / work},
    )


async def _by_compactor(world: _World, counters: list[str]) -> int:
    """Pass after pass until nothing but nets is left."""
    compactor, merged = Compactor(world.settings, registry=world.round.registry), 0
    for _ in range(PASSES_MAX):
        report = await compactor.run_once()
        if not report.is_success:
            raise LedgerError(report.sentence())
        merged += report.merged
        await world.table.wait_replicated()
        if report.is_idle and not await _left(world, counters):
            return merged
    raise LedgerError(f"still merging after {PASSES_MAX} passes")


async def _in_one_transaction(world: _World, counters: list[str]) -> int:
    """One transaction after the other until nothing but nets is left."""
    metrics, merged = Metrics.of(world.round.registry), 0
    async with open_store(world.settings, world.settings.home, metrics=metrics) as home:
        for counter in counters:
            while done := await usual_merge.merge_once(
                home, counter, settle=0, clock=SystemClock()
            ):
                merged += done
    await world.table.wait_replicated()
    return merged


async def _left(world: _World, counters: list[str]) -> int:
    # Counted apart from the merge's own reads.
    async with Ledger.open(world.settings) as looking:
        jobs = [lambda name=name: looking.total(name, max_age=0) for name in counters]
        return sum(one.entries for one in await run_all(jobs, at_once=TOTALS_AT_ONCE))


async def _reads(world: _World, counters: list[str], expected: int) -> dict[str, float]:
    """Read every merged total once; returns requests and read units of one."""
    units, requests = world.round.units("read"), _pages(world.round)
    started = perf_counter()
    for counter in counters:
        total = await world.ledger.total(counter, max_age=0)
        if total.value != expected or total.entries:
            raise LedgerError(f"{counter} is {total.value} instead of {expected}")
    count = len(counters)
    return {
        "merged_total_read_units": (world.round.units("read") - units) / count,
        "merged_total_requests": (_pages(world.round) - requests) / count,
        "merged_total_seconds": (perf_counter() - started) / count,
    }


def _pages(round_: Round) -> float:
    """Return the pages that totals were read from so far: a request each."""
    return round_.registry.get_sample_value("ledger_read_pages_sum", {"region": REGIONS[0]}) or 0.0


@asynccontextmanager
async def _world(round_: Round) -> AsyncIterator[_World]:
    options: Mapping[str, Any] = round_.options
    regions = REGIONS[: options["regions"]]
    starting = LocalGlobalTable.spawn(regions=regions, engine=_engine(), lag=0.02, jitter=0.05)
    async with starting as table:
        settle = options["settle"]
        settings = table.settings(
            settle=settle,
            retry_horizon=settle / 2,
            observation_delay=HOLD_SECONDS,
            **options.get("settings", {}),
        )
        async with Ledger.open(settings, registry=round_.registry) as opened:
            yield _World(table, settings, opened, round_)


def _engine() -> str:
    """Return the faster engine if it is here."""
    try:
        find_binary()
    except LocalTableError:
        return "memory"
    return "dynoxide"
