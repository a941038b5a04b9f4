"""An entry of which a merge could not keep all that it keeps of others: reported, left as it is."""

from decimal import Decimal
from typing import Any

import pytest
from support.compacting import World, compactor_settings
from support.ledgers import HOME, SOUTH, WEST

from compactor.report import CompactorReport
from ledger.core import amounts
from ledger.core.entry import Item
from ledger.core.ids import earliest
from ledger.reads.archive.places.memory import MemoryPlace
from ledger.testing.clock import START

DATES = [{"S": "soon"}, {"N": "20260101"}]
UNREADABLE = [
    *(("effective", value) for value in DATES),
    ("region", {"N": "1"}),
    ("note", {"N": "1"}),
    ("reverses", {"N": "1"}),
    ("parts", {"N": "7"}),
    ("parts", {"S": "6"}),
    ("parts", {"S": "3 4"}),
]
ARCHIVED: dict[str, Any] = {"archive": ["s3://one/ledger"]}
DATED: dict[str, Any] = {"periods": {"*": {"zone": "UTC", "effective": True}}}
KEY = earliest(START)[:-16] + "0000000000000001"


async def merged(world: World, given: dict[str, Any]) -> CompactorReport:
    """Search and merge, in a table with an archive or sums by date."""
    settings = compactor_settings(scan_every=300.0, fold_min=2).replace(**given)
    places = [MemoryPlace(url) for url in settings.archive]
    return await world.run_once(world.instance(settings=settings, archive=places))


def put(world: World, name: str, value: dict[str, str], *, sort_key: str = KEY) -> None:
    """Put an entry of 7 with this attribute everywhere."""
    key: Item = {"pk": {"S": "counter"}, "sk": {"S": sort_key}}
    for store in world.regions.replicas.values():
        store.table.set(("counter", sort_key), {**key, "change": {"N": "7"}, name: value})


@pytest.mark.parametrize("entries", [0, 5], ids=["below fold_min", "enough to be merged"])
@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        *((ARCHIVED, name, value) for name, value in UNREADABLE),
        *((DATED, "effective", value) for value in DATES),
    ],
)
async def test_what_a_merge_could_not_keep_is_reported(
    given: dict[str, Any], name: str, value: dict[str, str], entries: int
) -> None:
    """The search finds it, the pass names it, and nothing of its counter is merged."""
    world = World()
    await world.settled(entries=entries)
    put(world, name, value)
    before = [store.table.partitions["counter"].copy() for store in world.regions.replicas.values()]
    report = await merged(world, given)
    assert KEY in report.quarantined["counter"]
    assert (report.searched, report.folds, report.damaged) == (True, 0, 1)
    after = [store.table.partitions["counter"] for store in world.regions.replicas.values()]
    assert after == before


@pytest.mark.parametrize(("name", "value"), UNREADABLE)
async def test_what_no_merge_keeps_goes_with_its_entry(name: str, value: dict[str, str]) -> None:
    """Without an archive and sums by date only the changes are kept, and those are counted."""
    world = World()
    await world.settled()
    put(world, name, value)
    report = await merged(world, {})
    assert (report.merged, report.damaged) == (6, 0)
    counted = amounts.total([world.sum["counter"], Decimal(7)])
    assert all(world.shown(region).total() == counted for region in (HOME, WEST, SOUTH))


@pytest.mark.parametrize("given", [ARCHIVED, DATED], ids=["archived", "dated"])
async def test_an_item_under_a_foreign_key_holds_nothing_up(given: dict[str, Any]) -> None:
    """It is never merged, so nothing of it is to be kept."""
    world = World()
    await world.settled()
    put(world, "effective", {"S": "soon"}, sort_key="foreign")
    report = await merged(world, given)
    assert (report.merged, report.damaged) == (5, 0)
