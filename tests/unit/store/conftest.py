"""What the tests of stores share: one store on the wire for each transport."""

from collections.abc import AsyncIterator

import pytest
from support.wire import TRANSPORTS, Wire, open_wire

from ledger.store.retry import BUDGET_TOKENS


@pytest.fixture(scope="module", params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> str:
    """Return the name of each transport."""
    return str(request.param)


@pytest.fixture(scope="module")
async def module_wire(transport: str) -> AsyncIterator[Wire]:
    """Open one store for all tests: to build a client takes longer than any of them."""
    async with open_wire(transport) as wire:
        yield wire


@pytest.fixture
def wire(module_wire: Wire) -> Wire:
    """Return the store with its whole budget, and a server that was asked nothing yet."""
    module_wire.store.retry_budget.give(BUDGET_TOKENS)
    module_wire.server.play()
    module_wire.before = 0.0
    module_wire.before = module_wire.retries()
    return module_wire
