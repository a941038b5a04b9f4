"""Leaving hints: in the background, each once, bounded, and harmless whatever goes wrong."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import anyio
import pytest
from support.ledgers import HOME, make_settings, sample, seeded

from ledger.core.entry import entry_id
from ledger.core.errors import AccessDenied, StoreError, Throttled
from ledger.core.hints import HINT_PARTITIONS, hint_for
from ledger.core.values import Entry
from ledger.reads.total import Total
from ledger.runtime.metrics import Metrics
from ledger.runtime.services import Services
from ledger.session.assembly import GivenConnections
from ledger.session.ledger import Ledger
from ledger.store.memory import MemoryStore
from ledger.store.wrappers.faults import Fault, FaultCall, FaultyStore, Lost, Raises
from ledger.store.wrappers.meter import MeteredStore
from ledger.testing.clock import START, ManualClock
from ledger.writes import hint_writer
from ledger.writes.hint_writer import HintWatch, HintWriter

SETTLE = 900.0


@dataclass
class Desk:
    """Hints over a store in memory, some of whose requests may go wrong."""

    hints: HintWriter
    table: MemoryStore
    metrics: Metrics
    clock: ManualClock
    calls: list[FaultCall]

    def left(self) -> list[str]:
        """Return the sort keys of the hints in the table."""
        partitions = self.table.table.partitions
        return sorted(key for name in HINT_PARTITIONS for key in partitions.get(name, {}))

    def count(self, outcome: str) -> float:
        """Return how many hints the metrics say were left or dropped."""
        return sample(self.metrics, "ledger_hints_total", region=HOME, outcome=outcome)


@asynccontextmanager
async def desk(
    *, fault: Fault | None = None, hint_every: int = 1, **overrides: Any
) -> AsyncIterator[Desk]:
    """Open a desk."""
    calls: list[FaultCall] = []

    def decide(call: FaultCall) -> Fault | None:
        calls.append(call)
        return fault

    table, metrics, clock = MemoryStore(HOME), Metrics(), ManualClock(START)
    settings = make_settings(
        settle=SETTLE, signature_lifetime=300, compactor={"hint_every": hint_every}, **overrides
    )
    async with anyio.create_task_group() as tasks:
        made = HintWriter(
            FaultyStore(table, decide),
            settings=settings,
            services=Services(clock, seeded(), metrics),
            tasks=tasks,
        )
        yield Desk(made, table, metrics, clock, calls)
        tasks.cancel_scope.cancel()


def entry(counter: str = "counter", *, seconds: float = 0.0, suffix: int = 0) -> Entry:
    """Return an entry written so long after the start."""
    one = entry_id(START + timedelta(seconds=seconds), suffix)
    return Entry(counter, str(one), Decimal(1))


def key_of(counter: str = "counter", *, seconds: float = 0.0) -> str:
    """Return the sort key of the hint for it."""
    hint = hint_for(counter, START + timedelta(seconds=seconds), settle=SETTLE)
    assert hint is not None
    return hint.sort_key


async def test_a_hint_is_left_in_the_background() -> None:
    """The call returns before anything is sent, and then one batch goes out."""
    async with desk() as one:
        one.hints.wrote(entry("a"))
        one.hints.wrote_all([entry("b"), entry("c")])
        assert not one.calls
        await one.clock.run_pending()
        assert one.left() == [key_of("a"), key_of("b"), key_of("c")]
        assert [call.operation for call in one.calls] == ["write_batch"]
        assert (one.count("left"), one.count("dropped")) == (3, 0)


async def test_no_hint_for_a_counter_that_is_not_merged() -> None:
    """A visit would read its whole collection in every region for nothing."""
    async with desk(unmerged=["audit/*"]) as one:
        one.hints.wrote_all([entry("audit/x"), entry("audits")])
        await one.clock.run_pending()
        assert one.left() == [key_of("audits")]


async def test_a_busy_counter_leaves_one_hint_a_span() -> None:
    """A thousand entries of one counter cost a hint for each span of time, not one each."""
    async with desk() as one:
        for second in range(1000):
            one.hints.wrote(entry(seconds=second, suffix=second))
        await one.clock.advance(10)
        assert one.left() == sorted({key_of(seconds=second) for second in range(1000)})
        assert len(one.left()) == 4
        assert one.count("left") == 4


async def test_only_the_chosen_leave_hints() -> None:
    """An entry leaves a hint or not by its id, so its repeats leave the same."""
    async with desk(hint_every=256) as one:
        suffixes = [0x00FF, 0x0100, 0xFFFF, 0x1_0000]
        one.hints.wrote_all([entry(f"c{suffix:x}", suffix=suffix) for suffix in suffixes])
        await one.clock.run_pending()
        assert one.left() == [key_of("c10000"), key_of("cff")]
    async with desk(hint_every=0) as none:
        none.hints.wrote_all([entry(f"c{suffix:x}", suffix=suffix) for suffix in suffixes])
        await none.clock.run_pending()
        assert not none.calls


async def test_hints_are_spread_over_time() -> None:
    """Many at once go out in batches of 25, four batches a second, and none is forgotten."""
    async with desk() as one:
        one.hints.wrote_all([entry(f"c{number}") for number in range(100)])
        await one.clock.run_pending()
        assert len(one.left()) == 25
        await one.clock.advance(2 * hint_writer.PAUSE_SECONDS)
        assert len(one.left()) == 75
        await one.clock.advance(2 * hint_writer.PAUSE_SECONDS)
        assert len(one.left()) == 100


async def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hints beyond the bound are dropped and counted; the caller notices nothing."""
    monkeypatch.setattr(hint_writer, "WAITING_MAX", 30)
    monkeypatch.setattr(hint_writer, "LEFT_MAX", 20)
    async with desk() as one:
        one.hints.wrote_all([entry(f"c{number}") for number in range(50)])
        assert one.count("dropped") == 20
        await one.clock.advance(5)
        assert len(one.left()) == 30
        assert len(one.hints._left) <= 20


