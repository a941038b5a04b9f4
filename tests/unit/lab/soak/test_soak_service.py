"""A region of a soak as its clients call it: keys as plain HTTP has them, and doubts."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from lab.faults.calls import Call
from lab.soak.service import Service, uuid_of
from support.lossy_http import cut, first, not_sent, slow
from support.soaking import HORIZON_SECONDS, soaked

from ledger.core.errors import StoreError
from ledger.core.tokens import time_of_key

AT = datetime(2026, 11, 21, 6, 50, 1, 123456, tzinfo=UTC)
ALWAYS = 10_000
A = (("a", 0),)


def test_a_key_is_a_uuid_of_its_time() -> None:
    """The same at every try, another for another change, and its time to the millisecond."""
    assert uuid_of("a", AT) == uuid_of("a", AT) != uuid_of("b", AT)
    assert time_of_key(uuid_of("a", AT)) == AT.replace(microsecond=123000)


async def test_a_keyed_change_whose_answers_are_lost_counts_once() -> None:
    """It is repeated under its key until it is answered, and a repeat of the call finds it."""
    async with soaked(after=first(2, cut)) as place:
        call = Call("keyed", (("a", 2),), at=place.table.clock.now())
        for _ in range(2):
            result = await place.service.call(call)
            assert result is not None
            assert result.outcome == "acknowledged"
        total = await place.service.total("a", max_age=0)
        assert total.value == Decimal(100)
        assert [attempt.result for attempt in place.attempts] == ["cut", "cut", "200", "200", "200"]


async def test_a_call_that_is_never_answered_may_be_made_again_by_its_entry() -> None:
    """Under the same id: of the call and its retry one counts."""
    async with soaked(after=first(ALWAYS, cut)) as place:
        call = Call("keyed", A, at=place.table.clock.now())
        result = await place.service.call(call)
        assert result is not None
        assert (result.outcome, len(result.entries)) == ("unknown", 1)
    assert result.entries[0].change == 1


async def test_past_the_horizon_silence_is_no_result() -> None:
    """The service may have refused it, as it has to: nothing is broken by a lost answer."""
    async with soaked(before=first(ALWAYS, slow)) as place:
        at = place.table.clock.now() - timedelta(seconds=HORIZON_SECONDS + 1)
        assert await place.service.call(Call("keyed", A, at=at)) is None


async def test_an_instance_that_shuts_down_wrote_nothing() -> None:
    """However long it says so, a call is refused, and a read is one that could not be made."""
    async with soaked(before=first(ALWAYS, not_sent)) as place:
        for call in (Call("keyed", A, at=place.table.clock.now()), Call("record", A)):
            result = await place.service.call(call)
            assert result is not None
            assert (result.outcome, result.error) == ("refused", "")
        with pytest.raises(StoreError, match="shutting down"):
            await place.service.total("a", max_age=0)


async def test_a_call_that_becomes_too_late_is_unknown() -> None:
    """Its first try was carried out, though the last was refused; a late one never was."""
    async with soaked() as place:
        clock, horizon = place.table.clock, place.table.settings.retry_horizon
        past = Call("keyed", A, at=clock.now() - timedelta(seconds=horizon + 1))
        for served, outcome in ((HORIZON_SECONDS, "late"), (horizon * 2, "unknown")):
            service = Service(place.service.balancer, "token", horizon=served, clock=clock)
            async with service.ledger:
                result = await service.call(past)
            assert result is not None
            assert result.outcome == outcome
