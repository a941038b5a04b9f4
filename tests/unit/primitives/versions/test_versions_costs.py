"""What guarding an event costs: the table of the page of costs is what is measured."""

import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from support.guarding import Handling, condition_guard, event, lock_guard, record_put
from support.ledgers import HOME, sample

import ledger
from ledger.runtime.metrics import Metrics
from ledger.store.memory import MemoryStore
from ledger.store.port import Store
from ledger.store.wrappers.meter import MeteredStore
from ledger.store.writes import Put
from ledger.testing.clock import ManualClock

PAGE = Path(ledger.__file__).parent / "docs/reference/costs.md"
CELL = re.compile(r"([0-9.]+) / ([0-9.]+)")
Deliver = Callable[[Store, int], Awaitable[object]]


async def put(store: Store, version: int) -> object:
    """Put a record by condition."""
    place = {"pk": {"S": "record"}, "sk": {"S": "7"}}
    return await condition_guard(store).put(place, version=version)


async def delete(store: Store, version: int) -> object:
    """Delete a record by condition."""
    return await condition_guard(store).delete(("record", "7"), version=version)


async def handle(store: Store, version: int) -> object:
    """Handle an event of one action by condition."""
    return await condition_guard(store).handle(event(version), [record_put(version)])


async def lock_checked(store: Store, version: int) -> object:
    """Handle an event of one action by lock."""
    return await lock_guard(store).handle(event(version), Handling())


async def lock_plain(store: Store, version: int) -> object:
    """Handle an event of one action by lock, without a look before."""
    return await lock_guard(store, check_first=False).handle(event(version), Handling())


async def lock_counting(store: Store, version: int) -> object:
    """Handle an event of one action by lock, after a look whether it is a dead letter."""
    return await lock_guard(store, failures_max=3).handle(event(version), Handling())


WAYS: dict[str, Deliver] = {
    "`ConditionGuard.put`": put,
    "`ConditionGuard.delete`": delete,
    "`ConditionGuard.handle`, 1 action": handle,
    "`LockGuard`, 1 action": lock_checked,
    "`LockGuard`, `check_first=False`, 1 action": lock_plain,
    "`LockGuard`, `failures_max=3`, 1 action": lock_counting,
}


@pytest.mark.parametrize("way", WAYS)
async def test_the_page_states_what_is_measured(way: str) -> None:
    """A newer event and an old one take the units that the page's table states."""
    (row,) = (line for line in PAGE.read_text().splitlines() if line.startswith(f"| {way} | "))
    stated = [tuple(map(float, found)) for found in CELL.findall(row)]
    metrics = Metrics()
    store = MeteredStore(MemoryStore(HOME), metrics=metrics, clock=ManualClock())
    await WAYS[way](store, 1)  # the lock's item is made
    measured = []
    for version in (3, 2):
        before = units(metrics)
        await WAYS[way](store, version)
        measured.append(tuple(now - then for now, then in zip(units(metrics), before, strict=True)))
    assert measured == stated


async def test_the_page_states_what_adoptions_and_failures_take() -> None:
    """An adoption writes once; a failure is read and written once."""
    assert "An adoption costs 1 / 0, a failure 1 / 1" in PAGE.read_text()
    metrics = Metrics()
    store = MeteredStore(MemoryStore(HOME), metrics=metrics, clock=ManualClock())
    guard = condition_guard(store)
    await store.write(Put({"pk": {"S": "record"}, "sk": {"S": "7"}}))
    before = units(metrics)
    await guard.adopt(("record", "7"), version=1)
    adopted = units(metrics)
    await guard.dead_letters.failed(event(1), "why")
    failed = units(metrics)
    assert (adopted[0] - before[0], adopted[1] - before[1]) == (1, 0)
    assert (failed[0] - adopted[0], failed[1] - adopted[1]) == (1, 1)


async def test_the_page_states_what_many_records_take() -> None:
    """New ones a unit each; the first 25 that are there two each, and those that follow one."""
    text = PAGE.read_text()
    assert "`put_many` costs 1 / 0 for a new record, 2 / 0 for one that is there, and 1 / 0" in text
    metrics = Metrics()
    store = MeteredStore(MemoryStore(HOME), metrics=metrics, clock=ManualClock())
    guard = condition_guard(store)
    taken = []
    for version in (1, 2, 3):
        before = units(metrics)
        await guard.put_many(
            [({"pk": {"S": "record"}, "sk": {"S": str(one)}}, version) for one in range(25)]
        )
        taken.append(tuple(now - then for now, then in zip(units(metrics), before, strict=True)))
    assert taken == [(25, 0), (50, 0), (25, 0)]


def units(metrics: Metrics) -> tuple[float, float]:
    """Return the write and read units taken."""
    name = "ledger_consumed_units_total"
    return sample(metrics, name, kind="write"), sample(metrics, name, kind="read")
