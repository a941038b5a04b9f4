"""A rung of the ladder: counters by Zipf's law, written, searched, merged and read.

The counter of rank i has HOTTEST / i entries, and one at least: 100,000 of the first, 20 of the
5,000th, one of each from the 100,000th on. They lie in one region whose engine the client reaches
directly, since a replicator would take the core that is measured. Memory is this process's: the
client's, never the engine's.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio

from compactor import Compactor, CompactorReport
from compactor.discovery.scan import Finder
from compactor.pass_terms import rules_of
from lab.bench.life import run_passes
from lab.bench.measurement import Measured, Meter, memory_bytes
from lab.bench.rounds import Round
from lab.bench.scale_stages import FIGURES
from ledger.core.errors import LedgerError
from ledger.demo.harness.options import REGIONS, LabOptions
from ledger.demo.harness.table import TestTable, open_table
from ledger.runtime.gc import tune_gc
from ledger.session.ledger import Ledger

READ_AT_ONCE = 8
"""Totals: the engine reads one page after the other, of the hottest counters a megabyte each."""
WRITTEN_AT_ONCE = 500
READS = 1_000
_SPREAD = 0x9E3779B97F4A7C15
"""Counters are written in another order than that of their ranks (by the golden ratio)."""


def entries_of(rank: int, hottest: int) -> int:
    """Return how many entries the counter of this rank has, from 1 for the hottest."""
    return max(1, hottest // rank)


def name_of(rank: int) -> str:
    """Return the name of the counter of this rank."""
    return f"scale-{rank * _SPREAD % 2**64:016x}"


def ranks_read(counters: int) -> list[int]:
    """Return the ranks whose totals are read: as many of each power of ten, each rank once."""
    return sorted({round(counters ** (place / (READS - 1))) for place in range(READS)})


@dataclass(slots=True)
class Rung:
    """What one rung has measured so far, stage by stage."""

    round: Round
    table: TestTable
    extra: dict[str, float] = field(default_factory=dict)

    async def stage(self, name: str, run: Callable[[], Awaitable[int]]) -> Measured:
        """Measure one stage; `run` returns its work."""
        before = {kind: self._units(kind) for kind in ("write", "read")}
        meter = Meter()
        work = await run()
        found = meter.end()
        units = [self._units(kind) - was for kind, was in before.items()]
        values = (work, found.seconds, found.cpu_seconds, *units, memory_bytes() / 2**20)
        self.extra |= {
            f"{name}: {figure}": float(value) for figure, value in zip(FIGURES, values, strict=True)
        }
        return found

    def _units(self, kind: str) -> float:
        return self.round.units(kind) + self.table.units(kind)


async def ladder(round_: Round) -> Measured:
    """Write all counters, read some, search the table, merge it, and read the same again.

    Raises:
        LedgerError: a total is wrong.
    """
    counters, hottest = round_.options["counters"], round_.options["hottest"]
    wanted = {name_of(rank): entries_of(rank, hottest) for rank in ranks_read(counters)}
    work = sum(entries_of(rank, hottest) for rank in range(1, counters + 1))
    tune_gc()
    async with _opened(round_) as (rung, ledger):
        written = await rung.stage("write", lambda: _write(ledger, counters, hottest))
        await rung.stage("read before", lambda: _read(ledger, wanted))
        await anyio.sleep(rung.table.settings.settle)
        await rung.stage("search", lambda: _search(rung.table))
        await rung.stage("merge", lambda: _merge(rung.table))
        await rung.stage("read after", lambda: _read(ledger, wanted))
    return Measured(
        work=work,
        calls=-(-work // WRITTEN_AT_ONCE),
        seconds=written.seconds,
        cpu_seconds=written.cpu_seconds,
        p50_seconds=0.0,
        p99_seconds=0.0,
        units=rung.extra["write: write units"],
        extra=rung.extra,
    )


@asynccontextmanager
async def _opened(round_: Round) -> AsyncIterator[tuple[Rung, Ledger]]:
    settle = round_.options["settle"]
    settings = {
        "settle": settle,
        "retry_horizon": settle / 2,
        **round_.options["settings"],
    }
    async with (
        open_table(LabOptions(engine="dynoxide"), REGIONS[:1], is_direct=True, **settings) as table,
        Ledger.open(table.settings, registry=round_.registry) as ledger,
    ):
        yield Rung(round_, table), ledger


def _changes(counters: int, hottest: int) -> Iterator[tuple[str, int]]:
    for rank in range(1, counters + 1):
        change = (name_of(rank), 1)
        for _ in range(entries_of(rank, hottest)):
            yield change


async def _write(ledger: Ledger, counters: int, hottest: int) -> int:
    written, batch = 0, list[tuple[str, int]]()
    for change in _changes(counters, hottest):
        batch.append(change)
        if len(batch) == WRITTEN_AT_ONCE:
            await ledger.record_many(batch)
            written, batch = written + len(batch), []
    if batch:
        await ledger.record_many(batch)
    return written + len(batch)


async def _read(ledger: Ledger, wanted: Mapping[str, int]) -> int:
    names = list(wanted)
    for start in range(0, len(names), READ_AT_ONCE):
        part = names[start : start + READ_AT_ONCE]
        for name, total in (await ledger.totals(part, max_age=0)).items():
            if total.value != wanted[name]:
                raise LedgerError(f"{name} is {total.value} instead of {wanted[name]}")
    return len(wanted)


async def _search(table: TestTable) -> int:
    """Search the whole table, as a pass does where that is due; nothing is merged."""
    settings, store, cursor, found = table.settings, table.stores[table.regions[0]], None, 0
    while cursor is None or not cursor.is_finished:
        finder = Finder(
            store,
            rules=rules_of(settings),
            now=table.clock.now(),
            segments=settings.compactor.scan_segments,
            pages_max=settings.compactor.scan_pages_max,
            stop=anyio.Event(),
        )
        part = await finder.find(cursor)
        cursor, found = part.cursor, found + part.backlog_entries
    return found


async def _merge(table: TestTable) -> int:
    """Run passes until one finds nothing to write; the first searches the table."""

    async def is_over(report: CompactorReport) -> bool:
        return report.is_idle and report.is_whole

    return await run_passes(Compactor(table.settings, stores=table.stores, contract=True), is_over)
