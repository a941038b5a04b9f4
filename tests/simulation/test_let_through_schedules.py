"""What was let through is charged once, in every order of requests: late ones, and kills."""

from collections.abc import Awaitable, Callable
from decimal import Decimal
from functools import partial

import pytest
from support.budgets import AT_HOME, access_to, spend_item
from support.ledgers import HOME, LOCAL, make_settings
from support.schedules import Bounds, Turns, every

from ledger.budgets import fail_open, rights_plan
from ledger.budgets.administrator import BudgetAdministrator
from ledger.budgets.calendar import Window
from ledger.budgets.fail_open import FailOpen, FailOpenSpend
from ledger.budgets.grant_closing import RegionViews, charge_open
from ledger.budgets.rights import GrantName
from ledger.budgets.rights_items import read_local_rights
from ledger.budgets.spend_record import is_open, spend_of
from ledger.core.entry import GRANT, RESOLVED, Item, key_of
from ledger.settings import Settings
from ledger.store.conditions import Absent, Has
from ledger.store.memory import MemoryStore
from ledger.store.port import Store
from ledger.store.reads import Query
from ledger.store.writes import Put, Update
from ledger.testing.clock import START, ManualClock

BUDGET, LIMIT, AMOUNT = "key/42", 15, 3
ENTRY = spend_item(AMOUNT, GrantName(AT_HOME, 0), at=START, counter=BUDGET)
_mark = fail_open._mark


def limited() -> Settings:
    """Return the settings of one region whose budgets let spends through."""
    return make_settings(budgets={"key/*": {"on_outage": "allow"}}, regions={HOME: LOCAL})


async def sends(store: Store) -> None:
    """Write the entry, and again: a process repeats what was not answered."""
    for _ in range(2):
        await store.write(Put(ENTRY, Absent()))


async def charges(store: Store) -> None:
    """Charge it as the process that let it through."""
    own = FailOpen(access_to(store, limited()))
    own.add(key_of(ENTRY), FailOpenSpend.of(BUDGET, [Window(BUDGET, BUDGET)], AT_HOME))
    await own.charge()


async def passes(store: Store) -> None:
    """Charge whatever is there as a pass does."""
    page = await store.query(Query(BUDGET))
    spends = {key_of(item): spend_of(item) for item in page.items if is_open(item)}
    found = {key: spend for key, spend in spends.items() if spend is not None}
    regions = RegionViews({HOME: store}, limited().terms, ManualClock(instant=True))
    await charge_open(regions, found)


async def grants(store: Store) -> None:
    """Take a grant, as another process that spends."""
    take = partial(rights_plan.take, amount=Decimal(2), since=0, expires=60, token="another")
    items = access_to(store, limited()).here
    await items.change(BUDGET, AT_HOME, take, seconds=5)


WORK: dict[str, Callable[[Store], Awaitable[None]]] = {
    "send": sends,
    "charge": charges,
    "pass": passes,
    "grant": grants,
}


async def let_through_once(turns: Turns) -> tuple[Item | None, int]:
    """Let all of them run; return the entry at rest, and what is charged once a pass was there."""
    at_rest = MemoryStore(HOME, turns.table)
    await BudgetAdministrator(access_to(at_rest, limited())).create(BUDGET, LIMIT)
    await turns.run_works(WORK)
    await passes(at_rest)
    rights = await read_local_rights(at_rest, BUDGET, AT_HOME)
    assert rights is not None
    return turns.table.get(key_of(ENTRY)), int(rights.charged)


BOUNDS = [
    pytest.param(Bounds(switches=1), id="1 switch"),
    pytest.param(Bounds(switches=2), id="2 switches", marks=pytest.mark.slow),
    pytest.param(Bounds(switches=3), id="3 switches", marks=pytest.mark.slow),
    pytest.param(Bounds(switches=1, late=1), id="a late request, 1 switch", marks=pytest.mark.slow),
    pytest.param(Bounds(switches=1, kills=1), id="a kill, 1 switch", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("bounds", BOUNDS)
def test_what_is_there_is_charged_once(bounds: Bounds) -> None:
    """And marked; what never landed is not."""
    schedules = list(every(bounds, let_through_once))
    assert len(schedules) > 10
    for schedule, (item, charged) in schedules:
        assert charged == (0 if item is None else AMOUNT), schedule
        assert item is None or item[RESOLVED] == {"S": "charged"}, schedule


@pytest.mark.slow
def test_a_mark_without_its_condition_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Process and pass both charge what both have read."""

    def marked_anyway(*parts: object) -> Update:
        marked = _mark(*parts)  # type: ignore[arg-type]
        return Update(marked.key, set=marked.set, condition=Has(GRANT))

    monkeypatch.setattr(fail_open, "_mark", marked_anyway)
    found = {charged for _, (_, charged) in every(Bounds(switches=2), let_through_once)}
    assert 2 * AMOUNT in found
