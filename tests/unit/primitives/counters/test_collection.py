from datetime import timedelta
from decimal import Decimal

import pytest
from support.counting import make_counter
from support.ledgers import HOME, make_services, make_settings, seeded

from ledger import Ledger
from ledger.core.errors import InvalidInput, RetryHorizonPassed
from ledger.primitives.counters import CollectionCounter, new_token
from ledger.session.assembly import GivenConnections
from ledger.store.memory import MemoryStore
from ledger.store.wrappers.faults import FaultyStore, InOrder, Lost, NeverArrived
from ledger.store.writes import Applied, Rejected, Unknown
from ledger.testing.clock import ManualClock


async def test_it_is_the_ledger_itself() -> None:
    """What the counter adds, an open ledger totals, and the other way round."""
    store, clock = MemoryStore(HOME), ManualClock(instant=True)
    async with Ledger(
        make_settings(),
        region=HOME,
        given=GivenConnections(store=store),
        services=make_services(clock),
    ) as ledger:
        counter = CollectionCounter(ledger, "counter", services=make_services(clock))
        assert await counter.add(Decimal("2.5")) == Applied()
        await ledger.record("counter", 1)
        assert await counter.value() == Decimal("3.5")
        assert await make_counter("collection", store).value() == Decimal("3.5")


async def test_a_token_is_refused_past_the_retry_horizon() -> None:
    """Too late to be sure that it would count once, a repeat is refused, not guessed."""
    clock = ManualClock(instant=True)
    counter = make_counter("collection", MemoryStore(HOME), clock=clock)
    token = new_token(clock.now(), seeded(3))
    await counter.add(1, token=token)
    clock.pass_by(299)
    assert await counter.add(1, token=token) == Applied()
    clock.wall += timedelta(seconds=2)
    with pytest.raises(RetryHorizonPassed):
        await counter.add(1, token=token)
    assert await counter.value() == 1


async def test_unknown_comes_with_the_token_to_go_on_with() -> None:
    """After the ledger's patience the same token settles the change."""
    inner = MemoryStore(HOME)
    for fault in (Lost(), NeverArrived()):
        store = FaultyStore(inner, InOrder(*[fault] * 200), clock=ManualClock(instant=True))
        outcome = await make_counter("collection", store, name=str(fault)).add(1)
        assert isinstance(outcome, Unknown)
        assert outcome.token is not None
        again = make_counter("collection", inner, name=str(fault))
        assert await again.add(1, token=outcome.token) == Applied()
        assert await again.value() == 1


async def test_another_change_under_a_token_is_refused() -> None:
    """The rejection names both changes."""
    counter = make_counter("collection", MemoryStore(HOME))
    token = new_token(ManualClock(instant=True).now(), seeded(3))
    await counter.add(1, token=token)
    outcome = await counter.add(2, token=token)
    assert isinstance(outcome, Rejected)
    assert outcome.reason == "token conflict"
    assert "change 2" in outcome.detail
    assert "change 1" in outcome.detail


def test_it_holds_no_threshold() -> None:
    """No condition can see a sum: asked for one, it says so."""
    with pytest.raises(InvalidInput, match="no minimum or maximum"):
        make_counter("collection", MemoryStore(HOME), minimum=0)
