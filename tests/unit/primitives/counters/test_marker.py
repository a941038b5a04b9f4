from collections.abc import Sequence
from datetime import timedelta

import pytest
from support.counting import known_counter

from ledger.primitives.counters.marker import KEPT_SECONDS
from ledger.store import writes
from ledger.store.memory import MemoryStore
from ledger.store.reads import Get
from ledger.store.wrappers.faults import FaultyStore, InOrder, Lost
from ledger.store.writes import Applied, Delete, Outcome, Rejected, Unknown
from ledger.testing.clock import ManualClock


async def test_a_marker_says_what_was_done() -> None:
    """It carries the change, when and where it was made, and expires a week later."""
    clock, store = ManualClock(instant=True), MemoryStore("us-east-1")
    counter = known_counter("marker", store, clock=clock)
    began = clock.now()
    await counter.add(7, token="order-17")
    marker = await store.get(Get(counter.marker_key("order-17")))
    assert marker is not None
    assert marker["change"] == {"N": "7"}
    assert marker["at"] == {"S": began.isoformat()}
    assert marker["region"] == {"S": "us-east-1"}
    expires = began + timedelta(seconds=KEPT_SECONDS)
    assert marker["~expires"] == {"N": str(int(expires.timestamp()))}


async def test_applied_before_is_told_from_a_threshold() -> None:
    """Even where the threshold would reject the change too, the marker says that it is there."""
    counter = known_counter("marker", MemoryStore("us-east-1"), minimum=0, maximum=10)
    assert await counter.add(10, token="t") == Applied()
    assert await counter.add(10, token="t") == Rejected("applied before")
    assert await counter.add(10, token="u") == Rejected("threshold", "minimum 0 and maximum 10")
    assert await counter.value() == 10


async def test_our_own_lost_try_is_applied_not_before() -> None:
    """A repeat that meets its own marker reports its change as applied."""
    store = FaultyStore(MemoryStore("us-east-1"), InOrder(Lost()), clock=ManualClock(instant=True))
    assert await known_counter("marker", store, maximum=10).add(10) == Applied()


async def test_a_rejected_token_is_free() -> None:
    """A threshold's rejection leaves no marker: the same token may find room later."""
    counter = known_counter("marker", MemoryStore("us-east-1"), minimum=0)
    assert isinstance(await counter.add(-1, token="t"), Rejected)
    await counter.add(1)
    assert await counter.add(-1, token="t") == Applied()


async def test_when_the_marker_has_expired_the_token_counts_again() -> None:
    """The mutant: TTL has deleted the marker, and nothing knows the token."""
    store = MemoryStore("us-east-1")
    counter = known_counter("marker", store)
    await counter.add(1, token="t")
    await store.write(Delete(counter.marker_key("t")))
    assert await counter.add(1, token="t") == Applied()
    assert await counter.value() == 2


async def test_a_caller_goes_on_with_the_token_of_unknown() -> None:
    """The token of an unknown outcome, made by the counter, leads to the same change."""
    store = FaultyStore(
        MemoryStore("us-east-1"), InOrder(*[Lost()] * 5), clock=ManualClock(instant=True)
    )
    counter = known_counter("marker", store)
    outcome = await counter.add(7)
    assert isinstance(outcome, Unknown)
    assert await counter.add(7, token=outcome.token) == Rejected("applied before")
    assert await counter.value() == 7


@pytest.mark.parametrize("change", [7, 8])
async def test_an_engine_that_hands_back_no_item(change: int) -> None:
    """Where a rejection does not show the marker in the way, it is read."""

    class Silent(MemoryStore):
        async def transact(
            self, actions: Sequence[writes.Action], *, token: str | None = None
        ) -> Outcome:
            outcome = await super().transact(actions, token=token)
            if not isinstance(outcome, writes.Rejected):
                return outcome
            return writes.Rejected(found=dict.fromkeys(outcome.found))

    counter = known_counter("marker", Silent("us-east-1"))
    await counter.add(7, token="t")
    outcome = await counter.add(change, token="t")
    assert outcome.reason == ("applied before" if change == 7 else "token conflict")
