"""Lanes of a region that has left the table: what they left is at home, and is taken up there."""

from typing import Any

import pytest
from support.lanes import lane_worker
from support.ledgers import AWAY, HOME, make_services
from support.pipelines import deliveries, map_items, message, pipeline_settings, shown, truth

from ledger.core.errors import AccessDenied, FormConflict
from ledger.pipeline.auditing.audit import Audit, Report
from ledger.pipeline.auditing.mend import Mend
from ledger.pipeline.auditing.move import Move
from ledger.pipeline.auditing.rebuild import StateRebuild
from ledger.pipeline.auditing.reset import Reset
from ledger.pipeline.core.items import STATE_PREFIX, position_key
from ledger.pipeline.core.lane_state import lane_state_of
from ledger.pipeline.core.registry import lane_entry
from ledger.runtime.services import Services
from ledger.settings import Settings
from ledger.store.memory import MemoryStore
from ledger.store.wrappers.faults import FaultyStore, Raises
from ledger.testing.clock import ManualClock

LEFT = f"{AWAY}/lane"
"""The lane whose region leaves."""
OURS = [message(f"T{number}", 1, 10**number) for number in range(3)]
THEIRS = [message(f"U{number}", 1, 7 * 10**number, desk="B") for number in range(3)]
LATER = [message(f"U{number}", 2, 5, desk="B") for number in range(3)]


def left(**pipeline: Any) -> Settings:
    """Return the settings once the region has left."""
    settings = pipeline_settings(**pipeline)
    return settings.replace(home=HOME, regions={HOME: settings.regions[HOME]})


def later() -> Services:
    """Return services whose clock is behind those of the lanes."""
    clock = ManualClock(instant=True)
    clock.pass_by(1000)
    return make_services(clock)


async def abandoned(totals: str = "sums", *, is_listed: bool = True) -> MemoryStore:
    """Return home's table after the other region has left, whose worker had died in a commit."""
    store = MemoryStore(HOME)
    stores = {HOME: store, AWAY: MemoryStore(AWAY, store.table)}
    settings = pipeline_settings(totals=totals)
    await lane_worker(deliveries(OURS), stores, settings=settings).run()
    await lane_worker(deliveries(THEIRS), stores, region=AWAY, settings=settings).run()
    dying = {
        region: FaultyStore(
            one, lambda call: Raises(AccessDenied("")) if call.operation == "transact" else None
        )
        for region, one in stores.items()
    }
    worker = lane_worker(deliveries([*THEIRS, *LATER]), dying, region=AWAY, settings=settings)
    with pytest.raises(AccessDenied):
        await worker.run()
    if not is_listed:
        entry = lane_entry(LEFT)
        del store.table.partitions[entry["pk"]["S"]][entry["sk"]["S"]]
    return store


def is_named(store: MemoryStore) -> bool:
    """Return whether the list of lanes names the one that was left."""
    entry = lane_entry(LEFT)
    return entry["sk"]["S"] in store.table.partitions[entry["pk"]["S"]]


async def audited(store: MemoryStore, **pipeline: Any) -> Report:
    """Audit from home alone."""
    return await Audit({HOME: store}, left(**pipeline), services=later()).run()


@pytest.mark.parametrize("is_listed", [True, False])
@pytest.mark.parametrize("totals", ["sums", "entries"])
async def test_what_it_left_is_audited_and_mended_at_home(totals: str, *, is_listed: bool) -> None:
    """The audit names the lane, a mend commits what it left, and nothing differs."""
    store = await abandoned(totals, is_listed=is_listed)
    report = await audited(store, totals=totals)
    assert report.differences == []
    assert report.lanes[LEFT].records == len(LATER)
    assert is_named(store)
    mend = Mend({HOME: store}, left(totals=totals), lane=LEFT, closes=True, services=later())
    assert (await mend.run_lane()).records == len(LATER)
    assert shown(store.table) == truth([*OURS, *THEIRS, *LATER])
    assert map_items(store.table) == []
    assert (await audited(store, totals=totals)).differences == []


@pytest.mark.parametrize("is_listed", [True, False])
async def test_its_records_are_rebuilt(*, is_listed: bool) -> None:
    """Once what its lane holds back is committed: until then it is refused, with what to do."""
    store = await abandoned(is_listed=is_listed)
    rule: dict[str, Any] = {"categories": ["by/{Hierarchy.Desk}"]}
    with pytest.raises(FormConflict, match=f"by `ledger pipeline mend {LEFT}`; then run this"):
        await StateRebuild({HOME: store}, left(**rule), services=later()).run()
    assert is_named(store)
    await Mend({HOME: store}, left(**rule), lane=LEFT, closes=True, services=later()).run_lane()
    done = await StateRebuild({HOME: store}, left(**rule), services=later()).run()
    assert done.records == len(OURS) + len(THEIRS)
    assert shown(store.table) == {"by/A": 111, "by/B": 15}
    assert (await audited(store, **rule)).differences == []


@pytest.mark.parametrize("is_listed", [True, False])
async def test_it_is_reset_with_the_others(*, is_listed: bool) -> None:
    """Nothing is left of it but its lane, at the beginning."""
    store = await abandoned(is_listed=is_listed)
    await Reset({HOME: store}, left(), is_forced=True, services=later()).run()
    assert shown(store.table) == {}
    assert map_items(store.table) == []
    assert not [name for name in store.table.partitions if name.startswith(STATE_PREFIX)]
    found = lane_state_of(store.table.get(position_key(LEFT)))
    assert (found.position, found.is_closed) == ("", False)


async def test_its_states_are_moved() -> None:
    """To a table of their own, from which they are audited."""
    store = await abandoned()
    aside: dict[str, Any] = {"state_table": "ledger-states"}
    await Move({HOME: store}, left(**aside), services=later()).run()
    assert not [name for name in store.table.partitions if name.startswith(STATE_PREFIX)]
    assert (await audited(store, **aside)).differences == []
