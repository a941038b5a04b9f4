"""What a change costs in its whole life, and what merging makes of a read, on a local table.

Changes are written in the home region, merged by the compactor or in the usual way until only net
changes are left, and then read. Units follow our model of DynamoDB's rules, as charged in one
region: a global table charges a write the same in each of its regions.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory
from typing import Any

import anyio

from compactor import Compactor, CompactorReport
from lab.bench.archive import requests_of
from lab.bench.measurement import Measured, Meter
from lab.bench.rounds import Round
from lab.bench.usual_merge import merge_once
from ledger.core.errors import LedgerError, LocalTableError
from ledger.demo.harness.options import REGIONS, LabOptions
from ledger.demo.harness.table import TestTable, open_table
from ledger.local.engines.dynoxide import find_binary
from ledger.runtime.gc import tune_gc
from ledger.runtime.metrics import summed
from ledger.runtime.services import Services
from ledger.runtime.tasks import run_all
from ledger.session.ledger import Ledger
from ledger.writes.entry_plan import Change
from ledger.writes.imports.importer import Importer

HOLD_SECONDS = 0.3
LAG_SECONDS, JITTER_SECONDS = 0.02, 0.05
PASSES_MAX = 1_000
TOTALS_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Life:
    """A running table, and a ledger in its home region."""

    round: Round
    table: TestTable
    ledger: Ledger

    def units(self, kind: str) -> float:
        """Return the units that all have consumed, "read" or "write"."""
        return self.round.units(kind) + self.table.units(kind)


Merge = Callable[[Life, list[str]], Awaitable[int]]
"""Merges all entries of these counters; returns how many it reports as merged."""


async def ledger(round_: Round) -> Measured:
    """Merge with the compactor."""
    return await _measure(round_, by_compactor)


async def merging(round_: Round) -> Measured:
    """Merge with one compactor whose connections are open; reads of the check are not timed."""
    return await _measure(round_, _by_open_compactor)


async def usual(round_: Round) -> Measured:
    """Merge entries and net change in one transaction, as it is usually described."""
    return await _measure(round_, _in_one_transaction)


async def _measure(round_: Round, merge: Merge) -> Measured:
    """Write and merge round after round, then check and read the totals; merging alone is timed."""
    options = round_.options
    entries, rounds = options["entries"], options["rounds"]
    together = options.get("together", entries)  # changes of a call; combined they share an item
    items = entries // (together if options.get("settings", {}).get("combine") else 1)
    counters = [f"life-{number}" for number in range(options["counters"])]
    meter, seconds, cpu_seconds, merged = Meter(), 0.0, 0.0, 0
    if options.get("tune_gc", False):
        tune_gc()
    async with opened(round_) as life:
        for number in range(rounds):
            if options.get("imported", False):
                await _import(life, counters, entries, number)
            else:
                await _record(life, counters, entries, together)
            await life.table.wait_replicated()
            await anyio.sleep(life.table.settings.settle)
            meter.begin()
            merged += await merge(life, counters)
            found = meter.end()
            seconds, cpu_seconds = seconds + found.seconds, cpu_seconds + found.cpu_seconds
        write_units, merge_reads = life.units("write"), life.units("read")
        moved = max(1, options.get("legs", 2) - 1)  # of a transfer, out of its first account
        reads = await _reads(life, counters, entries * rounds * moved)
    work = len(counters) * entries * rounds
    if merged < len(counters) * items * rounds:
        raise LedgerError(f"{merged} entries of {work} changes were merged")
    return replace(
        found,
        work=work,
        calls=rounds,
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        units=write_units,
        extra={
            **reads,
            "read units to merge a change": merge_reads / work,
            **_archived(life, work),
        },
    )


async def _record(life: Life, counters: list[str], entries: int, together: int) -> None:
    """Write the changes of a round, so many in each call."""
    options = life.round.options
    if options.get("is_together", False):
        jobs = [
            lambda: life.ledger.record_together([(name, 1) for name in counters])
            for _ in range(entries)
        ]
        await run_all(jobs, at_once=TOTALS_AT_ONCE)
        return
    if "legs" in options:
        for name in counters:
            transfers = [_transfer(name, number, options) for number in range(entries)]
            for first in range(0, entries, together):
                await life.ledger.record_many(transfers[first : first + together])
        return
    for name in counters:
        for _ in range(0, entries, together):
            await life.ledger.record_many([(name, 1)] * together)


def _transfer(book: str, number: int, options: Mapping[str, Any]) -> Change:
    """Return a transfer from cash to the next accounts of a book."""
    moved = [
        (f"customer/{(number * (options['legs'] - 1) + leg) % options['accounts']:06d}", "EUR", 1)
        for leg in range(options["legs"] - 1)
    ]
    return Change(book, 0, legs=[("cash", "EUR", -len(moved)), *moved])


async def _import(life: Life, counters: list[str], entries: int, number: int) -> None:
    """Write the changes of a round as the rows of a file of its own, sorted by counter."""
    file = life.table.folder / "rows.csv"
    rows = [f"{name},1,{number}\n" for name in counters for _ in range(entries)]
    file.write_text(f"counter,change,round\n{''.join(rows)}", encoding="utf-8")
    home, *others = life.table.stores.values()
    importer = Importer(
        home,
        life.table.settings,
        others=lambda: nullcontext({store.region: store for store in others}),
        services=Services.of(clock=life.table.clock),
    )
    await importer.run_file(file)


def _archived(life: Life, work: int) -> dict[str, float]:
    """Return what went to the archive, if there is one; nothing where only merging is timed."""
    registry = life.round.registry
    folds = summed(registry, "compactor_folds_total", outcome="applied")
    if not (size := summed(registry, "compactor_archive_bytes_total")):
        return {}
    requests = requests_of(registry)
    return {
        "folds": folds,
        "archive: PUTs": requests["put"],
        "archive: GETs": requests["get"],
        "archive: bytes of a change": size / work,
    }


async def run_passes(
    compactor: Compactor, is_over: Callable[[CompactorReport], Awaitable[bool]]
) -> int:
    """Run passes until the work is over; return how many entries were merged.

    Raises:
        LedgerError: a pass failed, or the work goes on after `PASSES_MAX` passes.
    """
    merged = 0
    for _ in range(PASSES_MAX):
        report = await compactor.run_once()
        if not report.is_success:
            raise LedgerError(report.sentence())
        merged += report.merged
        if await is_over(report):
            return merged
    raise LedgerError(f"still merging after {PASSES_MAX} passes")


async def by_compactor(life: Life, counters: list[str]) -> int:
    """Run passes until only net changes are left."""

    async def is_over(report: CompactorReport) -> bool:
        await life.table.wait_replicated()
        return report.is_idle and not await _left(life, counters)

    return await run_passes(Compactor(life.table.settings, registry=life.round.registry), is_over)


async def _by_open_compactor(life: Life, _counters: list[str]) -> int:
    """Run passes until one finds nothing to write; the first searches the whole table."""

    async def is_over(report: CompactorReport) -> bool:
        if not report.is_idle:
            await life.table.wait_replicated()
        return report.is_idle

    compactor = Compactor(life.table.settings, stores=life.table.stores, contract=True)
    return await run_passes(compactor, is_over)


async def _in_one_transaction(life: Life, counters: list[str]) -> int:
    """Run one transaction after another until only net changes are left."""
    home, merged = life.table.stores[life.ledger.region], 0
    for counter in counters:
        while done := await merge_once(home, counter, settle=0, clock=life.table.clock):
            merged += done
    await life.table.wait_replicated()
    return merged


async def _left(life: Life, counters: list[str]) -> int:
    """Count the entries that are left, by a ledger whose reads are not counted."""
    async with Ledger.open(life.table.settings) as uncounted:
        jobs = [lambda name=name: uncounted.total(name, max_age=0) for name in counters]
        return sum(total.entries for total in await run_all(jobs, at_once=TOTALS_AT_ONCE))


async def _reads(life: Life, counters: list[str], expected: int) -> dict[str, float]:
    """Read every merged total once; return the requests and read units of one read."""
    units, requests = life.units("read"), _pages(life)
    for counter in counters:
        total = await life.ledger.total(counter, max_age=0)
        value = -total.accounts["EUR"]["cash"] if total.accounts else total.value
        if value != expected or total.entries:
            raise LedgerError(f"{counter} is {value} instead of {expected}")
    count = len(counters)
    return {
        "read units of a merged total": (life.units("read") - units) / count,
        "requests of a merged total": (_pages(life) - requests) / count,
    }


def _pages(life: Life) -> float:
    """Return the pages that totals were read from so far, a request each."""
    return summed(life.round.registry, "ledger_read_pages_sum")


@asynccontextmanager
async def opened(round_: Round) -> AsyncIterator[Life]:
    """Open the table and ledger of a round."""
    options = round_.options
    table_options = LabOptions(engine=engine(), lag=LAG_SECONDS, jitter=JITTER_SECONDS)
    settings = {
        "settle": options["settle"],
        "retry_horizon": options["settle"] / 2,
        "observation_delay": HOLD_SECONDS,
        **options.get("settings", {}),
    }
    regions = REGIONS[: options["regions"]]
    with TemporaryDirectory(prefix="ledger-bench-") as folder:
        if options.get("archive", False):
            settings["archive"] = [f"file://{folder}"]
        async with (
            open_table(table_options, regions, **settings) as table,
            Ledger.open(table.settings, registry=round_.registry) as opened,
        ):
            yield Life(round_, table, opened)


def engine() -> str:
    """Return the faster engine if it is installed."""
    try:
        find_binary()
    except LocalTableError:
        return "memory"
    return "dynoxide"
