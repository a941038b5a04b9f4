"""What a lost region had is minted again once, in every order of requests: late ones, and kills."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from support.budgets import AT_HOME, AT_SOUTH, AT_WEST, access_to
from support.ledgers import HOME, LOCAL, SOUTH, WEST, make_settings
from support.schedules import Bounds, Turns, every
from support.tiers import LONG

from ledger.budgets import reclaim
from ledger.budgets.grant_closing import RegionViews
from ledger.budgets.lost_stake import ARRIVED_SECONDS
from ledger.budgets.reclaim import reclaim_lost
from ledger.budgets.rights import Holder, Rights, key_of, rights_item, rights_of
from ledger.budgets.rights_plan import create
from ledger.core.errors import LedgerError
from ledger.settings import Settings
from ledger.store.memory import MemoryStore
from ledger.store.port import Store
from ledger.testing.clock import START, ManualClock

COUNTER, LIMIT = "key/42", 100
SHARES = {AT_HOME: Decimal(10), AT_WEST: Decimal(60), AT_SOUTH: Decimal(30)}
LATER = START + timedelta(seconds=ARRIVED_SECONDS + 180)


def settings_of() -> Settings:
    """Return the settings of the regions that remain."""
    return make_settings(budgets={"key/*": {}}, regions={HOME: LOCAL, WEST: LOCAL})


def regions_by(store: Store) -> RegionViews:
    """Return home and west, a day after south was lost.

    Both are one table: what one writes the other shows at once. Here it is about orders.
    """
    lost = {"lost": (SOUTH,), "given_up_at": START, "generation": 2}
    terms = replace(settings_of().terms, **lost)  # type: ignore[arg-type]
    return RegionViews({HOME: store, WEST: store}, terms, ManualClock(LATER, instant=True))


async def reclaims(store: Store) -> None:
    """Reclaim what south had, as an operator does: again until it is not refused."""
    for _ in range(3):
        try:
            await reclaim_lost(regions_by(store), SOUTH, COUNTER, spends={}, shares=SHARES)
        except LedgerError:
            continue
        return


async def spends(store: Store) -> None:
    """Make home's item, as the first spend there does."""
    items = access_to(store, settings_of(), clock=ManualClock(LATER, instant=True)).here

    def planned(rights: Rights) -> Rights:
        return rights if rights.version else create(AT_HOME, SHARES[AT_HOME])

    await items.change(COUNTER, AT_HOME, planned, seconds=5)


WORK: Mapping[str, Callable[[Store], Awaitable[None]]] = {
    "one": reclaims,
    "another": reclaims,
    "spend": spends,
}


async def minted(turns: Turns) -> list[tuple[Decimal, Decimal | None]]:
    """Let all of them run; return what each holder minted, at rest, and of it for south."""
    for holder in (AT_WEST, AT_SOUTH):
        turns.table.set(
            key_of(COUNTER, holder), rights_item(create(holder, SHARES[holder]), COUNTER)
        )
    await turns.run_works(WORK)
    await reclaims(MemoryStore(HOME, turns.table))
    items = [turns.table.get(key_of(COUNTER, holder)) for holder in (AT_HOME, AT_WEST)]
    found = [rights_of(item) for item in items if item is not None]
    return [(rights.minted, rights.reclaimed.get(AT_SOUTH)) for rights in found]


BOUNDS = [
    pytest.param(Bounds(switches=1), id="1 switch"),
    pytest.param(Bounds(switches=2), id="2 switches", marks=pytest.mark.slow),
    pytest.param(Bounds(switches=1, late=1), id="a late request, 1 switch", marks=LONG),
    pytest.param(Bounds(switches=1, kills=1), id="a kill, 1 switch", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("bounds", BOUNDS)
def test_what_was_lost_is_minted_once(bounds: Bounds) -> None:
    """At home, whoever makes home's item, and whenever."""
    schedules = list(every(bounds, minted))
    assert len(schedules) > 10
    for schedule, found in schedules:
        assert found == [(10 + 30, 30), (60, None)], schedule


@pytest.mark.slow
def test_minted_in_whichever_item_there_is_it_may_be_minted_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As it was: in that of the first holder that remains, where home had none."""

    async def world(turns: Turns) -> Decimal:
        def first(*_: object) -> Holder:
            return AT_WEST if turns.table.get(key_of(COUNTER, AT_HOME)) is None else AT_HOME

        monkeypatch.setattr(reclaim, "holder_in", first)
        return sum((amount for amount, _ in await minted(turns)), start=Decimal(0))

    assert LIMIT + 30 in {found for _, found in every(Bounds(switches=1), world)}
