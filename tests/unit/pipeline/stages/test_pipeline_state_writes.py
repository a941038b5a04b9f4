"""States written together: few requests, and exact whatever becomes of each write."""

import json
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from support.lanes import lane_worker
from support.ledgers import HOME
from support.pipelines import deliveries, message, pipeline_settings, position, shown, truth

from ledger.core.errors import Unreachable
from ledger.pipeline.core.category_sums import CategorySums
from ledger.pipeline.core.items import state_item, state_key
from ledger.pipeline.core.kept_fields import KEPT_BYTES_MAX, REMEMBERED_CHARACTERS_MAX
from ledger.pipeline.core.records import Record, RecordForm
from ledger.pipeline.core.transitions import Open, State
from ledger.pipeline.stages.state_writes import Due, state_write
from ledger.store.memory import MemoryStore
from ledger.store.reads import Get
from ledger.store.wrappers.faults import (
    Fault,
    FaultCall,
    FaultyStore,
    Late,
    Lost,
    NeverArrived,
    Partial,
    Raises,
)
from ledger.store.writes import Applied, Put, Rejected

TRADES = 60
RAWS = [
    message(f"T{trade}", version, trade * version) for version in (1, 2) for trade in range(TRADES)
]


async def test_states_of_a_batch_share_requests() -> None:
    """60 new states and 60 corrections of them take three requests each."""
    store, operations = MemoryStore(HOME), Counter[str]()

    def count(call: FaultCall) -> None:
        operations[call.operation] += 1

    counted = FaultyStore(store, count)
    await lane_worker(deliveries(RAWS), counted, batch_max=TRADES).run()
    assert shown(store.table) == truth(RAWS)
    assert operations["write_each"] == 6


PARTS = Partial(unprocessed=(0, 3), lost=(1, 4), never_arrived=(2, 5))


@pytest.mark.parametrize("fault", [PARTS, Lost(), NeverArrived(), Late()], ids=repr)
async def test_writes_without_an_answer_leave_totals_exact(fault: Fault) -> None:
    """What was throttled, lost or never arrived is found out one by one, and counted once."""
    store = MemoryStore(HOME)
    faulty = FaultyStore(store, lambda call: fault if call.operation == "write_each" else None)
    await lane_worker(deliveries(RAWS), faulty, batch_max=TRADES).run()
    while faulty.in_flight:
        await faulty.land()
    assert shown(store.table) == truth(RAWS)


async def test_a_request_that_cannot_be_sent_is_tried_one_by_one() -> None:
    """An error of the request as a whole is that of each write in it."""
    store = MemoryStore(HOME)
    refused = Raises(Unreachable("no connection"))
    faulty = FaultyStore(store, lambda call: refused if call.operation == "write_each" else None)
    await lane_worker(deliveries(RAWS), faulty, batch_max=TRADES).run()
    assert shown(store.table) == truth(RAWS)


async def test_states_that_are_there_are_read_and_brought_up() -> None:
    """A worker that remembers nothing finds the states of another, newer or older."""
    store = MemoryStore(HOME)
    await lane_worker(deliveries(RAWS[:TRADES]), store, lane="a").run()
    await lane_worker(deliveries(RAWS), store, lane="b", batch_max=TRADES).run()
    await lane_worker(deliveries(RAWS), store, lane="c", batch_max=TRADES).run()
    assert shown(store.table) == truth(RAWS)


OPEN = {"lane": {position(1): {"k": Decimal(2)}}}
OLD = State(1, CategorySums(Decimal(2), ("k",), ("n",)), HOME, OPEN, 1, '{"a":"b"}')


@pytest.mark.parametrize("still_open", [{}, OPEN], ids=["all covered", "some open"])
async def test_a_state_is_rewritten_as_a_put_would(still_open: Open) -> None:
    """The update of a state leaves exactly the attributes of the new one, and no others."""
    store = MemoryStore(HOME)
    [delivery] = deliveries([message("T1", 2, 3)])
    record = RecordForm(pipeline_settings()).take(delivery)
    assert isinstance(record, Record)
    await store.write(Put(state_item(record.id, OLD)))
    new = State(2, CategorySums(Decimal(2), ("k",)), HOME, still_open, 2)
    outcome = await store.write(state_write(Due(record, delivery, OLD, new), ""))
    assert isinstance(outcome, Applied)
    assert await store.get(Get(state_key(record.id))) == state_item(record.id, new)
    again = await store.write(state_write(Due(record, delivery, OLD, new), ""))
    assert isinstance(again, Rejected)


async def test_a_state_that_was_mended_since_is_not_rewritten() -> None:
    """A mend counts what it rewrites: a state judged by without a count is not the one there."""
    store = MemoryStore(HOME)
    [delivery] = deliveries([message("T1", 2, 3)])
    record = RecordForm(pipeline_settings()).take(delivery)
    assert isinstance(record, Record)
    was = replace(OLD, rev=0)
    new = State(2, CategorySums(Decimal(2), ("k",)), HOME, {}, 1)
    for there, wanted in ((replace(OLD, rev=1), Rejected), (was, Applied)):
        await store.write(Put(state_item(record.id, there)))
        outcome = await store.write(state_write(Due(record, delivery, was, new), ""))
        assert isinstance(outcome, wanted)


async def test_what_a_version_does_not_keep_is_not_left_of_the_one_before() -> None:
    """Nor where the worker remembers the state without it, since that was long."""
    store = MemoryStore(HOME)
    raws = []
    for version, length in ((1, 2 * REMEMBERED_CHARACTERS_MAX), (2, 2 * KEPT_BYTES_MAX)):
        for trade in ("T1", "T2"):
            record = json.loads(message(trade, version, version))
            raws.append(json.dumps({**record, "Note": "x" * length}).encode())
    form: dict[str, Any] = {
        "keep_fields": "all",
        "record_bytes_max": 4 * KEPT_BYTES_MAX,
        "batch_max": 2,
    }
    await lane_worker(deliveries(raws[:2]), store, **form).run()
    key = state_key("T1")
    assert "fields" in (await store.get(Get(key)) or {})
    store = MemoryStore(HOME)
    await lane_worker(deliveries(raws), store, **form).run()
    item = await store.get(Get(key)) or {}
    assert (item["version"], "fields" in item) == ({"N": "2"}, False)
