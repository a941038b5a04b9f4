"""Opening a table: in every region of its contract, whatever the settings' file names."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from support.contracts import REGIONS, ContractStore, make_terms, put_contract
from support.ledgers import AWAY, HOME, SOUTH
from support.live import Live

from ledger.contract import open_regions
from ledger.contract.open_regions import open_others, open_table
from ledger.core.contract_item import Contract
from ledger.core.errors import ContractConflict, ContractMissing, TableMissing
from ledger.settings import Settings
from ledger.testing.clock import ManualClock

SETTINGS = Settings(
    regions={region: {"endpoint": f"http://127.0.0.{at}:9"} for at, region in enumerate(REGIONS, 1)}
)


@pytest.fixture
def stores(monkeypatch: pytest.MonkeyPatch) -> dict[str, ContractStore]:
    """Return regions in memory, which are opened in place of DynamoDB's."""
    made = {region: ContractStore(region) for region in REGIONS}

    @asynccontextmanager
    async def one(_settings: Settings, region: str, **_parts: Any) -> AsyncIterator[ContractStore]:
        yield made[region]

    @asynccontextmanager
    async def some(
        _settings: Settings, regions: list[str], **_parts: Any
    ) -> AsyncIterator[dict[str, ContractStore]]:
        yield {region: made[region] for region in regions}

    monkeypatch.setattr(open_regions, "open_store", one)
    monkeypatch.setattr(open_regions, "open_stores", some)
    return made


async def test_a_home_that_is_lost_opens_through_the_next_region(
    stores: dict[str, ContractStore],
) -> None:
    """The file may still name it first, whether its table is gone or it left the contract."""
    terms = replace(make_terms(home=AWAY, regions=(AWAY, SOUTH)), lost=(HOME,))
    await put_contract(stores.values(), Contract(terms=terms, revision=2))
    for stores[HOME].is_missing in (True, False):
        async with open_table(SETTINGS, clock=ManualClock()) as table:
            assert list(table.stores) == [AWAY, SOUTH]
            assert table.view.current.home == AWAY


async def test_where_no_region_shows_a_contract_the_first_says_why(
    stores: dict[str, ContractStore],
) -> None:
    """The first reason, not the last: it is the settings' home."""
    with pytest.raises(ContractMissing, match=HOME):
        async with open_table(SETTINGS, clock=ManualClock()):
            pass
    stores[HOME].is_missing = True
    with pytest.raises(TableMissing, match=HOME):
        async with open_table(SETTINGS, clock=ManualClock()):
            pass


async def test_settings_that_say_otherwise_are_refused(stores: dict[str, ContractStore]) -> None:
    """Whichever region is asked."""
    await put_contract(stores.values(), Contract(terms=make_terms()))
    with pytest.raises(ContractConflict, match="settle is 7200 s in the settings"):
        async with open_table(SETTINGS.replace(settle=7200), clock=ManualClock()):
            pass


@pytest.mark.slow
async def test_every_other_region_is_opened() -> None:
    """A compactor that left one out would take what it shows for gone."""
    live = Live(SETTINGS)
    async with open_others(live, HOME, clock=ManualClock(instant=True)) as stores:
        assert set(stores) == {AWAY, SOUTH}
        assert {name: store.region for name, store in stores.items()} == {
            AWAY: AWAY,
            SOUTH: SOUTH,
        }