@pytest.mark.parametrize("fault", [Raises(Throttled("slow down")), Lost()])
async def test_a_hint_that_fails_is_dropped(fault: Fault) -> None:
    """What cannot be left is not tried again, and later hints are."""
    async with desk(fault=fault) as one:
        one.hints.wrote(entry("a"))
        await one.clock.advance(1)
        one.hints.wrote(entry("b"))
        await one.clock.advance(1)
        assert len(one.calls) == 2
        assert (one.count("left"), one.count("dropped")) == (0, 2)


async def test_without_permission_none_is_tried_twice() -> None:
    """Where policies do not let a process leave hints, it stops asking."""
    async with desk(fault=Raises(AccessDenied("not for you"))) as one:
        for number in range(3):
            one.hints.wrote(entry(f"c{number}"))
            await one.clock.advance(1)
        await one.hints.close()
        assert len(one.calls) == 1


async def test_closing_leaves_what_waits() -> None:
    """A process that writes and ends still leaves its hints, and waits for a moment at most."""
    store = MemoryStore(HOME)
    settings = make_settings(compactor={"hint_every": 1})
    clock = ManualClock(START)
    async with Ledger(
        settings,
        region=HOME,
        given=GivenConnections(store=store),
        services=Services.of(clock=clock, randomness=seeded()),
    ) as one:
        await one.record("counter", 1)
    assert len(MemoryStore(HOME, store.table).table.partitions) == 2


async def test_no_call_fails_for_a_hint() -> None:
    """A ledger whose hints all fail records and reads as ever."""

    def decide(call: FaultCall) -> Fault | None:
        error: StoreError = Throttled("slow down")
        return Raises(error) if call.operation == "write_batch" else None

    store = FaultyStore(MemoryStore(HOME), decide)
    settings = make_settings(compactor={"hint_every": 1})
    async with Ledger(
        settings,
        region=HOME,
        given=GivenConnections(store=store),
        services=Services.of(randomness=seeded()),
    ) as ledger:
        await ledger.record("counter", 1, key="k", at=datetime.now(UTC))
        await ledger.record_together([("counter", 1), ("counter", 2)])
        assert (await ledger.total("counter", max_age=0)).value == 4


