import dataclasses

import pytest
from support.counting import known_counter, make_counter
from support.ledgers import HOME, sample

from ledger.primitives.counters import METHODS, new_token
from ledger.runtime.metrics import Metrics
from ledger.store.memory import MemoryStore
from ledger.store.wrappers.meter import MeteredStore
from ledger.testing.clock import ManualClock

CHANGES = 10
UNITS = "ledger_consumed_units_total"


@pytest.mark.parametrize("method", METHODS)
async def test_the_cost_is_what_the_guarantees_say(method: str) -> None:
    """Units of an uncontended change and of a value are as stated, by the meter."""
    metrics, clock = Metrics(None), ManualClock(instant=True)
    store = MeteredStore(MemoryStore(HOME), metrics=metrics, clock=clock)
    counter = make_counter(method, store, clock=clock)

    def units(kind: str) -> float:
        return sample(metrics, "ledger_consumed_units_total", kind=kind)

    await counter.add(1)  # the first one may have to find its shards
    before = units("write"), units("read")
    for _ in range(CHANGES):
        await counter.add(1)
    promised = METHODS[method].guarantees
    assert (units("write") - before[0]) / CHANGES == promised.write_units
    assert (units("read") - before[1]) / CHANGES == promised.read_units
    before = units("write"), units("read")
    await counter.value()
    assert (units("write") - before[0], units("read") - before[1]) == (0, promised.value_units)


@pytest.mark.parametrize("method", METHODS)
def test_guarantees_are_whole_sentences(method: str) -> None:
    """Every method says something of everything."""
    promised = METHODS[method].guarantees
    for field in dataclasses.fields(promised):
        said = getattr(promised, field.name)
        assert not isinstance(said, str) or len(said) > 20, field.name


async def test_what_a_change_of_layout_costs() -> None:
    """3 write and 2 read units for each item, 3 and 4 besides, as the page says."""
    metrics, clock = Metrics(None), ManualClock(instant=True)
    store = MeteredStore(MemoryStore(HOME), metrics=metrics, clock=clock)
    counter = make_counter("atomic", store, clock=clock)
    await counter.add(90)
    before = [sample(metrics, UNITS, kind=kind) for kind in ("write", "read")]
    await counter.convert(shards=8)
    after = [sample(metrics, UNITS, kind=kind) for kind in ("write", "read")]
    assert [one - other for one, other in zip(after, before, strict=True)] == [27, 20]


async def test_what_the_first_change_of_a_counter_costs_more() -> None:
    """6 read units and 1 write unit, as the page says."""
    metrics, clock = Metrics(None), ManualClock(instant=True)
    store = MeteredStore(MemoryStore(HOME), metrics=metrics, clock=clock)
    await make_counter("atomic", store, clock=clock).add(1)
    assert [sample(metrics, UNITS, kind=kind) for kind in ("write", "read")] == [1 + 1, 6]


async def test_the_history_stays_within_a_write_unit() -> None:
    """With tokens of `new_token` a full history is still an item of 1 KB."""
    metrics, clock = Metrics(None), ManualClock(instant=True)
    store = MeteredStore(MemoryStore(HOME), metrics=metrics, clock=clock)
    counter = known_counter("history", store, clock=clock)
    for _ in range(30):
        await counter.add(1, token=new_token(clock.now(), counter.randomness))
    assert sample(metrics, "ledger_consumed_units_total", kind="write") == 30
