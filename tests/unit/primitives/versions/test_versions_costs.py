"""What guarding an event costs: the table in the README of versions is what is measured."""

import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from support.clock import FakeClock
from support.guarding import Handling, condition_guard, event, lock_guard, record_put
from support.ledgers import HOME, sample

import ledger.primitives.versions
from ledger.runtime.metrics import Metrics
from ledger.store.memory import MemoryStore
from ledger.store.port import Store
from ledger.store.wrappers.metered import MeteredStore

README = Path(ledger.primitives.versions.__file__).with_name("README.md")
CELL = re.compile(r"([0-9.]+) / ([0-9.]+)")
Deliver = Callable[[Store, int], Awaitable[object]]


async def put(store: Store, version: int) -> object:
    """Put a record by condition."""
    place = {"pk": {"S": "record"}, "sk": {"S": "7"}}
    return await condition_guard(store).put(place, version=version)


async def handle(store: Store, version: int) -> object:
    """Handle an event of one action by condition."""
    return await condition_guard(store).handle(event(version), [record_put(version)])


async def lock_checked(store: Store, version: int) -> object:
    """Handle an event of one action by lock."""
    return await lock_guard(store).handle(event(version), Handling())


async def lock_plain(store: Store, version: int) -> object:
    """Handle an event of one action by lock, without a look before."""
    return await lock_guard(store, check_first=False).handle(event(version), Handling())


WAYS: dict[str, Deliver] = {
    "`ConditionGuard.put`": put,
    "`ConditionGuard.handle`, 1 action": handle,
    "`LockGuard`, 1 action": lock_checked,
    "`LockGuard`, `check_first=False`, 1 action": lock_plain,
}


@pytest.mark.parametrize("way", WAYS)
async def test_the_readme_states_what_is_measured(way: str) -> None:
    """A newer event and an old one take the units that the README's table states."""
    (row,) = (line for line in README.read_text().splitlines() if line.startswith(f"| {way} | "))
    stated = [tuple(map(float, found)) for found in CELL.findall(row)]
    metrics = Metrics()
    store = MeteredStore(MemoryStore(HOME), metrics=metrics, clock=FakeClock())
    await WAYS[way](store, 1)  # the lock's item is made
    measured = []
    for version in (3, 2):
        before = units(metrics)
        await WAYS[way](store, version)
        measured.append(tuple(now - then for now, then in zip(units(metrics), before, strict=True)))
    assert measured == stated


def units(metrics: Metrics) -> tuple[float, float]:
    """Return the write and read units taken."""
    name = "ledger_consumed_units_total"
    return sample(metrics, name, kind="write"), sample(metrics, name, kind="read")
