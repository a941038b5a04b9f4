import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

import anyio
import pytest
from prometheus_client import CollectorRegistry
from support.lanes import committed, lane_worker
from support.ledgers import HOME, sample, seeded
from support.pipelines import (
    BOTH_HOMES,
    FIELDS,
    POISON,
    RAWS,
    deliveries,
    map_items,
    message,
    position,
    shown,
    truth,
)

from ledger.core.errors import (
    AccessDenied,
    ContractStale,
    LedgerError,
    SettingsError,
    SignedTooLate,
    Throttled,
    Unreachable,
)
from ledger.pipeline.core.records import Delivery
from ledger.pipeline.metrics import PipelineMetrics
from ledger.pipeline.sources.dead_letters import DeadLetterList, DeadRecord
from ledger.pipeline.sources.source import ListSource
from ledger.pipeline.stages.worker import RESTARTS
from ledger.reads.history import HistoryRange, history
from ledger.runtime.metrics import Metrics
from ledger.store.memory import MemoryStore
from ledger.store.reads import Page, Query
from ledger.store.retrier import BACKOFF
from ledger.store.wrappers.faults import (
    Fault,
    FaultCall,
    FaultyStore,
    InOrder,
    Late,
    Lost,
    NeverArrived,
    Raises,
)
from ledger.store.writes import Action, Outcome, Rejected
from ledger.testing.clock import ManualClock


async def test_the_newest_version_of_each_trade_counts() -> None:
    """Corrections move between categories; duplicates and stale versions change nothing."""
    store = MemoryStore(HOME)
    await lane_worker(deliveries(RAWS), store).run()
    assert shown(store.table) == truth(RAWS)
    assert shown(store.table) == {"risk/Delta": Decimal("42.50"), "desk/EMEA/B": Decimal("42.50")}
    assert map_items(store.table) == []


@pytest.mark.parametrize("batch_max", [1, 2, 3, 100])
async def test_a_lane_run_again_changes_nothing(batch_max: int) -> None:
    """From its committed position a lane has nothing left; read again by another name, neither."""
    store = MemoryStore(HOME)
    for lane in ("one", "one", "two"):
        await lane_worker(deliveries(RAWS), store, lane=lane, batch_max=batch_max).run()
        assert shown(store.table) == truth(RAWS)


async def test_two_pipelines_of_one_table_know_nothing_of_each_other() -> None:
    """The same records, lanes and positions counted by another form leave the first as it was."""
    store = MemoryStore(HOME)
    forms = {"risk": "Value", "notional": "Notional"}

    def raws(version: int, value: int, notional: int) -> list[bytes]:
        told = {"TradeID": "T1", "Version": version, "Value": value, "Notional": notional, "K": "k"}
        return [json.dumps(told).encode()]

    async def bring_in(name: str, records: list[bytes]) -> None:
        fields = {**FIELDS, "value": forms[name]}
        options: dict[str, Any] = {"name": name, "fields": fields, "categories": [f"{name}/{{K}}"]}
        await lane_worker(deliveries(records), store, **options).run()

    for name in forms:
        await bring_in(name, raws(1, 10, 300))
    assert shown(store.table) == {"risk/k": 10, "notional/k": 300}
    await bring_in("risk", raws(1, 10, 300) + raws(2, 20, 300))
    assert shown(store.table) == {"risk/k": 20, "notional/k": 300}


async def test_records_are_counted_beside_their_values() -> None:
    """Each record is one in the categories of its newest version, whatever its value."""
    store, measures = MemoryStore(HOME), {"count": ["trades/{Hierarchy.Desk}", "trades"]}
    raws = [*RAWS, message("T3", 1, 0, desk="B"), message("T4", 1, 0, desk="A")]
    for lane in ("one", "two"):
        await lane_worker(deliveries(raws), store, lane=lane, batch_max=2, measures=measures).run()
    assert shown(store.table) == truth(raws) | {"trades/A": 1, "trades/B": 3, "trades": 4}


async def test_a_counter_is_a_sum_or_a_count() -> None:
    """What would be both is a dead letter: 1 and a value are not added up."""
    store, letters = MemoryStore(HOME), DeadLetterList()
    measures = {"count": ["risk/{Hierarchy.RiskType}"]}
    await lane_worker(deliveries(RAWS[:1]), store, letters=letters, measures=measures).run()
    assert shown(store.table) == {}
    assert "risk/Delta is of pipeline.categories and pipeline.measures" in letters.letters[0].reason


