"""What the ledger does a second and costs a change, each beside a named baseline, in one run.

    python tests/benchmarks/bench_basics.py --engine moto --seconds 2 --json figures.json

Everything runs on this machine: the engine answers in a process of its own (moto: the local global
table; dynoxide: the bare program), so that rates show what the client costs and ratios are what to
read. A measurement and its baseline take turns within the run. Billing units come from our model
of DynamoDB's rules, as charged in the home region; each further replica charges a write again.
"""

import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from secrets import token_hex
from time import perf_counter
from typing import Annotated, Any

import anyio
import boto3
import typer
from aiobotocore.session import AioSession
from prometheus_client import CollectorRegistry
from rich import box
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, not by pytest

from support import naive_merge
from support.engines import REGIONS, bare_table
from support.worlds import merge_all

from compactor import Compactor
from ledger import Ledger
from ledger.clock import SystemClock
from ledger.core import ids
from ledger.local import LocalGlobalTable
from ledger.metrics import Metrics
from ledger.settings import Settings
from ledger.store.connect import client_options
from ledger.store.dynamodb import open_store
from ledger.tasks import run_all

HOME = REGIONS[0]
AT_ONCE = 32
SINGLES = 64
BATCH = 500
TURNS = 4
TIMES = {"settle": 1.5, "retry_horizon": 0.6, "hold": 0.3}

Work = Callable[[], Awaitable[int]]


class EngineName(StrEnum):
    """Where the table is."""

    MOTO = "moto"
    DYNOXIDE = "dynoxide"


@dataclass(frozen=True, slots=True)
class Figure:
    """One thing measured: ours, and the baseline it is compared with."""

    name: str
    unit: str
    ours: float
    baseline_name: str
    baseline: float

    @property
    def ratio(self) -> float:
        """How many times the baseline ours is."""
        return self.ours / self.baseline if self.baseline else 0.0


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured: seconds a figure of rates, and how much is read and merged."""

    seconds: float
    entries: int
    counters: int
    rounds: int


async def measure(engine: EngineName, sizes: Sizes) -> list[Figure]:
    """Measure everything."""
    async with _one_region(engine) as settings:
        figures = [await _single_writes(settings, sizes), await _many_writes(settings, sizes)]
    async with _three_regions(engine) as (world, settings):
        figures += await _totals(world, settings, sizes)
        return [*figures, *await _merging(world, settings, sizes)]


@asynccontextmanager
async def _one_region(engine: EngineName) -> AsyncIterator[Settings]:
    """Run a table of one region in a process of its own."""
    if engine is EngineName.DYNOXIDE:
        async with bare_table() as settings:
            yield settings
    else:
        async with LocalGlobalTable.spawn(regions=[HOME], engine=engine) as world:
            yield world.settings()


async def _rates(ours: Work, baseline: Work, seconds: float) -> tuple[float, float]:
    """Let both work in turns, warmed up before; returns how much each did a second."""
    await ours()
    await baseline()
    done, spent = [0, 0], [0.0, 0.0]
    for turn in range(2 * TURNS):
        which = turn % 2
        started = perf_counter()
        while perf_counter() - started < seconds / TURNS:
            done[which] += await (ours, baseline)[which]()
        spent[which] += perf_counter() - started
    return done[0] / spent[0], done[1] / spent[1]


async def _single_writes(settings: Settings, sizes: Sizes) -> Figure:
    client_of = AioSession().create_client("dynamodb", **_client(settings))
    async with Ledger.open(settings) as ledger, client_of as client:

        async def record(number: int) -> None:
            await ledger.record(f"single-{number}", number)

        async def put(number: int) -> None:
            item = plain_item(f"put-{number}", number)
            await client.put_item(TableName=settings.table, Item=item)

        async def many(write: Callable[[int], Awaitable[None]]) -> int:
            await run_all([partial(write, number) for number in range(SINGLES)], at_once=AT_ONCE)
            return SINGLES

        rates = await _rates(partial(many, record), partial(many, put), sizes.seconds)
    return Figure(f"record, {AT_ONCE} at once", "changes/s", rates[0], "put_item", rates[1])


async def _many_writes(settings: Settings, sizes: Sizes) -> Figure:
    resource: Any = boto3.resource("dynamodb", **_client(settings))
    table = resource.Table(settings.table)
    async with Ledger.open(settings) as ledger:

        async def record_many() -> int:
            await ledger.record_many((f"many-{number}", number) for number in range(BATCH))
            return BATCH

        def put_all() -> None:
            with table.batch_writer() as batch:
                for number in range(BATCH):
                    item = plain_item(f"batch-{number}", number)
                    plain = {"pk": item["pk"]["S"], "sk": item["sk"]["S"], "change": number}
                    batch.put_item(Item={**plain, "region": HOME})

        async def batch_writer() -> int:
            await anyio.to_thread.run_sync(put_all)
            return BATCH

        rates = await _rates(record_many, batch_writer, sizes.seconds)
    return Figure("record_many", "changes/s", rates[0], "boto3 batch_writer", rates[1])


async def _totals(world: LocalGlobalTable, settings: Settings, sizes: Sizes) -> list[Figure]:
    """Read a counter of so many entries before and after it is merged."""
    registry = CollectorRegistry()
    async with Ledger.open(settings, registry=registry) as ledger:
        await ledger.record_many([("total", 1)] * sizes.entries)
        await world.settled()
        before = await _read(ledger, registry, sizes)
        await merge_all(world, Compactor(settings))
        after = await _read(ledger, registry, sizes)
    name, unmerged = f"total of {sizes.entries:,} entries", "the same, not merged"
    return [
        Figure(f"{name}, merged", "reads/s", after[0], unmerged, before[0]),
        Figure(f"{name}, merged", "read units", after[1], unmerged, before[1]),
    ]


async def _read(ledger: Ledger, registry: CollectorRegistry, sizes: Sizes) -> tuple[float, float]:
    """Return reads a second, one after the other, and the read units of one."""
    before, reads, started = _units(registry, "read"), 0, perf_counter()
    while perf_counter() - started < sizes.seconds / 2 or not reads:
        total = await ledger.total("total", max_age=0)
        assert total.value == sizes.entries
        reads += 1
    rate = reads / (perf_counter() - started)
    return rate, (_units(registry, "read") - before) / reads


async def _merging(world: LocalGlobalTable, settings: Settings, sizes: Sizes) -> list[Figure]:
    """Write and merge round after round, by the compactor and then in the usual way."""
    ours = await _merged(world, settings, sizes, "ours", _by_compactor)
    usual = await _merged(world, settings, sizes, "usual", _by_usual_merge)
    name = f"merge, {sizes.counters} x {sizes.entries} entries, {sizes.rounds} rounds"
    one_transaction = "entries and net in one transaction"
    return [
        Figure(name, "entries/s", ours[0], one_transaction, usual[0]),
        Figure("a change's life", "write units", ours[1], one_transaction, usual[1]),
    ]


Merging = Callable[[LocalGlobalTable, Settings, CollectorRegistry, list[str]], Awaitable[None]]


async def _merged(
    world: LocalGlobalTable, settings: Settings, sizes: Sizes, name: str, merge: Merging
) -> tuple[float, float]:
    """Return entries merged a second, waits of the method included, and write units a change."""
    registry, spent = CollectorRegistry(), 0.0
    counters = [f"{name}-{number}" for number in range(sizes.counters)]
    changes = [(counter, 1) for counter in counters for _ in range(sizes.entries)]
    async with Ledger.open(settings, registry=registry) as ledger:
        for _ in range(sizes.rounds):
            await ledger.record_many(changes)
            await world.settled()
            await anyio.sleep(settings.settle)
            started = perf_counter()
            await merge(world, settings, registry, counters)
            spent += perf_counter() - started
        for counter in counters:
            total = await ledger.total(counter, max_age=0)
            assert total.value == sizes.entries * sizes.rounds
            assert total.entries == 0
    merged = len(changes) * sizes.rounds
    return merged / spent, _units(registry, "write") / merged


async def _by_compactor(
    world: LocalGlobalTable, settings: Settings, registry: CollectorRegistry, _: list[str]
) -> None:
    """Pass after pass until nothing but nets is left."""
    await merge_all(world, Compactor(settings, registry=registry))


async def _by_usual_merge(
    _: LocalGlobalTable, settings: Settings, registry: CollectorRegistry, counters: list[str]
) -> None:
    """One transaction after the other until nothing but nets is left."""
    clock = SystemClock()
    async with open_store(settings, HOME, metrics=Metrics.of(registry)) as home:
        for counter in counters:
            while await naive_merge.merge_once(home, counter, settle=0, clock=clock):
                pass


@asynccontextmanager
async def _three_regions(
    engine: EngineName,
) -> AsyncIterator[tuple[LocalGlobalTable, Settings]]:
    """Run a table of three regions, all of which the compactor has to read."""
    starting = LocalGlobalTable.spawn(regions=REGIONS, engine=engine, lag=0.02, jitter=0.05)
    async with starting as world:
        yield world, world.settings(**TIMES)


def plain_item(counter: str, change: int) -> dict[str, Any]:
    """Return an item like an entry's, made without the ledger."""
    sort_key = ids.entry_id(SystemClock().now(), int(token_hex(8), 16))
    return {
        "pk": {"S": counter},
        "sk": {"S": str(sort_key)},
        "change": {"N": str(change)},
        "region": {"S": HOME},
    }


