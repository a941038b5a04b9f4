"""What a hold may come to: as fine, and as much, as its budgets can be charged, by anybody."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from typing import Any

import pytest

from ledger import Hold, Table
from ledger.budgets.amount_rules import check_settled, fits
from ledger.budgets.hold_rules import settle
from ledger.budgets.spend_record import SpendRecord
from ledger.budgets.spend_request import Granted
from ledger.core.amounts import EXACT
from ledger.core.errors import AmountOverflow
from ledger.testing import MemoryGlobalTable

EAST, WEST = "us-east-1", "eu-west-1"
TOO_FINE = Decimal("1E-31")
"""Beside a limit of 10 the finest is 1E-30."""
WHO = ["its owner", "another process"]


@dataclass
class Made:
    """A hold of 1 and who may settle it."""

    world: MemoryGlobalTable
    east: Table
    hold: Hold
    other: Hold

    def by(self, who: str) -> Hold:
        """Return the hold as its owner has it, or another process."""
        return self.hold if who == "its owner" else self.other


@asynccontextmanager
async def made(
    *names: str, limits: tuple[Decimal | int, ...] = (10,), rule: dict[str, Any] | None = None
) -> AsyncIterator[Made]:
    """Hold 1, or the least limit if that is less, from budgets of these limits."""
    world = MemoryGlobalTable([EAST, WEST], budgets={"key/*": rule or {}})
    async with world.table(EAST) as east, world.table(WEST) as west:
        for name, limit in zip(names, limits, strict=True):
            await east.budget(name).create(limit)
        world.replicate()
        hold = await east.budgets(names).hold(min(1, *limits, 1), expires=600)
        assert isinstance(hold, Hold)
        world.replicate()
        yield Made(world, east, hold, west.budgets(names).held(hold.entry))


async def at_rest(found: Made, counter: str) -> None:
    """Assert that grants are closed, entries merged, and that what is charged is the total."""
    for _ in range(6):
        await found.world.pass_time(600)
        report = await found.world.compact()
        assert not report.problems
        found.world.replicate()
    state = await found.east.budget("key/1").state()
    total = await found.east.ledger.total(counter, max_age=0)
    assert (state.granted, state.charged) == (Decimal(0), total.value.copy_negate())


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("rule", [{}, {"window": "day", "late": "1h"}, {"rolling": "24h"}])
async def test_a_settlement_is_no_finer_than_a_spend(who: str, rule: dict[str, Any]) -> None:
    """Else neither the grant could be closed nor the total be read: 2 and 1E-38 have 39 digits."""
    async with made("key/1", rule=rule) as found:
        assert isinstance(await found.east.budget("key/1").spend(2), Granted)
        with pytest.raises(AmountOverflow, match="settles for must be a multiple of 1E-30") as not_:
            await found.by(who).settle(TOO_FINE)
        assert not_.value.outcome == "not_applied"
        assert isinstance(await found.by(who).settle(Decimal("1E-30")), Granted)
        if not rule.get("window"):
            await at_rest(found, "key/1")


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("rule", [{}, {"window": "month"}])
async def test_each_budget_of_a_hold_has_to_be_chargeable(who: str, rule: dict[str, Any]) -> None:
    """Not only the one whose entry it is."""
    async with made("key/1", "key/2", limits=(Decimal("0.001"), 10**6), rule=rule) as found:
        with pytest.raises(AmountOverflow, match="1E-25 beside a limit of 1000000"):
            await found.by(who).settle(Decimal("1E-26"))
        assert isinstance(await found.by(who).settle(Decimal("1E-25")), Granted)


@pytest.mark.parametrize("who", WHO)
async def test_what_is_charged_over_has_a_bound(who: str) -> None:
    """A thousand times the limit; beyond it sums of such settlements would not fit."""
    async with made("key/1") as found:
        with pytest.raises(AmountOverflow, match="at most 1,000 times the limit of its budget, 10"):
            await found.by(who).settle(Decimal("10000.01"), over=True)
        assert isinstance(await found.by(who).settle(10_000, over=True), Granted)
        await at_rest(found, "key/1")


@pytest.mark.parametrize("who", WHO)
async def test_the_limit_counts_that_is_known_when_it_is_settled(who: str) -> None:
    """After a raise less is as fine; in a window, too, whose limit lies with the budget."""
    async with made("key/1", rule={"window": "month"}) as found:
        await found.east.budget("key/1").raise_limit(10**6, id="more")
        found.world.replicate()
        if who == "its owner":
            assert isinstance(await found.east.budget("key/1").spend(2_000), Granted)
        with pytest.raises(AmountOverflow, match="1E-25 beside a limit of 1000010"):
            await found.by(who).settle(Decimal("1E-26"))


@pytest.mark.parametrize("who", WHO)
async def test_a_limit_that_was_lowered_counts_as_it_was(who: str) -> None:
    """What was spent under it is still charged beside what the hold comes to."""
    async with made("key/1", limits=(10**6,)) as found:
        await found.east.budget("key/1").lower_limit(to=10)
        found.world.replicate()
        with pytest.raises(AmountOverflow, match="1E-25 beside a limit of 1000000"):
            await found.by(who).settle(Decimal("1E-26"))


def test_what_was_held_counts_where_no_limit_is_known() -> None:
    """Of a region that shows none yet: it was no more than the limit."""
    check_settled(Decimal(2), Decimal(1), Decimal(0))
    with pytest.raises(AmountOverflow, match="1E-25 beside a limit of 1000000"):
        check_settled(Decimal("1E-26"), Decimal(10**6), Decimal(0))


@pytest.mark.parametrize(
    ("amount", "is_within"),
    [("1.5", True), ("0.7", True), ("0", True), ("0.75", False), ("1.6", False)],
)
def test_what_is_coarser_and_less_than_held_needs_no_check(amount: str, *, is_within: bool) -> None:
    """It was checked when it was held."""
    held = SpendRecord("2026-11-21T06:50:01.123456Z#4f1d2c3b5a697887", Decimal("1.50"), (), hold=1)
    assert settle(held, Decimal(amount)).is_within_held is is_within


def test_bounds_are_exact_in_any_decimal_context() -> None:
    """Of a limit of 28 digits and more, and where the program rounds to six."""
    limit = Decimal(12345678901234567890123456789012)
    with localcontext(Context(prec=6)):
        check_settled(limit.scaleb(3, EXACT), Decimal(1), limit)
        with pytest.raises(AmountOverflow, match="12345678901234567890123456789012000;"):
            check_settled(Decimal(12345678901234567890123456789012001), Decimal(1), limit)


def test_what_fits_is_told_in_any_decimal_context() -> None:
    """Also where the program rounds the limit up, to one that has a digit more."""
    with localcontext(Context(prec=5)):
        assert fits(Decimal("1E-25"), Decimal(9_999_990))
        assert not fits(Decimal("1E-26"), Decimal(9_999_990))