async def test_entries_are_ordinary_ones() -> None:
    """History shows what reduce wrote as it shows any other entry, where entries are wanted."""
    store = MemoryStore(HOME)
    await lane_worker(deliveries(RAWS), store, totals="entries").run()
    found = history(store, HistoryRange("risk/Delta"), consistent=True)
    entries = [one async for one in found]
    assert [(entry.change, entry.region, entry.at is not None) for entry in entries] == [
        (Decimal("42.50"), HOME, True)
    ]


async def test_poison_goes_to_the_dead_letters_and_the_rest_goes_on() -> None:
    """A record that cannot be taken is kept with its place and reason; the others count."""
    store, letters = MemoryStore(HOME), DeadLetterList()
    raws = [RAWS[0], POISON, RAWS[1], b"no json"]
    await lane_worker(deliveries(raws), store, letters=letters, batch_max=2).run()
    assert shown(store.table) == truth([RAWS[0], RAWS[1]])
    assert [(letter.lane, letter.position, letter.raw) for letter in letters.letters] == [
        (f"{HOME}/lane", position(2), POISON),
        (f"{HOME}/lane", position(4), b"no json"),
    ]
    assert "no field Hierarchy.RiskType" in letters.letters[0].reason
    assert committed(store) == position(4)


async def test_a_letter_that_cannot_be_kept_stops_the_lane() -> None:
    """The position does not pass a record that is kept nowhere."""

    class Full(DeadLetterList):
        async def add(self, letters: Sequence[DeadRecord]) -> None:
            raise LedgerError(f"the disk is full, {len(letters)} are lost")

    store = MemoryStore(HOME)
    with pytest.raises(LedgerError, match="disk is full"):
        await lane_worker(deliveries([RAWS[0], POISON]), store, letters=Full(), batch_max=1).run()
    assert committed(store) in {"", position(1)}


async def test_what_another_left_is_reduced_first() -> None:
    """Map items of a worker that died before reduce are added up by the next one."""
    store = MemoryStore(HOME)
    await _die_before_reduce(store)
    assert shown(store.table) == {}
    assert map_items(store.table) != []
    await lane_worker(deliveries(RAWS), store).run()
    assert shown(store.table) == truth(RAWS)
    assert map_items(store.table) == []


async def test_a_lane_that_another_moves_goes_on_from_there() -> None:
    """A worker whose commit is refused begins again at the position that is there."""
    store, metrics = MemoryStore(HOME), PipelineMetrics()

    class Overtaken(MemoryStore):
        async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
            if committed(store) == "":
                await lane_worker(deliveries(RAWS[:1]), store).run()
            return await super().transact(actions, token=token)

    await lane_worker(
        deliveries(RAWS), Overtaken(HOME, store.table), metrics=metrics, batch_max=2
    ).run()
    assert shown(store.table) == truth(RAWS)
    assert _count(metrics, "ledger_pipeline_restarts_total", cause="LaneFenced") == 1


async def test_what_another_committed_meanwhile_is_reduced() -> None:
    """Anyone who commits after a worker looked, and dies, leaves nothing behind: it looks again."""
    store = MemoryStore(HOME)

    class Meanwhile(MemoryStore):
        async def query(self, query: Query) -> Page:
            page = await super().query(query)
            if committed(store) == "":
                await _die_before_reduce(store)
            return page

    await lane_worker([], Meanwhile(HOME, store.table)).run()
    assert shown(store.table) == truth(RAWS)
    assert map_items(store.table) == []


async def _die_before_reduce(store: MemoryStore) -> None:
    """Let a worker commit everything and add up nothing."""

    def dies(call: FaultCall) -> Fault | None:
        is_reduce = call.operation == "transact" and map_items(store.table) != []
        return Raises(AccessDenied("killed")) if is_reduce else None

    with pytest.raises(AccessDenied):
        await lane_worker(deliveries(RAWS), FaultyStore(store, dies)).run()


@pytest.mark.parametrize("fault", [Lost(), NeverArrived(), Late()])
@pytest.mark.parametrize("stage", ["map", "reduce"])
async def test_a_long_silence_is_no_answer(stage: str, fault: Fault) -> None:
    """After more tries in the dark than one request is given, nothing is taken for done."""
    store = MemoryStore(HOME)
    silent = 3 * BACKOFF.tries_max

    def decide(call: FaultCall) -> Fault | None:
        nonlocal silent
        is_reduce = map_items(store.table) != []
        if call.operation != "transact" or (stage == "reduce") != is_reduce or not silent:
            return None
        silent -= 1
        return fault

    faulty = FaultyStore(store, decide, clock=ManualClock(instant=True))
    await lane_worker(deliveries(RAWS), faulty).run()
    while faulty.in_flight:
        await faulty.land()
    assert shown(store.table) == truth(RAWS)
    assert map_items(store.table) == []


