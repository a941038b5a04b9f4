"""Records read under another form than before, and kept in other regions than the lane's."""

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import anyio
import pytest
from support.lanes import committed, lane_worker
from support.ledgers import AWAY, HOME
from support.pipelines import (
    BOTH_HOMES,
    FIELDS,
    deliveries,
    message,
    pipeline_settings,
    position,
    shown,
    truth,
)

from ledger.core.errors import (
    AccessDenied,
    FormConflict,
    SignedTooLate,
    StoreError,
    Unreachable,
)
from ledger.pipeline.core.items import state_key
from ledger.pipeline.core.records import Delivery
from ledger.pipeline.sources.dead_letters import DeadLetterList
from ledger.pipeline.stages.lanes import Lanes
from ledger.store.memory import MemoryStore
from ledger.store.port import Store
from ledger.store.wrappers.faults import (
    FaultyStore,
    Raises,
)

OTHERS: dict[str, dict[str, Any]] = {
    "fields": {"fields": {**FIELDS, "value": "Amount"}},
    "limits": {"record_bytes_max": 20},
    "categories": {"categories": ["desk/{Desk}"]},
    "homes": {"home": {"regions": {"*": HOME}}},
    "deletes": {"deletes": "ignore"},
}
"""Settings under which the records are read otherwise, by the part that differs."""


async def killed_before_commit(store: MemoryStore, records: Sequence[Delivery]) -> None:
    """Let states take in a lane's records, and its worker die before it commits them."""
    dying = FaultyStore(
        store, lambda call: Raises(AccessDenied("killed")) if call.operation == "transact" else None
    )
    with pytest.raises(AccessDenied):
        await lane_worker(records, dying).run()


@pytest.mark.parametrize("part", OTHERS)
async def test_a_batch_under_way_is_not_passed_over_under_another_form(part: str) -> None:
    """40 records in states, and a form that reads them otherwise: refused, with what differs."""
    store = MemoryStore(HOME)
    raws = [message(f"T{number}", 1, number + 1) for number in range(40)]
    await killed_before_commit(store, deliveries(raws))
    with pytest.raises(FormConflict, match=f"{part} was .*, is .*; .*mend {HOME}/lane|{part} was"):
        await lane_worker(deliveries(raws), store, **OTHERS[part]).run()
    assert committed(store) == ""
    await lane_worker(deliveries(raws), store).run()
    assert shown(store.table) == truth(raws)
    await lane_worker(deliveries(raws), store, **OTHERS[part]).run()  # closed: any form goes on


async def test_what_dies_while_its_transition_is_open_is_committed() -> None:
    """A form that takes for poison what another brought into a state looks there first."""
    store, letters = MemoryStore(HOME), DeadLetterList()
    raws = [message(f"T{number}", 1, number + 1) for number in range(40)]
    await killed_before_commit(store, deliveries(raws))
    with patch.object(Lanes, "check", lambda *_: anyio.lowlevel.checkpoint()):
        await lane_worker(deliveries(raws), store, letters=letters, record_bytes_max=20).run()
    assert len(letters.letters) == len(raws)
    assert shown(store.table) == truth(raws)


async def test_a_trade_that_changes_its_home_is_a_dead_letter() -> None:
    """A record that names another home than its record's state is not counted a second time."""
    stores = {name: MemoryStore(name) for name in (HOME, AWAY)}
    home = {"field": "Hierarchy.Desk", "regions": {"A": HOME, "B": AWAY}}
    first = deliveries([message("T1", 1, 10)])
    await lane_worker(first, stores, home=home).run()
    state = stores[HOME].table.get(state_key("T1"))
    stores[AWAY].table.set(state_key("T1"), state)  # as replication does
    letters = DeadLetterList()
    moved = deliveries([message("T1", 2, 50, desk="B"), message("T1", 3, 11)])
    await lane_worker(moved, stores, lane="other", home=home, letters=letters).run()
    assert shown(stores[HOME].table) == truth([message("T1", 3, 11)])
    assert [letter.position for letter in letters.letters] == [position(1)]
    assert "kept in us-east-1, not in eu-west-1" in letters.letters[0].reason


@pytest.mark.parametrize("is_lost", [False, True])
async def test_corrections_go_on_after_the_home_of_the_table_has_moved(*, is_lost: bool) -> None:
    """States stay in the region that keeps them; when it is lost, the new home takes them over."""
    stores = {name: MemoryStore(name) for name in (HOME, AWAY)}
    letters = DeadLetterList()
    raws = [message(f"T{number}", 1, number + 1) for number in range(5)]
    await lane_worker(deliveries(raws), stores, letters=letters).run()
    for partition, items in stores[HOME].table.partitions.items():  # as replication does
        for sort_key, item in items.items():
            stores[AWAY].table.set((partition, sort_key), item)
    more = [message(f"T{number}", 2, 100 * number) for number in range(5)] + raws
    more.append(message("T9", 1, 7))
    settings = pipeline_settings()
    left = [AWAY] if is_lost else [HOME, AWAY]
    moved = settings.replace(home=AWAY, regions={name: settings.regions[name] for name in left})
    for lane in ("one", "two"):
        await lane_worker(
            deliveries(more), stores, region=AWAY, letters=letters, lane=lane, settings=moved
        ).run()
    assert letters.letters == []
    assert shown(stores[AWAY].table) == truth([*raws, *more])
    keeper, other = (stores[AWAY], stores[HOME]) if is_lost else (stores[HOME], stores[AWAY])
    assert state_key("T9")[0] in keeper.table.partitions
    assert state_key("T9")[0] not in other.table.partitions


@pytest.mark.parametrize("error", [Unreachable("no answer"), SignedTooLate("no answer")])
async def test_a_record_whose_home_does_not_answer_is_parked(error: StoreError) -> None:
    """The others are written, what lies before it is committed, and it is not passed over."""
    store, silent = MemoryStore(HOME), True
    raws = [message("T1", 1, 1), message("E1", 1, 20), message("T2", 1, 300)]
    raws += [message("E1", 2, 4000), message("T1", 2, 50_000)]
    faulty = FaultyStore(MemoryStore(AWAY), lambda _call: Raises(error) if silent else None)
    stores: dict[str, Store] = {HOME: store, AWAY: faulty}
    records = deliveries(raws)
    with pytest.raises(Unreachable, match=r"1 records are parked, the first at 000002: no answer"):
        await lane_worker(records, stores, home=BOTH_HOMES).run()
    assert committed(store) == position(1)
    assert {state_key(f"T{n}")[0] for n in (1, 2)} <= store.table.partitions.keys()
    seen: list[str] = []
    silent = False
    await lane_worker(records, stores, home=BOTH_HOMES, on_counted=seen.append).run()
    assert seen == [position(1), position(5)]
    assert shown(store.table) == truth(raws)


async def test_states_go_to_their_home_and_totals_to_the_lanes_region() -> None:
    """Anyone who produces, a record's state is written in its home; the lane's items stay by it."""
    stores = {name: MemoryStore(name) for name in (HOME, AWAY)}
    raws = [message("E1", 1, 10), message("T1", 1, 5)]
    await lane_worker(deliveries(raws), stores, region=AWAY, home=BOTH_HOMES).run()
    assert shown(stores[AWAY].table) == truth(raws)
    assert list(stores[HOME].table.partitions) == [state_key("T1")[0]]
