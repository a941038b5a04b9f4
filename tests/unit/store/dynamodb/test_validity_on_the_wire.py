"""No request of a store leaves the machine after the validity around it, by either transport."""

from datetime import UTC, datetime

import pytest
from support.wire import EMPTY_PAGE, READS, TRANSPORTS, WRITES, open_wire

from ledger.core.contract import Validity
from ledger.core.errors import ContractStale
from ledger.runtime.validity import signed_within
from ledger.testing.clock import ManualClock

LATER = datetime(9999, 1, 1, tzinfo=UTC)  # the SDK signs by the machine's own clock
EARLIER = datetime(2020, 1, 1, tzinfo=UTC)
CALLS = {**WRITES, **READS}


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_nothing_is_sent_after_it(transport: str) -> None:
    """Neither a write nor a page, by either clock: the caller hears why, and nothing arrives."""
    clock = ManualClock()
    async with open_wire(transport) as wire:
        wire.server.play(otherwise=EMPTY_PAGE)
        for ended in (Validity(EARLIER, 1e9), Validity(LATER, -1.0)):
            for call in CALLS.values():
                with signed_within(ended, clock), pytest.raises(ContractStale, match="not sent"):
                    await call(wire.store)
        assert wire.server.requests == []


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_all_is_sent_within_it(transport: str) -> None:
    """A validity that has not ended changes nothing."""
    async with open_wire(transport) as wire:
        wire.server.play(otherwise=EMPTY_PAGE)
        for call in CALLS.values():
            with signed_within(Validity(LATER, 1.0), ManualClock()):
                await call(wire.store)
        assert len(wire.server.requests) == len(CALLS)