async def test_failures_that_pass_are_waited_for() -> None:
    """Throttling, lost answers and a process that freezes, in any order, end in the same totals."""
    store = MemoryStore(HOME)
    faults: list[Fault] = [
        Raises(Throttled("slow")),
        Lost(),
        NeverArrived(),
        Raises(Unreachable("gone")),
        Raises(SignedTooLate("frozen")),
    ]

    draw = seeded()

    def decide(call: FaultCall) -> Fault | None:
        if call.operation in {"get", "query"}:
            passing = draw.choice([Unreachable("gone"), ContractStale("frozen")])
            return Raises(passing) if draw.randrange(7) == 0 else None
        return draw.choice(faults) if draw.randrange(2) else None

    await lane_worker(
        deliveries(RAWS), FaultyStore(store, decide, clock=ManualClock(instant=True))
    ).run()
    assert shown(store.table) == truth(RAWS)


async def test_a_lane_that_does_not_get_on_is_given_up() -> None:
    """After so many beginnings without any progress the last failure is raised."""
    calls: list[FaultCall] = []

    def decide(call: FaultCall) -> Fault | None:
        calls.append(call)
        return Raises(Unreachable("no region"))

    with pytest.raises(Unreachable, match="no region"):
        await lane_worker(deliveries(RAWS), FaultyStore(MemoryStore(HOME), decide)).run()
    assert len(calls) == RESTARTS.tries_max + 1


async def test_what_does_not_pass_is_raised_at_once() -> None:
    """A refusal is the operator's business."""
    store = FaultyStore(MemoryStore(HOME), lambda _call: Raises(AccessDenied("no")))
    with pytest.raises(AccessDenied):
        await lane_worker(deliveries(RAWS), store).run()
    assert store.calls == 1


@pytest.mark.parametrize(
    "positions",
    [["02", "01"], ["01", "01"], ["1", "002"], [""]],
    ids=["falls", "twice", "width", "none"],
)
async def test_positions_out_of_order_stop_the_lane(positions: list[str]) -> None:
    """A source that breaks the order could count twice, or leave out: it is not believed."""
    records = [Delivery(one, message("T1", 1, 1)) for one in positions]

    class Careless(ListSource):
        async def batches(
            self, after: str, *, most: int
        ) -> AsyncGenerator[Sequence[Delivery], None]:
            del after, most
            yield records

    with pytest.raises(LedgerError, match="position"):
        await lane_worker(Careless([])).run()


async def test_a_batch_that_changes_too_much_is_cut() -> None:
    """A batch with more categories than a transaction holds is committed in pieces, exactly."""
    raws = [message(f"T{n}", 1, n + 1, risk=f"R{n}", desk=f"D{n}") for n in range(1600)]
    raws += [message(f"T{n}", 2, n, risk=f"R{n}", desk=f"D{n}x") for n in range(0, 1600, 3)]
    store = MemoryStore(HOME)
    await lane_worker(deliveries(raws), store, batch_max=10_000).run()
    assert shown(store.table) == truth(raws)
    assert map_items(store.table) == []


async def test_stop_brings_in_what_was_read() -> None:
    """A worker that waits for records stops when it is told to; all that it read is counted."""
    store = MemoryStore(HOME)

    class Endless(ListSource):
        async def batches(
            self, after: str, *, most: int
        ) -> AsyncGenerator[Sequence[Delivery], None]:
            async for batch in super().batches(after, most=most):
                yield batch
            await anyio.sleep_forever()

    worker = lane_worker(Endless(deliveries(RAWS)), store)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(worker.run)
            while not shown(store.table):
                await anyio.lowlevel.checkpoint()
            worker.stop()
    assert shown(store.table) == truth(RAWS)


