"""One counter at a high rate: each change kept with its id, within what one partition takes.

::

    calls at a rate ── processes ── items of the counter ── history of each region ── totals
                                    <= 1,000 units a second  each change once          merged

On a local table processes write at home, in real time. On the model (`lab.harness.model`) they
write in all regions, in virtual time: partitions throttle what they do not take, and latencies have
no processor time in them.

AWS: a partition takes up to 1,000 write units a second (Amazon DynamoDB Developer Guide, "Best
practices for designing and using partition keys effectively").
"""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread
from proof.simulator import loop
from proof.simulator.randomness import stream

from compactor import Compactor, CompactorReport
from lab.bench import life, load
from lab.bench.case_process import case_process, measured_by
from lab.bench.cases import Options
from lab.bench.measurement import Measured, Meter
from lab.bench.rounds import Round, Task
from lab.harness.child import input_lines, send_value
from lab.harness.config import read_config, write_config
from lab.harness.model import PARTITION_UNITS_PER_SECOND, Model, open_model
from ledger.core import keys
from ledger.core.capacity import item_size, write_units
from ledger.core.errors import LedgerError
from ledger.runtime.gc import tune_gc
from ledger.runtime.metrics import summed
from ledger.runtime.services import Services
from ledger.runtime.tasks import run_all
from ledger.session.assembly import GivenConnections
from ledger.session.ledger import Ledger
from ledger.settings import Settings
from ledger.store.port import Store
from ledger.store.reads import Query

COUNTER = "hot"
AMOUNTS = 9_999
"""Call number i changes by i % 9,999 + 1."""
SEED = 7
_SECOND = slice(len("2026-11-21T06:50:01"))

Acknowledged = list[tuple[str, int]]
"""The id that a call returned, and its change."""


async def on_model(round_: Round) -> Measured:
    """Write from processes in all regions, in virtual time, and check what is kept."""
    if round_.options.get("tune_gc", False):
        tune_gc()
    return await to_thread.run_sync(loop.run, partial(_on_model, round_))


async def _on_model(round_: Round) -> Measured:
    options, acknowledged = round_.options, Acknowledged()
    async with open_model(options["regions"], SEED) as model:
        regions = list(islice(cycle(model.stores), options["processes"]))
        meter = Meter(model.clock.monotonic)
        async with _ledgers(model, options, regions) as writers:
            work = recording(writers, COUNTER, options["size"], acknowledged)
            await _offer(work, meter, options, seconds=round_.seconds)
        found = meter.end()
        await model.heal()
        async with _ledgers(model, options, list(model.stores)) as readers:
            units = await check_history(readers, acknowledged)
            await _merge_on_model(model, options)
            await check_totals(readers, _sum(acknowledged))
        of_life = summed(model.registry, "ledger_consumed_units_total", kind="write")
        return _told(found, len(acknowledged), units, of_life)


@asynccontextmanager
async def _ledgers(
    model: Model, options: Options, regions: Sequence[str]
) -> AsyncIterator[list[Ledger]]:
    """Open a ledger in each of these regions, as so many processes do."""
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                Ledger(
                    _settings(model, options),
                    region=region,
                    services=_services(model, f"process {number}"),
                    given=GivenConnections(store=model.stores[region], others=model.stores),
                )
            )
            for number, region in enumerate(regions)
        ]


def _settings(model: Model, options: Options) -> Settings:
    regions: dict[str, Any] = {region: {} for region in model.stores}
    return Settings(home=next(iter(regions)), regions=regions, **options["settings"])


def _services(model: Model, name: str) -> Services:
    return Services.of(clock=model.clock, randomness=stream(SEED, name))


async def _merge_on_model(model: Model, options: Options) -> None:
    settings = _settings(model, options)
    compactor = Compactor(
        settings,
        stores=model.stores,
        services=_services(model, "compactor"),
        owner="compactor",
        contract=False,
    )

    async def is_over(report: CompactorReport) -> bool:
        await model.heal()
        return report.is_idle

    await model.clock.sleep(settings.settle)
    await life.run_passes(compactor, is_over)


async def on_table(round_: Round) -> Measured:
    """Write from processes in the home region of a local table, and check what is kept."""
    async with life.opened(round_) as table:
        found, acknowledged = await _by_processes(round_, table)
        await table.table.wait_replicated()
        readers = list((await table.table.ledgers()).values())
        units = await check_history(readers, acknowledged)
        await anyio.sleep(table.table.settings.settle)
        await life.by_compactor(table, [COUNTER])
        await table.table.wait_replicated()
        await check_totals(readers, _sum(acknowledged))
        of_life = found.units + table.units("write")
        return _told(found, len(acknowledged), units, of_life)


async def _by_processes(round_: Round, table: life.Life) -> tuple[Measured, Acknowledged]:
    """Let processes write, each its share of the rate, all from the same moment on."""
    options, folder = round_.options, table.table.folder
    count = options["processes"]
    given = {
        **options,
        "rate": options["rate"] / count,
        "config": str(write_config(table.table.settings, folder / "writers")),
    }
    async with AsyncExitStack() as stack:
        running = []
        for number in range(count):
            path = folder / f"acknowledged-{number}"
            task = Task("hot_counter:write", round_.seconds, {**given, "acknowledged": str(path)})
            process = case_process(f"writer {number}", task, log=path.with_suffix(".log"))
            await stack.enter_async_context(process.started())
            running.append((process, process.lines(), path))
        for process, lines, _ in running:
            if not await anext(lines, b""):
                raise LedgerError(f"{process.name} did not start: {process.last_words()}")
        for process, _, _ in running:
            await process.send(b"begin")
        jobs = [partial(measured_by, process, lines) for process, lines, _ in running]
        found = await run_all(jobs, at_once=count)
    acknowledged = Acknowledged()
    for _, _, path in running:
        acknowledged += _read(path)
    return _together(found), acknowledged


