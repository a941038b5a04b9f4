"""The epoch of an item that was deleted and made again: no fence of before it holds.

::

    zombie     acquires, epoch 1795243800000 ── paused ─────────────────────── its fence: rejected
    item                                         deleted ── made again, at the time in milliseconds
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from support.leases import FIRST, KEY, World

from ledger.primitives.leases import contention
from ledger.primitives.leases.lease_rules import LeaseGrant, LeaseRecord, NotHeld, next_epoch
from ledger.store.conditions import Equals
from ledger.store.wrappers.faults import Late
from ledger.store.writes import Applied, Check, Delete, Outcome, Put, Rejected
from ledger.testing.clock import START, ManualClock

WORK = Put({"pk": {"S": "report"}, "sk": {"S": "today"}})
RECORD = LeaseRecord("compactor", "one", "rvn-1", 30.0, 7, "eu-west-1")
BEHIND_MS = 2


async def granted(world: World, owner: str, clock: ManualClock | None = None) -> LeaseGrant:
    """Return a grant of the lease to a new contender."""
    grant = await world.contender(owner, clock=clock).acquire(0)
    assert isinstance(grant, LeaseGrant)
    return grant


async def zombie_writes(world: World) -> Outcome:
    """Let a zombie write after its item was deleted and made again under the same owner's name."""
    zombie = await granted(world, "one")
    await world.clock.advance(60.0)
    await world.store.write(Delete(KEY))
    await granted(world, "one")
    return await world.store.transact([zombie.fence(), WORK])


@pytest.mark.parametrize(
    ("seen", "highest", "epoch"),
    [
        pytest.param(None, 0, FIRST, id="a new item: the time in milliseconds"),
        pytest.param(None, FIRST + 5, FIRST + 6, id="a new item, and an epoch seen before it"),
        pytest.param(RECORD, 7, 8, id="the next"),
        pytest.param(RECORD, 100, 101, id="made again by a clock that is behind"),
    ],
)
def test_the_next_epoch(seen: LeaseRecord | None, highest: int, epoch: int) -> None:
    """It is above what the item shows and what this contender has seen of it before."""
    assert next_epoch(seen, highest=highest, now=START) == epoch


def test_a_new_item_begins_at_the_millisecond() -> None:
    """To the millisecond, without a rounding of floats."""
    now = datetime(2026, 11, 22, 1, 2, 3, 999_999, tzinfo=UTC)
    assert next_epoch(None, highest=0, now=now) == 1795309323999


async def test_deleting_the_item_lets_no_zombie_pass() -> None:
    """Its fence is rejected by the item made later, even of the same owner's name."""
    assert isinstance(await zombie_writes(World()), Rejected)


async def test_mutant_epochs_from_one_let_the_zombie_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each item beginning at 1, the zombie's epoch is the new holder's."""

    def from_one(seen: LeaseRecord | None, *, highest: int, now: datetime) -> int:
        del highest, now
        return seen.epoch + 1 if seen else 1

    monkeypatch.setattr(contention, "next_epoch", from_one)
    assert isinstance(await zombie_writes(World()), Applied)


async def test_a_clock_that_is_behind_lets_no_zombie_pass(world: World) -> None:
    """The new item begins below the zombie's epoch and reaches it: the owner is another's then."""
    zombie = await granted(world, "zombie")
    await world.store.write(Delete(KEY))
    world.clock.wall -= timedelta(milliseconds=BEHIND_MS)
    for number in range(BEHIND_MS + 1):
        lease = world.contender(f"later {number}")
        later = await lease.acquire(0)
        assert isinstance(later, LeaseGrant)
        assert later.epoch <= zombie.epoch
        assert isinstance(await world.store.transact([zombie.fence(), WORK]), Rejected)
        if later.epoch < zombie.epoch:
            await lease.release()
    assert later.epoch == zombie.epoch
    by_epoch_alone = Check(KEY, Equals("epoch", {"N": str(zombie.epoch)}))
    assert isinstance(await world.store.transact([by_epoch_alone, WORK]), Applied)


async def test_a_first_write_that_lands_after_the_delete_lets_no_zombie_pass(world: World) -> None:
    """It brings a lower epoch than the deleted item had; what follows is no earlier holder's."""
    world.fail_writes(Late())
    assert isinstance(await world.contender("late").acquire(0), NotHeld)
    await world.clock.advance(0.002)
    zombie = await granted(world, "zombie")
    await world.store.write(Delete(KEY))
    assert isinstance(await world.store.land(), Applied)
    later = world.contender("later")
    assert isinstance(await later.acquire(0), NotHeld)
    await world.clock.advance(30.0)
    grant = await later.acquire(0)
    assert isinstance(grant, LeaseGrant)
    assert grant.epoch < zombie.epoch
    assert isinstance(await world.store.transact([zombie.fence(), WORK]), Rejected)
    assert isinstance(await world.store.transact([grant.fence(), WORK]), Applied)


async def test_a_contender_that_knows_the_old_epoch_goes_above_it(world: World) -> None:
    """Of a contender that has seen the old item, a clock that is behind does not matter."""
    lease = world.contender("one")
    first = await lease.acquire(0)
    assert isinstance(first, LeaseGrant)
    await lease.release()
    await world.store.write(Delete(KEY))
    world.clock.wall -= timedelta(days=1)
    assert await lease.acquire(0) == replace(first, epoch=first.epoch + 1)