async def test_whoever_asks_hears_of_records_once_they_count() -> None:
    """Positions are told once the totals show all up to them, also by who begins after a crash."""
    store, heard = MemoryStore(HOME), list[str]()

    def counted(at: str) -> None:
        assert shown(store.table) == truth(RAWS[: int(at)])
        heard.append(at)

    for crashes in range(1, 30):
        faults = FaultyStore(store, InOrder(*[None] * crashes, Raises(AccessDenied("killed"))))
        with suppress(AccessDenied):
            await lane_worker(deliveries(RAWS), faults, batch_max=2, on_counted=counted).run()
    assert heard == sorted(heard)
    assert heard.count(position(len(RAWS))) > 1


async def test_metrics_tell_each_stage() -> None:
    """In, out, duplicates, stale, dead and batch sizes are counted by stage."""
    metrics, clock = PipelineMetrics(), ManualClock(instant=True)
    await lane_worker(
        deliveries([*RAWS, POISON]), metrics=metrics, clock=clock, reduce_every=0
    ).run()
    assert {
        (stage, name): _count(metrics, f"ledger_pipeline_{name}_total", stage=stage)
        for stage in ("state", "map", "reduce")
        for name in ("in", "out")
    } == {
        ("state", "in"): 6,
        ("state", "out"): 2,
        ("map", "in"): 2,
        ("map", "out"): 1,
        ("reduce", "in"): 1,
        ("reduce", "out"): 2,
    }
    for reason, count in (("duplicate", 1), ("stale", 2), ("dead", 1)):
        found = _count(metrics, "ledger_pipeline_left_out_total", stage="state", reason=reason)
        assert found == count, reason
    assert _count(metrics, "ledger_pipeline_batch_size_sum", stage="state") == 6
    assert _count(metrics, "ledger_pipeline_retried_total") == 0


def test_one_registry_has_one_set_of_metrics() -> None:
    """Lanes of a process share their metrics by the registry."""
    registry = CollectorRegistry()
    assert PipelineMetrics.of(registry) is PipelineMetrics.of(registry)
    assert PipelineMetrics.of(None) is not PipelineMetrics.of(None)


async def test_the_compactor_is_led_to_the_totals() -> None:
    """Entries of reduce leave hints as other entries do."""
    store, ledger_metrics = MemoryStore(HOME), Metrics()
    worker = lane_worker(deliveries(RAWS), store, ledger_metrics=ledger_metrics, totals="entries")
    worker._live = worker._live.current.replace(compactor={"hint_every": 1})
    await worker.run()
    assert sample(ledger_metrics, "ledger_hints_total", outcome="left") == 2


@pytest.mark.parametrize(("watched", "left"), [("risk/*", 1), ("other", 0), (None, 0)])
async def test_the_compactor_is_led_to_watched_sums(watched: str | None, left: int) -> None:
    """Sums are not merged, but what a pass visits is compared with the watches."""
    store, ledger_metrics = MemoryStore(HOME), Metrics()
    worker = lane_worker(deliveries(RAWS), store, ledger_metrics=ledger_metrics, batch_max=2)
    watch = {"counters": watched, "above": 10}
    worker._live = worker._live.current.replace(watches={"low": watch} if watched else {})
    await worker.run()
    assert sample(ledger_metrics, "ledger_hints_total", outcome="left") == left


def test_a_store_of_every_home_is_needed() -> None:
    """A pipeline that could not write some record's state is refused before it runs."""
    with pytest.raises(SettingsError, match="eu-west-1"):
        lane_worker([], home=BOTH_HOMES)


async def test_a_commit_that_lands_late_is_refused() -> None:
    """A map commit in flight that lands after another one of the lane changes nothing."""
    store = MemoryStore(HOME)
    slow = FaultyStore(store, lambda call: Late() if call.operation == "transact" else None)
    with anyio.CancelScope() as life:

        def dies(call: FaultCall) -> Fault | None:
            if slow.in_flight:
                life.cancel()
            return Late() if call.operation == "transact" else None

        slow.decide = dies
        await lane_worker(deliveries(RAWS), slow, batch_max=5).run()
    assert committed(store) == ""
    await lane_worker(deliveries(RAWS), store, batch_max=2).run()
    while slow.in_flight:
        assert isinstance(await slow.land(), Rejected)
    await lane_worker(deliveries(RAWS), store).run()
    assert shown(store.table) == truth(RAWS)


def _count(metrics: PipelineMetrics, name: str, **labels: str) -> float:
    """Return the value of a metric over all that has these labels."""
    return sum(
        float(one.value)
        for attribute, metric in vars(metrics).items()
        if not attribute.startswith("_")
        for family in metric.collect()
        for one in family.samples
        if one.name == name and labels.items() <= one.labels.items()
    )
