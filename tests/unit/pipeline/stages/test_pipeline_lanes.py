"""What a worker knows of its lane: how old it may be, and until when writes rest on it."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from unittest.mock import patch

import pytest
from support.lanes import lane_worker
from support.ledgers import HOME, make_services
from support.pipelines import deliveries, message, pipeline_settings, shown, truth

from ledger.core.entry import Item
from ledger.core.errors import AccessDenied, LaneFenced, Throttled
from ledger.pipeline.auditing.audit import Audit
from ledger.pipeline.core.items import STATE_PREFIX, position_key
from ledger.pipeline.core.lane_state import LaneState, lane_item, lane_state_of
from ledger.pipeline.stages.lanes import Lanes
from ledger.store.memory import MemoryStore
from ledger.store.reads import Get
from ledger.store.wrappers.faults import FaultyStore, Raises
from ledger.store.wrappers.forwarder import ForwardingStore
from ledger.store.writes import (
    Action,
    EachOutcome,
    Outcome,
    Put,
    Update,
    Write,
    placed,
)
from ledger.testing.clock import ManualClock

LANE = f"{HOME}/lane"
LIFE = 10.0
RAWS = [message(f"T{trade}", version, trade + version) for version in (1, 2) for trade in range(9)]


class Noting(ForwardingStore):
    """A store that notes reads of single items, and until when writes of states may be signed."""

    def __init__(self, inner: MemoryStore) -> None:
        super().__init__(inner)
        self.gets = 0
        self.until: list[tuple[str, datetime | None]] = []

    async def get(self, get: Get) -> Item | None:
        """Read one item."""
        self.gets += 1
        return await super().get(get)

    async def write(self, write: Write) -> Outcome:
        """Do one write."""
        self._note("alone", [write])
        return await super().write(write)

    async def write_each(self, writes: Sequence[Write]) -> EachOutcome:
        """Do several writes."""
        self._note("together", writes)
        return await super().write_each(writes)

    def _note(self, how: str, actions: Sequence[Action]) -> None:
        for _, own in map(placed, actions):
            if isinstance(own, Put | Update) and own.key[0].startswith(STATE_PREFIX):
                self.until.append((f"{how}: {type(own).__name__}", own.not_after))


async def test_our_lane_is_looked_at_again_in_half_of_its_life() -> None:
    """Also when the clock is set back: by it the last look would lie in the future."""
    store, clock = Noting(MemoryStore(HOME)), ManualClock()
    lanes = Lanes(LANE, store, clock, life_seconds=LIFE)
    await lanes.load()
    for seconds, gets in ((0.0, 1), (LIFE / 2, 1), (0.001, 2), (0.0, 2), (-1.0, 3), (LIFE, 4)):
        clock.wall += timedelta(seconds=seconds)
        await lanes.renew()
        assert store.gets == gets
        assert clock.now() - lanes.viewed <= timedelta(seconds=LIFE / 2)


@pytest.mark.parametrize("position", ["", "07"])
async def test_a_lane_that_another_moved_is_not_gone_on_with(position: str) -> None:
    """The next look says so; what an audit asks of the lane is no reason."""
    store, clock = MemoryStore(HOME), ManualClock()
    lanes = Lanes(LANE, store, clock, life_seconds=LIFE)
    await lanes.load()
    there = LaneState(rev=3, position=position, audit=1)
    store.table.set(position_key(LANE), lane_item(LANE, there))
    clock.wall += timedelta(seconds=LIFE)
    if position:
        with pytest.raises(LaneFenced, match="another has gone on from its beginning, to 07"):
            await lanes.renew()
    else:
        await lanes.renew()
        assert lanes.known == there


async def test_a_lane_left_under_a_former_audit_retains_what_it_has_committed() -> None:
    """The one that runs has not come to it: what the lane counts from now on is beyond its cut."""
    store = MemoryStore(HOME)
    await lane_worker(deliveries(RAWS[:3]), store).run()
    before = lane_state_of(store.table.get(position_key(LANE)))
    dying = FaultyStore(
        store, lambda call: Raises(AccessDenied("killed")) if call.operation == "scan" else None
    )
    audit = Audit({HOME: dying}, pipeline_settings(), services=make_services(ManualClock()))
    with pytest.raises(AccessDenied):
        await audit.run()
    left = replace(before, audit=9, retain="")  # as by an audit that was before this one
    store.table.set(position_key(LANE), lane_item(LANE, left))
    await lane_worker(deliveries(RAWS), store).run()
    after = lane_state_of(store.table.get(position_key(LANE)))
    assert (after.audit, after.retain) == (1, before.position)
    assert after.position > before.position


@pytest.mark.parametrize(
    ("batch_max", "kinds"), [(9, {"together: Put", "together: Update"}), (1, {"alone: Put"})]
)
async def test_every_write_of_a_state_has_an_end(batch_max: int, kinds: set[str]) -> None:
    """What was forgotten since, another worker decides by: also by several in one request."""
    store = MemoryStore(HOME)
    noting = Noting(store)
    await lane_worker(deliveries(RAWS), noting, batch_max=batch_max).run()
    assert shown(store.table) == truth(RAWS)
    assert {kind for kind, _ in noting.until} == kinds
    assert all(until is not None for _, until in noting.until)


async def test_a_worker_forgets_the_positions_of_other_lanes_once_it_is_fenced() -> None:
    """A reset may have put them back to their beginnings."""
    store, forgotten = MemoryStore(HOME), list[int]()
    forget = Lanes.forget

    def noted(self: Lanes) -> None:
        forgotten.append(self.known.fence)
        forget(self)

    class Fenced(ForwardingStore):
        async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
            known = lane_state_of(store.table.get(position_key(LANE)))
            if not known.fence:
                fenced = lane_item(LANE, LaneState(rev=known.rev + 1, fence=1))
                store.table.set(position_key(LANE), fenced)
                raise Throttled("later")
            return await super().transact(actions, token=token)

    with patch.object(Lanes, "forget", noted):
        await lane_worker(deliveries(RAWS), Fenced(store)).run()
    assert forgotten == [1]
    assert shown(store.table) == truth(RAWS)
