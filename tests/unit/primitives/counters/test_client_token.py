from collections.abc import Sequence

import pytest
from support.counting import known_counter

from ledger.primitives.counters.client_token import HELD_UP_SECONDS_MIN, REPEAT_SECONDS_MAX
from ledger.settings.fields import AWS_SIGNATURE_SECONDS
from ledger.store.memory import MemoryStore
from ledger.store.wrappers.faults import FaultyStore, InOrder, Late, Lost, NeverArrived
from ledger.store.writes import (
    TOKEN_SECONDS,
    Action,
    Applied,
    Outcome,
    Rejected,
    Unknown,
    signed_by,
)
from ledger.testing.clock import ManualClock


async def test_repeats_within_an_add_count_once() -> None:
    """Lost or late, a try is repeated under its token and counts once."""
    inner = MemoryStore("us-east-1")
    store = FaultyStore(
        inner, InOrder(Lost(), Late(), NeverArrived()), clock=ManualClock(instant=True)
    )
    assert await known_counter("client-token", store).add(7) == Applied()
    await store.land()
    assert await known_counter("client-token", inner).value() == 7


async def test_a_caller_goes_on_with_the_token_of_unknown() -> None:
    """The token of an unknown outcome, made by the counter, leads to the same change."""
    inner = MemoryStore("us-east-1")
    store = FaultyStore(inner, InOrder(*[Lost()] * 5), clock=ManualClock(instant=True))
    counter = known_counter("client-token", store)
    outcome = await counter.add(7)
    assert isinstance(outcome, Unknown)
    assert await counter.add(7, token=outcome.token) == Applied()
    assert await counter.value() == 7


async def test_past_ten_minutes_a_token_counts_again() -> None:
    """The mutant: DynamoDB has forgotten the token, and the repeat is another change."""
    clock = ManualClock(instant=True)
    counter = known_counter("client-token", MemoryStore("us-east-1", clock=clock), clock=clock)
    await counter.add(7, token="t")
    clock.pass_by(TOKEN_SECONDS - 1)
    await counter.add(7, token="t")
    assert await counter.value() == 7
    clock.pass_by(1)
    await counter.add(7, token="t")
    assert await counter.value() == 14


async def test_another_change_under_a_token_is_refused() -> None:
    """A token stands for one change; so it does for one pair of thresholds."""
    store = MemoryStore("us-east-1")
    await known_counter("client-token", store).add(7, token="t")
    other = known_counter("client-token", store)
    bounded = known_counter("client-token", store, maximum=50)
    for outcome in (await other.add(8, token="t"), await bounded.add(7, token="t")):
        assert isinstance(outcome, Rejected)
        assert outcome.reason == "token conflict"


async def test_no_repeat_is_signed_long_after_the_first_try() -> None:
    """Every try is to be signed within a minute, as `REPEAT_SECONDS_MAX` says."""
    clock, seen = ManualClock(instant=True), []

    class Noting(MemoryStore):
        async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
            seen.append(signed_by(actions))
            return await super().transact(actions, token=token)

    store = FaultyStore(Noting("us-east-1"), InOrder(Lost(), Lost()), clock=clock)
    began = clock.now()
    await known_counter("client-token", store, clock=clock).add(1)
    assert len(seen) == 3
    assert {(limit - began).total_seconds() for limit in seen if limit} == {REPEAT_SECONDS_MAX}


@pytest.mark.parametrize(
    ("held_up", "value"), [(HELD_UP_SECONDS_MIN - 1, 7), (AWS_SIGNATURE_SECONDS - 1, 14)]
)
async def test_a_try_that_is_held_up_counts_again_once_its_token_is_forgotten(
    held_up: float, value: int
) -> None:
    """What no bound prevents: AWS takes a signature for valid for longer than it knows a token."""
    clock = ManualClock(instant=True)
    inner = MemoryStore("us-east-1", clock=clock)
    store = FaultyStore(inner, InOrder(Late()), clock=clock)
    counter = known_counter("client-token", store, clock=clock)
    assert await counter.add(7) == Applied()
    clock.pass_by(held_up)
    await store.land()
    assert await counter.value() == value
