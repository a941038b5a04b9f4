"""One local global table for each test, on every engine that is here."""

from collections.abc import AsyncIterator

import pytest
from support.engines import ENGINES
from support.local_worlds import World, open_world


@pytest.fixture(params=ENGINES)
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """A local global table of three regions with its table made."""
    async with open_world(request.param) as opened:
        yield opened
