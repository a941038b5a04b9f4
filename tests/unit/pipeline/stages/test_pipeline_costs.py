"""The units of a message and a category, by the meter, as docs/reference/costs.md has them."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from decimal import Decimal
from operator import itemgetter
from pathlib import Path
from random import Random

import anyio
import pytest
from prometheus_client import CollectorRegistry
from support.audits import rebuilt
from support.lanes import lane_worker
from support.ledgers import HOME, LOCAL, make_settings, sample, seeded
from support.pipeline_reduces import by_adding, by_batches, by_transaction
from support.pipelines import CATEGORIES, FIELDS, deliveries, message, pipeline_settings

import ledger
from compactor.job import Compactor
from ledger.pipeline.auditing import rebuild
from ledger.pipeline.auditing.rebuild import TOGETHER_MAX
from ledger.pipeline.core.items import MapItem, map_item, map_item_of
from ledger.pipeline.core.plans import plan_reduce
from ledger.reads.reader import Reader
from ledger.runtime.metrics import Metrics
from ledger.runtime.services import Services
from ledger.settings import Settings
from ledger.store.memory import MemoryStore, MemoryTable
from ledger.store.port import Store
from ledger.store.wrappers.meter import MeteredStore
from ledger.store.writes import Put
from ledger.testing.clock import START, ManualClock

PAGE = Path(ledger.__file__).parent / "docs/reference/costs.md"
TRADES = 100
MANY = 3800
OPENING_READS = 3
"""The lane, the pipeline's home, and whether an audit runs."""
OPENING = 4
"""Of a new lane: its entry and its form in the registry, and its item opened and closed."""
RISK, DESK = "{Hierarchy.RiskType}", "{Hierarchy.Desk}"
AXES = {"risk": RISK, "desk": DESK, "both": f"{RISK}/{DESK}"}
Reduce = Callable[[Store, Sequence[MapItem], Settings, datetime], Awaitable[None]]


class Meter:
    """A store that is metered, and what was consumed through it."""

    def __init__(self, table: MemoryTable | None = None) -> None:
        self.metrics = Metrics()
        self.inner = MemoryStore(HOME, table)
        self.store = MeteredStore(self.inner, metrics=self.metrics, clock=ManualClock(instant=True))

    def units(self, kind: str = "write", **labels: str) -> float:
        """Return the units of a kind."""
        return sample(self.metrics, "ledger_consumed_units_total", kind=kind, **labels)


async def cost_of(
    raws: Sequence[bytes], table: MemoryTable | None = None, *, batch_max: int = TRADES
) -> tuple[float, float]:
    """Return the write and read units of the states of these records, for each record."""
    meter = Meter(table)
    await lane_worker(deliveries(raws), meter.store, lane="next", batch_max=batch_max).run()
    is_first = table is None  # it settles the home, and looks for it three times
    reads = meter.units("read", operation="get") - OPENING_READS - 2 * is_first
    reads += meter.units("read", operation="get_each")
    writes = meter.units(operation="put") + meter.units(operation="each") - OPENING - is_first
    return writes / len(raws), reads / len(raws)


def versions(version: int) -> list[bytes]:
    """Return a version of every record."""
    return [message(f"T{number}", version, version + number) for number in range(TRADES)]


def messages() -> list[bytes]:
    """Return two versions of each record, one in twenty doubled, one in twenty too early."""
    draw = Random(7)  # noqa: S311 (repeatable)
    made: list[tuple[int, bytes]] = []
    for number in range(2 * MANY):
        version, record = divmod(number, MANY)
        risk, desk = f"R{record % 8}", f"D{record // 8 % 12}"
        raw = message(f"T{record}", version + 1, draw.randrange(10**6), risk, desk)
        early = 200 if draw.random() < 0.05 else 0
        made += [(number - early, raw)] * (2 if draw.random() < 0.05 else 1)
    return [raw for _, raw in sorted(made, key=itemgetter(0))]


async def known() -> MemoryTable:
    """Return a table with version 1 of every record."""
    meter = Meter()
    await lane_worker(deliveries(versions(1)), meter.store).run()
    return meter.inner.table


async def test_a_new_trade_costs_one_write_unit() -> None:
    """The first version is put where nothing is: no read, one unit."""
    assert await cost_of(versions(1)) == (1.0, 0.0)


async def test_a_correction_of_a_trade_that_is_remembered_costs_one_write_unit() -> None:
    """Two versions in two batches: the second is put over the first without a look."""
    assert await cost_of([*versions(1), *versions(2)]) == (1.0, 0.0)


