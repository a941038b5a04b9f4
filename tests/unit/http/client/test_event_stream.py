"""Totals followed over the service's stream of events."""

from contextlib import aclosing

import anyio
import pytest
from support.serving import served
from support.sockets import listening

from ledger.core.errors import InvalidInput, Unreachable
from ledger.http.client import Ledger
from ledger.http.client.event_stream import Events
from ledger.testing import MemoryGlobalTable

SECONDS_MAX = 60


def test_events_are_read_line_by_line() -> None:
    """Comments and other fields are left out; data of several lines is joined."""
    events = Events()
    lines = ["retry: 5", "", ": quiet", "", "event: total", "data: 1", "data:2", "", "data: x", ""]
    found = [event for line in lines for event in events.taken(line)]
    assert found == [("total", "1\n2"), ("message", "x")]


async def test_each_change_of_a_total_is_yielded() -> None:
    """The first state of each counter, then what changed."""
    table = MemoryGlobalTable()
    async with served(table) as service, listening(service.app) as url:
        async with Ledger.open(url) as ledger:
            seen = []
            with anyio.fail_after(SECONDS_MAX):
                async with aclosing(ledger.live_totals(["stock"], every=0.1)) as totals:  # type: ignore[type-var]
                    async for total in totals:
                        seen.append(total.value)
                        if len(seen) == 3:
                            break
                        await service.ledger.record("stock", 5)
                        table.clock.pass_by(1)
            assert seen == [0, 5, 10]
        service.context.leave()


async def test_a_service_that_is_away_is_an_error_in_the_end() -> None:
    """After so many seconds without it."""
    async with Ledger.open("http://127.0.0.1:9") as ledger:
        with pytest.raises(Unreachable):
            await anext(aiter(ledger.live_totals(["stock"], timeout=0.2)))
        with pytest.raises(InvalidInput):
            await anext(aiter(ledger.live_totals([])))