async def write(round_: Round) -> Measured:
    """Write as one of several processes: make a call, say so, and begin when told to."""
    options, acknowledged = round_.options, Acknowledged()
    settings = read_config(options["config"])
    async with Ledger.open(settings, registry=round_.registry) as ledger:
        work, meter = recording([ledger], COUNTER, options["size"], acknowledged), Meter()
        await work(0)  # opens connections
        tune_gc()
        send_value("ready")
        await anext(input_lines())
        units = round_.units("write")
        meter.begin()
        await _offer(work, meter, options, seconds=round_.seconds)
        found = meter.end()
    lines = "\n".join(f"{id_} {change}" for id_, change in acknowledged)
    await anyio.Path(options["acknowledged"]).write_text(lines)
    return replace(found, units=round_.units("write") - units)


def _read(path: Path) -> Acknowledged:
    """Return what a process has written of its acknowledged changes."""
    pairs = map(str.split, path.read_text().splitlines())
    return [(id_, int(change)) for id_, change in pairs]


def _sum(acknowledged: Acknowledged) -> int:
    return sum(change for _, change in acknowledged)


def _together(found: Sequence[Measured]) -> Measured:
    """Return the sums of processes that wrote at once, and the worst of their latencies."""
    return Measured(
        work=sum(one.work for one in found),
        calls=sum(one.calls for one in found),
        seconds=max(one.seconds for one in found),
        cpu_seconds=sum(one.cpu_seconds for one in found),
        p50_seconds=max(one.p50_seconds for one in found),
        p99_seconds=max(one.p99_seconds for one in found),
        units=sum(one.units for one in found),
        rejected=sum(one.rejected for one in found),
    )


async def _offer(work: load.Work, meter: Meter, options: Options, *, seconds: float) -> None:
    """Offer calls for a while; at most a second's are in flight."""
    rate = options["rate"] / options["size"]
    await load.offered(
        work, meter, calls_per_second=rate, calls_max=max(1, int(rate)), seconds=seconds
    )


def recording(
    ledgers: Sequence[Ledger], counter: str, size: int, acknowledged: Acknowledged
) -> load.Work:
    """Return a call that records so many changes, in turn in each ledger, and notes their ids."""

    async def one(number: int) -> tuple[int, int]:
        change = _amount(number)
        entry = await ledgers[number % len(ledgers)].record(counter, change)
        acknowledged.append((entry.id, change))
        return 1, change

    async def many(number: int) -> tuple[int, int]:
        changes = [_amount(place) for place in range(number * size, (number + 1) * size)]
        asked = [(counter, change) for change in changes]
        entries = await ledgers[number % len(ledgers)].record_many(asked)
        ids = [entry.id for entry in entries]
        acknowledged.extend(zip(ids, changes, strict=True))
        return size, sum(changes)

    return one if size == 1 else many


def _amount(number: int) -> int:
    return number % AMOUNTS + 1


async def check_history(readers: Sequence[Ledger], acknowledged: Acknowledged) -> Counter[str]:
    """Return the write units of the counter's items in the regions, by the second of their ids.

    Raises:
        LedgerError: a region's history lacks a change that was acknowledged, has one twice, with
            another amount, or that nobody was told of. Or its items are more in one second than a
            partition takes.
    """
    for reader in readers:
        found = [(entry.id, int(entry.change)) async for entry in reader.history(COUNTER)]
        if sorted(found) != sorted(acknowledged):
            raise LedgerError(
                f"the history of {reader.region} has {len(found)} changes, of which"
                f" {len({*found})} differ; {len(acknowledged)} were acknowledged"
            )
        units = await _units_by_second(reader.store)
        second, most = units.most_common(1)[0]
        if most > PARTITION_UNITS_PER_SECOND:
            raise LedgerError(
                f"{most} write units of {COUNTER!r} at {second}:"
                f" a partition takes {PARTITION_UNITS_PER_SECOND:,.0f}"
            )
    return units


async def _units_by_second(store: Store) -> Counter[str]:
    units = Counter[str]()
    query = Query(keys.partition_key(COUNTER, 0))
    while True:
        page = await store.query(query)
        for item in page.items:
            units[item["sk"]["S"][_SECOND]] += write_units(item_size(item))
        if page.after is None:
            return units
        query = query.next(page)


async def check_totals(readers: Sequence[Ledger], expected: int) -> None:
    """Check that all is merged, and that no region has counted a change twice or not at all.

    Raises:
        LedgerError: a total differs, or entries are left.
    """
    for reader in readers:
        total = await reader.total(COUNTER, max_age=0)
        if total.value != expected or total.entries:
            raise LedgerError(
                f"{COUNTER!r} is {total.value} with {total.entries} entries in {reader.region}"
                f" instead of {expected} with none"
            )


def _told(found: Measured, kept: int, units: Counter[str], of_life: float) -> Measured:
    """Return the figures with those of the items; `of_life` are all units until all is merged.

    What was kept has the first call of each process, too.
    """
    extra = {
        "changes a second": found.work / found.seconds,
        "units in the busiest second": float(max(units.values())),
        "changes of a unit": kept / sum(units.values()),
        "units of a change's life": of_life / kept,
    }
    return replace(found, units=found.units or float(sum(units.values())), extra=extra)