def total(*, seconds: float, entries: int = 100, versions: Any = ("v1",)) -> Total:
    """Return a total read so long after the start."""
    at = START + timedelta(seconds=seconds)
    return Total("counter", Decimal(0), at, HOME, entries, versions=versions, ended=at)


def watched(*totals: Total) -> list[bool]:
    """Return after which totals a watch says that the collection is neglected."""
    watch = HintWatch(entries_min=100, settle=SETTLE)
    return [watch.neglected_since(one) is not None for one in totals]


def test_a_long_collection_that_is_not_merged_is_noticed() -> None:
    """Long on the same nets for over twice settle: no one merges it. Then time starts over."""
    moments = (0, 1800, 1801, 1900, 3601, 3602)
    found = watched(*(total(seconds=moment) for moment in moments))
    assert found == [False, False, True, False, False, True]


def test_a_collection_that_is_merged_is_not() -> None:
    """A new net, or a short collection in between, begins the time again."""
    assert not any(watched(total(seconds=0), total(seconds=1801, versions=("v2",))))
    short = total(seconds=900, entries=99)
    assert not any(watched(total(seconds=0), short, total(seconds=1801)))


def test_what_is_watched_is_bounded() -> None:
    """Of more long collections than the bound the least recently read are given up."""
    watch = HintWatch(entries_min=100, settle=SETTLE)
    for number in range(hint_writer.WATCHED_MAX + 10):
        watch.neglected_since(replace(total(seconds=0), counter=f"c{number}"))
    assert len(watch._seen) == hint_writer.WATCHED_MAX


async def test_a_reader_leaves_a_hint_for_what_is_neglected() -> None:
    """It is for the time at which the entries were seen first, so that it is ripe at once."""
    async with desk(hint_every=100) as one:
        one.hints.read(total(seconds=0))
        one.hints.read(replace(total(seconds=1801), cached=True))
        assert not one.hints._waiting
        one.hints.read(total(seconds=1801))
        await one.clock.run_pending()
        assert one.left() == [key_of(seconds=0)]


async def test_closing_while_everything_is_cancelled_ends() -> None:
    """A ledger with hints still waiting is closed by a cancellation, at once and without them."""
    store = MemoryStore(HOME)
    settings = make_settings(compactor={"hint_every": 1})
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:

            async def write() -> None:
                ledger = Ledger(
                    settings,
                    region=HOME,
                    given=GivenConnections(store=store),
                    services=Services.of(randomness=seeded()),
                )
                async with ledger:
                    await ledger.record_many([(f"c{number}", 1) for number in range(60)])
                    tasks.cancel_scope.cancel()
                    await anyio.sleep_forever()

            tasks.start_soon(write)
    left = [key for name in HINT_PARTITIONS for key in store.table.partitions.get(name, {})]
    assert len(left) <= 50


@pytest.mark.parametrize("per_counter", [1, 100, 5_000])
async def test_what_hints_cost(per_counter: int) -> None:
    """Left and deleted, hints cost 2 units in a hundred entries at most, far less where it is busy.

    20,000 entries are written by one process within 20 minutes, a few or many of each counter.
    """
    metrics, clock, chance = Metrics(), ManualClock(START), seeded()
    store = MeteredStore(MemoryStore(HOME), metrics=metrics, clock=clock)
    async with anyio.create_task_group() as tasks:
        services = Services(clock, seeded(), metrics)
        made = HintWriter(store, settings=make_settings(), services=services, tasks=tasks)
        count = 20_000
        for number in range(count):
            seconds, suffix = 1200 * number / count, chance.getrandbits(64)
            one = entry(f"c{number % (count // per_counter)}", seconds=seconds, suffix=suffix)
            made.wrote(one)
            if number % 500 == 0:
                await clock.advance(10)
        await clock.advance(60)
        tasks.cancel_scope.cancel()
    units = 2 * sample(metrics, "ledger_consumed_units_total", kind="write")  # and to delete them
    print(f"\n  {per_counter} entries of each counter: {units / count:.5f} units an entry")
    assert sample(metrics, "ledger_hints_total", outcome="dropped") == 0
    assert 0 < units / count < (0.0022 if per_counter == 5_000 else 0.022)
