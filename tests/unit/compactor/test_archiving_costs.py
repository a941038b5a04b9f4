"""What an archive costs the compactor: requests to places, and units of the table."""

from dataclasses import dataclass

import pytest
from prometheus_client import CollectorRegistry
from support.compacting import World, compactor_settings
from support.ledgers import HOME, seeded

from compactor.job import Compactor
from ledger.reads.archive.places.memory import MemoryPlace
from ledger.runtime.metrics import Metrics, summed
from ledger.runtime.services import Services
from ledger.store.wrappers.meter import MeteredStore

COUNTERS, ENTRIES = 3, 200
URLS = ("file:///a", "file:///b")
OPERATIONS = ("put", "get", "replace", "delete", "region")


@dataclass(frozen=True, slots=True)
class Costs:
    """What merging all counters took: units of the table, and requests to places."""

    write_units: float
    read_units: float
    requests: dict[str, float]


async def costs(*urls: str) -> Costs:
    """Merge all counters, until nothing is left to do, with an archive in these places."""
    world, registry = World(seed=5), CollectorRegistry()
    metrics = Metrics.of(registry)
    stores = {
        region: MeteredStore(store, metrics=metrics, clock=world.clock)
        for region, store in world.regions.replicas.items()
    }
    compactor = Compactor(
        compactor_settings().replace(archive=urls),
        registry=registry,
        stores=stores,
        services=Services.of(clock=world.clock, randomness=seeded(5), registry=registry),
        owner="one",
        archive=[MemoryPlace(url) for url in urls],
    )
    for number in range(COUNTERS):
        await world.settled(entries=ENTRIES, counter=f"counter-{number}")
    for _ in range(4):
        (report,) = await world.drive(compactor.run_once)
        assert report.is_success
    assert summed(registry, "compactor_entries_merged_total") == COUNTERS * ENTRIES
    assert not world.shown(HOME, "counter-0").entries
    asked = {
        operation: summed(registry, "ledger_archive_requests_total", operation=operation)
        for operation in OPERATIONS
    }
    units = "ledger_consumed_units_total"
    return Costs(summed(registry, units, kind="write"), summed(registry, units, kind="read"), asked)


async def test_a_fold_costs_a_share_of_a_put_and_a_get_in_each_place() -> None:
    """Folds of one pass share an object: a PUT and a GET a place, whatever else a pass does."""
    found = (await costs(*URLS)).requests
    passes = 4
    assert found == {"put": 2, "get": 2, "replace": 0, "delete": 0, "region": 2 * passes}


async def test_the_archive_off_costs_nothing() -> None:
    """No request to any place; with it a fold of 200 takes no more than two write units more."""
    off, on = await costs(), await costs(*URLS)
    assert set(off.requests.values()) == {0}
    folds = 2 * COUNTERS
    assert off.write_units <= on.write_units <= off.write_units + 2 * folds
    assert (on.write_units - off.write_units) / (COUNTERS * ENTRIES) < 0.02


@pytest.mark.parametrize("places", [1, 2])
async def test_another_place_costs_the_table_nothing(places: int) -> None:
    """Only requests to places grow with their number."""
    found, one = await costs(*URLS[:places]), await costs(URLS[0])
    assert (found.write_units, found.read_units) == (one.write_units, one.read_units)
    assert found.requests["put"] == places