async def test_a_correction_of_a_trade_that_is_not_remembered_costs_two_and_a_read() -> None:
    """A put that meets a state is charged, then it is read; reading first costs each new one."""
    writes, reads = await cost_of(versions(2), await known())
    assert writes == 2.0
    assert 1.0 <= reads <= 1.01  # its state, and another lane's position, once


async def test_corrections_of_trades_that_are_not_remembered_come_to_cost_one_and_a_read() -> None:
    """Where one batch met many states, those of the next ones are read before the first try."""
    writes, reads = await cost_of(versions(2), await known(), batch_max=TRADES // 10)
    assert writes == 1.1  # the first batch of ten was refused
    assert 1.0 <= reads <= 1.01
    new = [message(f"N{number}", 1, number) for number in range(2 * TRADES)]
    mixed = [*versions(2)[:10], *new]
    writes, reads = await cost_of(mixed, await known(), batch_max=10)
    assert writes * len(mixed) == pytest.approx(10 + len(mixed))
    position = 0.5  # of the other lane
    assert reads * len(mixed) == pytest.approx(10 + position + 2 * 10)  # two batches read first


async def test_a_duplicate_record_costs_nothing_while_it_is_remembered() -> None:
    """Repeats of remembered versions write and read nothing; others a refused put and a read."""
    moves = 1  # of the lane's position, for each batch that changes nothing
    raws = [*versions(1), *versions(1), *versions(1)]
    assert await cost_of(raws) == ((TRADES + 2 * moves) / len(raws), 0.0)
    assert await cost_of(versions(1), await known()) == ((TRADES + moves) / TRADES, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("batch_max", "work"),
    [(100, "map and reduce, batches of 100"), (500, "of 500"), (2000, "of 2,000")],
)
async def test_larger_batches_share_the_units_of_map_and_reduce(batch_max: int, work: str) -> None:
    """As the page says, for records with three categories each."""
    meter, raws = Meter(), messages()
    categories = [f"{name}/{axis}" for name, axis in AXES.items()]
    records = deliveries(raws)
    await lane_worker(records, meter.store, batch_max=batch_max, categories=categories).run()
    totals = [one for one in meter.inner.table.partitions if one.startswith(tuple(AXES))]
    state = (meter.units(operation="put") + meter.units(operation="each")) / len(raws)
    shared = meter.units(operation="transaction") / len(raws)
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert f"{len(raws):,} messages of {MANY:,} records" in page
    assert f"three categories each out of {len(totals)}" in page
    assert f"| state | {state:.2f} |" in page
    assert f"| {work} | {shared:.2f} |" in page


async def test_a_batch_costs_its_map_item_and_its_position() -> None:
    """A commit is a transaction of two small items; a batch without changes moves the position."""
    meter = Meter()
    await lane_worker(deliveries(versions(1)), meter.store, batch_max=TRADES).run()
    commit = 2 * (1 + 1)
    reduce = 2 * (2 + 1)  # two categories, one map item
    assert meter.units(operation="transaction") == commit + reduce
    meter = Meter(meter.inner.table)
    again = deliveries(versions(1))
    await lane_worker(again, meter.store, lane="again", batch_max=TRADES).run()
    assert meter.units(operation="transaction") == 0
    assert meter.units(operation="put") == 1 + OPENING
    assert meter.units(operation="each") == TRADES
    meter = Meter(meter.inner.table)
    more = deliveries([*versions(1), *versions(2)])
    await lane_worker(more, meter.store, lane="again", batch_max=TRADES).run()
    assert meter.units(operation="transaction") == commit + reduce
    assert meter.units(operation="put") == 2  # opened and closed
    assert meter.units(operation="each") == 2 * TRADES  # after those refused


CHOICES: list[tuple[Reduce, int, int]] = [
    (by_transaction, 2, 2),
    (by_batches, 1, 1),
    (by_adding, 2, 2),
]
"""Of each choice: write units for each category, and for each KB of a map item."""


@pytest.mark.parametrize(("reduce", "of_category", "of_map_item"), CHOICES)
@pytest.mark.parametrize("batches", [1, 20])
async def test_what_each_choice_of_reduce_costs(
    reduce: Reduce, of_category: int, of_map_item: int, batches: int
) -> None:
    """Units grow with categories and map items, not with messages: gathering saves most."""
    categories = {f"desk/EMEA/equities/{number:02d}": Decimal(number + 1) for number in range(50)}
    made = [map_item(f"{HOME}/lane", f"{n:064d}", 0, categories) for n in range(batches)]
    meter = Meter()
    for item in made:
        await meter.inner.write(Put(item))
    items = [map_item_of(item) for item in made]
    assert {-(-item.size_bytes // 1024) for item in items} == {2}
    await reduce(meter.store, items, pipeline_settings(), START)
    assert meter.units() == 50 * of_category + batches * 2 * of_map_item
    assert meter.inner.table.partitions.keys() == categories.keys()


BATCHES_A_SECOND = 4
CATEGORY = "risk/Delta"
WRITING = ("transaction", "batch", "put")
"""Operations that write entries, nets and sums; few puts are of the compactor's own items."""


class LiveCategory:
    """A category that gets a batch four times a second, beside a compactor, for some time."""

    def __init__(self, totals: str) -> None:
        self.clock = ManualClock()
        self.settings = make_settings(
            home=HOME,
            regions={HOME: LOCAL},
            pipeline={"fields": FIELDS, "categories": CATEGORIES, "totals": totals},
            compactor={"hint_every": 0, "scan_every": 0},
        )
        self.table = MemoryTable()
        self.reduces = 0
        self.reading: list[float] = []
        self.writing = Meter(self.table)
        self.compactor = Compactor(
            self.settings,
            stores={HOME: self.writing.store},
            services=Services.of(
                clock=self.clock, randomness=seeded(), registry=CollectorRegistry()
            ),
            registry=CollectorRegistry(),
        )

    async def live(self, minutes: int) -> None:
        """Reduce, merge each minute, read after each, and merge what is left in the end."""
        while self.clock.elapsed < minutes * 60.0:
            while self.reduces < self.clock.elapsed * BATCHES_A_SECOND:
                await self._reduce()
            if self.clock.elapsed > minutes * 30.0:
                self.reading.append(await self.read())
            await self._merge()
        for _ in range(4):
            await self.clock.advance(self.settings.settle)
            await self._merge()

    async def read(self) -> float:
        """Return the read units of the category's total."""
        meter = Meter(self.table)
        reader = Reader(meter.store, settings=self.settings, services=Services.of(clock=self.clock))
        assert (await reader.total(CATEGORY)).value == self.reduces
        return meter.units("read", operation="query")

    async def _reduce(self) -> None:
        """Reduce one map item, whose own put and delete are not of the category."""
        self.reduces += 1
        item = map_item(f"{HOME}/lane", f"{self.reduces:064d}", 0, {CATEGORY: Decimal(1)})
        await self.writing.inner.write(Put(item))
        plan = plan_reduce(
            [map_item_of(item)], region=HOME, settings=self.settings, now=self.clock.now()
        )
        await self.writing.store.transact(plan.actions, token=plan.token)

    async def _merge(self) -> None:
        """Let the compactor do one pass, and time pass until the next minute."""
        is_over = False

        async def run() -> None:
            nonlocal is_over
            await self.compactor.run_once()
            is_over = True

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            while not is_over:
                await self.clock.advance(1.0)
        await self.clock.advance(60.0 - self.clock.elapsed % 60.0)

    @property
    def units(self) -> float:
        """Write units of the category for each reduce: transactions of it, deletes and folds."""
        written = sum(self.writing.units(operation=name) for name in WRITING)
        return written / self.reduces - 2  # the map item's delete


@pytest.mark.slow
@pytest.mark.parametrize(("totals", "writes", "reads"), [("sums", 2.0, 1), ("entries", 3.03, 117)])
async def test_what_a_live_category_costs(totals: str, writes: float, reads: int) -> None:
    """A sum costs one read unit; entries are read until they settle, then merged and deleted."""
    category = LiveCategory(totals)
    await category.live(80)
    assert category.units == pytest.approx(writes, abs=0.02)
    assert max(category.reading) == reads


@pytest.mark.parametrize(("together", "units"), [(TOGETHER_MAX, 2.32), (1, 8.2)])
async def test_what_a_rebuild_costs(
    monkeypatch: pytest.MonkeyPatch, together: int, units: float
) -> None:
    """Many share a transaction, a map item and its reduce; of the new image already: none."""
    monkeypatch.setattr(rebuild, "TOGETHER_MAX", together)
    meter = Meter(await known())
    done = await rebuilt(meter.store, categories=["both/{Hierarchy.RiskType}/{Hierarchy.Desk}"])
    assert done.rewritten == TRADES
    first = meter.units() / TRADES
    assert first == pytest.approx(units)
    await rebuilt(meter.store, categories=["both/{Hierarchy.RiskType}/{Hierarchy.Desk}"])
    assert meter.units() / TRADES - first < 0.2
