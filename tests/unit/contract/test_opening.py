"""Opening a table: in every region of its contract, whatever the settings' file names."""

from support.clock import FakeClock
from support.contracts import REGIONS
from support.ledgers import AWAY, HOME, LOCAL, SOUTH
from support.live import Live

from ledger.contract.opening import open_others
from ledger.settings import Settings


async def test_every_other_region_is_opened() -> None:
    """A compactor that left one out would take what it shows for gone."""
    live = Live(Settings(regions=dict.fromkeys(REGIONS, LOCAL)))
    async with open_others(live, HOME, clock=FakeClock(instant=True)) as stores:
        assert set(stores) == {AWAY, SOUTH}
        assert {name: store.region for name, store in stores.items()} == {
            AWAY: AWAY,
            SOUTH: SOUTH,
        }
