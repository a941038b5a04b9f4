"""Totals of every region beside the expected ones."""

from decimal import Decimal

from support.ledgers import AWAY, HOME, make_settings, seeded

from ledger.demo.harness.totals import ShownTotals, read_totals
from ledger.runtime.services import Services
from ledger.session.assembly import GivenConnections
from ledger.session.ledger import Ledger
from ledger.store.memory import MemoryStore
from ledger.testing.clock import ManualClock


async def test_each_region_shows_what_it_has() -> None:
    """A counter that has not arrived is wrong there, by a sentence and by its difference."""
    store, settings = MemoryStore(HOME), make_settings()
    other = MemoryStore(AWAY)
    expected = {"a": Decimal("1.50"), "b": Decimal(0)}

    def a_ledger(region: str, store: MemoryStore) -> Ledger:
        return Ledger(
            settings,
            region=region,
            given=GivenConnections(store=store),
            services=Services.of(clock=ManualClock(instant=True), randomness=seeded()),
        )

    async with a_ledger(HOME, store) as home, a_ledger(AWAY, other) as away:
        await home.record("a", Decimal("1.50"))
        here, there = await read_totals({HOME: home, AWAY: away}, expected)
    assert here == ShownTotals(HOME, expected, expected)
    assert (here.right, here.wrong) == (2, [])
    assert (there.right, there.wrong) == (1, [f"a in {AWAY} shows 0, not 1.50"])
    assert there.errors == {"a": Decimal("-1.50"), "b": Decimal(0)}
