"""Transactions of a holder, with the check of its epoch added to them."""

from collections.abc import Sequence

import pytest
from support.leases import World

from ledger.core.entry import Item
from ledger.core.errors import LeaseLost, RequestRefused
from ledger.primitives.leases.lease_rules import LeaseGrant
from ledger.store.conditions import Absent
from ledger.store.memory import MemoryStore
from ledger.store.wrappers.faults import Fault, FaultCall, FaultyStore, Lost
from ledger.store.writes import Action, Applied, Outcome, Put, Rejected, Unknown

HERE = "eu-west-1"

WORK: Item = {"pk": {"S": "report"}, "sk": {"S": "today"}, "by": {"S": "one"}}
OTHER: Item = {"pk": {"S": "report"}, "sk": {"S": "yesterday"}}


async def test_a_holder_s_transaction_is_applied(world: World) -> None:
    """While the lease is held its transactions stand, heartbeats or not."""
    one = world.contender("one")
    await one.acquire(0)
    await one.heartbeat()
    assert isinstance(await one.transact([Put(WORK)]), Applied)
    assert world.table.get(("report", "today")) == WORK


async def test_a_transaction_after_a_theft_writes_nothing(world: World) -> None:
    """The holder learns from its own transaction who has the lease; nothing was written."""
    one = world.contender("one")
    await one.acquire(0)
    await world.force_taken("thief")
    one.check()  # it cannot know
    with pytest.raises(LeaseLost, match="'thief' has it"):
        await one.transact([Put(WORK)])
    assert one.lost.is_set()
    assert world.table.get(("report", "today")) is None


async def test_no_transaction_is_sent_without_the_lease(world: World) -> None:
    """A holder whose time is over asks who has the lease, and sends nothing if it is another."""
    calls: list[FaultCall] = []
    store = FaultyStore(MemoryStore(HERE, world.table), calls.append)
    one = world.contender("one", store=store)
    await one.acquire(0)
    await world.clock.advance(27.0)
    await world.force_taken("thief")
    with pytest.raises(LeaseLost, match="'thief' has it"):
        await one.transact([Put(WORK)])
    assert "transact" not in {call.operation for call in calls}


async def test_a_transaction_after_its_time_is_confirmed_first(world: World) -> None:
    """A holder whose time is over, and whose lease no other took, holds on and writes."""
    one = world.contender("one")
    await one.acquire(0)
    await world.clock.advance(1000.0)
    assert isinstance(await one.transact([Put(WORK)]), Applied)
    assert one.held_until == 1030.0


async def test_a_refusal_names_the_caller_s_own_actions(world: World) -> None:
    """Positions count the caller's actions, as if there were no fence before them."""
    one = world.contender("one")
    await one.acquire(0)
    await world.store.write(Put(WORK))
    outcome = await one.transact([Put(OTHER), Put(WORK, Absent())])
    assert outcome == Rejected(found={1: WORK})
    one.check()


async def test_a_transaction_without_an_answer_is_unknown(world: World) -> None:
    """No answer says nothing of the lease, and a repeat under the token does no harm."""
    answers = [Lost()]

    def decide(call: FaultCall) -> Fault | None:
        return answers.pop() if call.operation == "transact" and answers else None

    one = world.contender("one", store=FaultyStore(MemoryStore(HERE, world.table), decide))
    await one.acquire(0)
    assert isinstance(await one.transact([Put(WORK)], token="t"), Unknown)
    one.check()
    assert isinstance(await one.transact([Put(WORK)], token="t"), Applied)


async def test_a_fence_and_a_hundred_actions_are_too_many(world: World) -> None:
    """There is room for 99 actions beside the fence; more are refused before they are sent."""
    one = world.contender("one")
    await one.acquire(0)
    puts = [Put({"pk": {"S": "p"}, "sk": {"S": str(number)}}) for number in range(100)]
    with pytest.raises(RequestRefused, match="100 actions, got 101"):
        await one.transact(puts)
    assert isinstance(await one.transact(puts[1:]), Applied)


async def test_an_old_transaction_does_not_end_a_new_holding(world: World) -> None:
    """A transaction of an earlier holding, fenced off, leaves the present one alone."""

    class Overtaken(MemoryStore):
        """A store on whose way the lease is released and acquired again."""

        async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
            """Arrive late."""
            await one.release()
            assert isinstance(await one.acquire(0), LeaseGrant)
            return await super().transact(actions, token=token)

    one = world.contender("one", store=Overtaken(HERE, world.table))
    await one.acquire(0)
    with pytest.raises(LeaseLost, match="was lost"):
        await one.transact([Put(WORK)])
    one.check()