def _client(settings: Settings) -> dict[str, Any]:
    return dict(client_options(HOME, settings.region(HOME)))


def _units(registry: CollectorRegistry, kind: str) -> float:
    return sum(
        sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == "ledger_consumed_units_total" and sample.labels["kind"] == kind
    )


def table_of(engine: EngineName, figures: list[Figure]) -> Table:
    """Return the figures as a table."""
    table = Table(title=f"{engine}, one client process", box=box.SIMPLE_HEAD)
    table.add_column("measured")
    for name in ("ours", "unit", "baseline"):
        table.add_column(name, justify="right" if name == "ours" else "left")
    table.add_column("its", justify="right")
    table.add_column("ours : its", justify="right")
    for one in figures:
        ours, its = f"{one.ours:,.2f}", f"{one.baseline:,.2f}"
        table.add_row(one.name, ours, one.unit, one.baseline_name, its, f"{one.ratio:.2f}")
    return table


def main(
    *,
    engine: Annotated[EngineName, typer.Option(help="Where the table is.")] = EngineName.MOTO,
    seconds: Annotated[float, typer.Option(min=0, help="For each rate, on each side.")] = 2.0,
    entries: Annotated[int, typer.Option(min=1, help="Of a counter, merged at once.")] = 500,
    counters: Annotated[int, typer.Option(min=1, help="To merge.")] = 10,
    rounds: Annotated[int, typer.Option(min=1, help="Of writing and merging.")] = 3,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the figures here as well.")
    ] = None,
) -> None:
    """Measure, print a table, and write the figures as JSON if asked."""
    sizes = Sizes(seconds, entries, counters, rounds)
    figures = anyio.run(measure, engine, sizes)
    Console().print(table_of(engine, figures))
    if json_file is not None:
        content = {"engine": engine, "sizes": asdict(sizes), "figures": list(map(asdict, figures))}
        json_file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
