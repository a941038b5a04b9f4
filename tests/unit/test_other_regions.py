"""The other regions that a ledger reaches are those that the table has when they are needed."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from support.ledgers import AWAY, HOME, SOUTH, make_settings

from ledger.runtime.services import Services
from ledger.session.assembly import Assembly, GivenConnections
from ledger.store import connections
from ledger.store.memory import MemoryStore
from ledger.store.port import Store


@pytest.mark.parametrize("others", [None, {AWAY: MemoryStore(AWAY)}])
async def test_a_region_that_is_added_is_opened_and_one_that_is_gone_is_left(
    monkeypatch: pytest.MonkeyPatch, others: Mapping[str, Store] | None
) -> None:
    """A process that needed them once goes on needing all of them; given ones stay as they are."""
    opened: list[str] = []

    @asynccontextmanager
    async def open_stores(
        _settings: object, regions: Iterable[str], **_: object
    ) -> AsyncIterator[dict[str, Store]]:
        opened.extend(regions)
        yield {region: MemoryStore(region) for region in regions}

    monkeypatch.setattr(connections, "open_stores", open_stores)
    settings = make_settings(regions={key: {} for key in (HOME, AWAY)})
    live: Any = SimpleNamespace(current=settings)
    made: Any = SimpleNamespace(
        given=GivenConnections(others=others), region=HOME, services=Services.of()
    )
    async with AsyncExitStack() as stack:
        stores = Assembly._other_stores(made, stack, live)
        assert [*await stores()] == [*await stores()] == [AWAY]
        live.current = make_settings(regions={key: {} for key in (HOME, AWAY, SOUTH)})
        assert [*await stores()] == ([AWAY] if others else [AWAY, SOUTH])
        live.current = make_settings(regions={key: {} for key in (HOME, SOUTH)})
        assert [*await stores()] == ([AWAY] if others else [SOUTH])
    assert opened == ([] if others else [AWAY, SOUTH])
