"""A limit raised and lowered at once, in every order of requests: late ones, and kills."""

from collections.abc import Awaitable, Callable
from functools import partial

import pytest
from support.budgets import access_to
from support.ledgers import HOME, LOCAL, make_settings
from support.schedules import Bounds, Turns, every

from ledger.budgets.administrator import BudgetAdministrator
from ledger.budgets.limit_change import LimitChange
from ledger.budgets.limit_changer import LimitChanger
from ledger.budgets.region_access import RegionAccess
from ledger.core.errors import BudgetMissing, LedgerError
from ledger.store.memory import MemoryStore
from ledger.store.port import Store

BUDGET = "key/42"
LIMIT, MORE, LESS = 15, 7, 3
Call = Callable[[LimitChanger], Awaitable[LimitChange]]


def access_of(store: Store, window: str) -> RegionAccess:
    """Return what an operator works with; there is one region."""
    settings = make_settings(budgets={"key/*": {"window": window}}, regions={HOME: LOCAL})
    return access_to(store, settings)


async def raised(changer: LimitChanger) -> LimitChange:
    """Raise the limit, once."""
    return await changer.raise_limit(BUDGET, MORE, "q", None)


async def lowered(changer: LimitChanger) -> LimitChange:
    """Lower the limit."""
    return await changer.lower_limit(BUDGET, LESS, None)


async def two_operators(limit: int, window: str, turns: Turns) -> tuple[set[str], LimitChange]:
    """Raise and lower, then repeat the raise: return what was acknowledged, and the rest."""
    at_rest = access_of(MemoryStore(HOME, turns.table), window)
    await BudgetAdministrator(at_rest).create(BUDGET, limit)
    done: set[str] = set()

    async def operator(name: str, call: Call) -> None:
        try:
            await call(LimitChanger(access_of(turns.store(name), window)))
        except LedgerError:
            return
        done.add(name)

    calls: dict[str, Call] = {"lower": lowered, "raise": raised}
    await turns.run({name: partial(operator, name, call) for name, call in calls.items()})
    return done, await raised(LimitChanger(at_rest))


@pytest.mark.parametrize(
    "bounds",
    [
        pytest.param(Bounds(switches=1), id="1 switch"),
        pytest.param(Bounds(switches=2), id="2 switches", marks=pytest.mark.slow),
        pytest.param(
            Bounds(switches=1, late=1), id="a late request, 1 switch", marks=pytest.mark.slow
        ),
        pytest.param(Bounds(switches=1, kills=1), id="a kill, 1 switch", marks=pytest.mark.slow),
    ],
)
def test_a_raise_is_not_eaten_by_a_lowering_at_the_same_time(bounds: Bounds) -> None:
    """At rest the limit is that of one after the other, and it is where it was going to."""
    schedules = list(every(bounds, partial(two_operators, LIMIT, "none")))
    assert len(schedules) > 10
    for schedule, (done, rest) in schedules:
        serial = {LESS, LESS + MORE} if "lower" in done else {LESS, LESS + MORE, LIMIT + MORE}
        assert rest.limit == rest.target, (schedule, done)
        assert rest.limit in serial, (schedule, done)


def test_a_raise_of_windows_is_not_eaten_by_a_lowering_to_the_limit_as_it_was() -> None:
    """The one after the other, in the running window and in later ones alike."""
    schedules = list(every(Bounds(switches=1), partial(two_operators, LESS, "day")))
    assert len(schedules) > 10
    for schedule, (done, rest) in schedules:
        assert rest.limit == rest.later, (schedule, done)
        serial = {LESS, LESS + MORE} if "lower" in done else {LESS + MORE}
        assert rest.limit in serial, (schedule, done)


async def two_deliveries(window: str, turns: Turns) -> tuple[set[str], LimitChange]:
    """Two processes book one first delivery, as both got its message; return the limit at rest."""
    done: set[str] = set()

    async def booked(access: RegionAccess) -> None:
        try:
            await LimitChanger(access).raise_limit(BUDGET, MORE, "first", None)
        except BudgetMissing:
            await BudgetAdministrator(access).create(BUDGET, MORE, raise_id="first")

    async def process(name: str) -> None:
        try:
            await booked(access_of(turns.store(name), window))
        except LedgerError:
            return
        done.add(name)

    await turns.run({name: partial(process, name) for name in ("one", "two")})
    at_rest = access_of(MemoryStore(HOME, turns.table), window)
    await booked(at_rest)
    return done, await LimitChanger(at_rest).raise_limit(BUDGET, MORE, "first", None)


@pytest.mark.parametrize("window", ["none", "day"])
@pytest.mark.parametrize(
    "bounds",
    [
        pytest.param(Bounds(switches=1), id="1 switch"),
        pytest.param(Bounds(switches=2), id="2 switches", marks=pytest.mark.slow),
        pytest.param(
            Bounds(switches=1, late=1), id="a late request, 1 switch", marks=pytest.mark.slow
        ),
        pytest.param(Bounds(switches=1, kills=1), id="a kill, 1 switch", marks=pytest.mark.slow),
    ],
)
def test_a_first_delivery_that_comes_twice_counts_once(bounds: Bounds, window: str) -> None:
    """Whoever makes the budget, and whoever raises it: none of both is refused."""
    schedules = list(every(bounds, partial(two_deliveries, window)))
    assert len(schedules) > 3
    for schedule, (done, rest) in schedules:
        assert (rest.limit, rest.target, rest.later) == (MORE, MORE, None), (schedule, done)
