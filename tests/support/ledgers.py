"""Settings, clocks, regions and auditors that tests of the library share."""

from collections.abc import Iterable
from decimal import Decimal
from random import Random
from typing import Any

from prometheus_client import CollectorRegistry

from ledger.core.entry import Item, net_item
from ledger.core.ids import EntryId
from ledger.core.values import NetChange
from ledger.runtime.clock import Clock
from ledger.runtime.metrics import Metrics
from ledger.runtime.services import Services
from ledger.session.assembly import GivenConnections
from ledger.session.ledger import Ledger
from ledger.settings import Settings
from ledger.store.memory import MemoryStore, MemoryTable
from ledger.store.port import Store
from ledger.testing.clock import ManualClock
from ledger.testing.replicas import ManualWorld
from ledger.writes.writer import Writer

HOME, AWAY, SOUTH = "us-east-1", "eu-west-1", "ap-southeast-2"
WEST = AWAY
LOCAL, ELSEWHERE = {"endpoint": "http://127.0.0.1:9"}, {"endpoint": "http://127.0.0.2:9"}
"""How regions are reached that are none of AWS's, so that a signature may live as a test likes."""


def make_settings(**overrides: Any) -> Settings:
    """Return settings of two regions."""
    return Settings(**{"home": HOME, "regions": {HOME: LOCAL, AWAY: ELSEWHERE}, **overrides})


_METRICS = Metrics()  # a registry of one's own takes a millisecond to make


def seeded(seed: int = 7) -> Random:
    """Return randomness that repeats."""
    return Random(seed)  # noqa: S311 (ids of a test)


def make_services(clock: Clock | None = None, seed: int = 7) -> Services:
    """Return services that repeat, by default on a clock whose sleeps are over at once."""
    return services_of(clock or ManualClock(instant=True), seeded(seed))


def services_of(clock: Clock, randomness: Random) -> Services:
    """Return services of this clock and randomness, whose metrics nobody reads."""
    return Services(clock, randomness, _METRICS)


def make_ledger(
    store: Store | None = None,
    *,
    region: str = HOME,
    registry: CollectorRegistry | None = None,
    seed: int = 7,
    **overrides: Any,
) -> Ledger:
    """Return a ledger over a store in memory; the other region shows the same at once."""
    store = store or MemoryStore(region)
    other, table = AWAY if region == HOME else HOME, getattr(store, "table", None)
    return Ledger(
        make_settings(**overrides),
        region=region,
        registry=registry,
        services=Services.of(
            clock=ManualClock(instant=True), randomness=seeded(seed), registry=registry
        ),
        given=GivenConnections(store=store, others={other: MemoryStore(other, table)}),
    )


def make_writer(
    store: Store,
    *,
    clock: ManualClock | None = None,
    seed: int = 7,
    has_own_keys: bool = False,
    **overrides: Any,
) -> Writer:
    """Return a writer over a store, on a clock whose sleeps are over at once."""
    return Writer(
        store,
        settings=make_settings(**overrides),
        services=Services.of(clock=clock or ManualClock(instant=True), randomness=seeded(seed)),
        has_own_keys=has_own_keys,
    )


def three_regions(*, page_items_max: int = 1000) -> ManualWorld:
    """Return a world of three regions in which a test delivers by hand."""
    return ManualWorld((HOME, WEST, SOUTH), randomness=seeded(0), page_items_max=page_items_max)


def two_regions() -> ManualWorld:
    """Return a world of two regions in which a test delivers by hand."""
    return ManualWorld((HOME, AWAY), randomness=seeded())


def changes(table: MemoryTable, counter: str) -> list[Decimal]:
    """Return the amounts of all entries of a counter's first shard, read without our own fold."""
    items = table.partitions.get(counter, {})
    return sorted(Decimal(item["change"]["N"]) for item in items.values())


def amounts_of(count: int) -> list[Decimal]:
    """Return the amounts 1, 2, 3 and so on."""
    return [Decimal(number + 1) for number in range(count)]


def count_items(table: MemoryTable) -> int:
    """Return how many items a table holds."""
    return sum(1 for _ in table.items())


def net(
    counter: str,
    change: int,
    merged: Iterable[EntryId],
    *,
    version: str = "v1",
    generation: int = 1,
    count: int | None = None,
) -> Item:
    """Return the item of a net change of the first region."""
    ids = tuple(sorted(merged))
    until = str(ids[-1]) if ids else ""
    made = NetChange(
        Decimal(change), len(ids) if count is None else count, ids, version, until, HOME, generation
    )
    return net_item(made, counter)


def sample(metrics: Metrics, name: str, **labels: str) -> float:
    """Return the value of one metric, 0 if it was never touched."""
    total = 0.0
    for attribute, metric in vars(metrics).items():
        for family in () if attribute.startswith("_") else metric.collect():
            for one in family.samples:
                if one.name == name and labels.items() <= one.labels.items():
                    total += one.value
    return total
