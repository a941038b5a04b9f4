"""Ids of raises: a repeat is known for a time, and their number is bounded."""

from collections.abc import Mapping
from decimal import Decimal

import pytest

from ledger.budgets.raise_ids import RAISE_SECONDS, RAISES_KEPT, RAISES_MAX, remember_raise
from ledger.core.errors import StateConflict
from ledger.testing import MemoryGlobalTable

ONE = Decimal(1)


def after(*times: int) -> Mapping[str, Decimal]:
    """Return what is kept after raises at these times, by ids that sort the other way round."""
    raises: Mapping[str, Decimal] = {}
    raised: Mapping[str, Decimal] = {}
    for number, now in enumerate(times):
        raises, raised = remember_raise(raises, raised, f"{9_999 - number}", ONE, now)
    assert raises.keys() == raised.keys()
    return raises


def test_the_last_ids_are_kept_however_old() -> None:
    """Others are forgotten, once a repeat is too late to be known."""
    few = after(*range(RAISES_KEPT), 2 * RAISE_SECONDS)
    assert len(few) == RAISES_KEPT
    assert "9999" not in few
    assert len(after(*range(RAISES_KEPT), RAISE_SECONDS)) == RAISES_KEPT + 1


def test_a_year_of_daily_raises_is_no_more_than_a_month_of_them() -> None:
    """So the item does not grow."""
    assert len(after(*range(0, 365 * 86_400, 86_400))) == 31


def test_more_raises_than_ids_are_kept_are_refused() -> None:
    """Each write of home's item is charged for all; the error says what to do, and until when."""
    full = range(1, RAISES_MAX + 1)
    with pytest.raises(
        StateConflict, match="in larger steps, the next one after 1970-01-31T01:00:01Z"
    ):
        after(*full, RAISE_SECONDS + 1)
    assert len(after(*full, RAISE_SECONDS + 2)) == RAISES_MAX


@pytest.mark.parametrize("window", ["none", "day"])
async def test_an_id_that_stands_for_another_amount_is_refused(window: str) -> None:
    """It was not made, and is not taken for made."""
    world = MemoryGlobalTable(budgets={"key/*": {"window": window}})
    async with world.table() as table:
        budget = table.budget("key/42")
        await budget.create(10)
        await budget.raise_limit(5, id="order-1")
        with pytest.raises(
            StateConflict, match=r"'order-1' of budget 'key/42' was made by 5, not 7: another"
        ):
            await budget.raise_limit(7, id="order-1")
        assert (await budget.raise_limit(5, id="order-1")).limit == 15


async def test_a_raise_is_known_in_a_window_after_that_in_which_it_was_made() -> None:
    """By the limit's own item: else it would be made once in each window."""
    world = MemoryGlobalTable(budgets={"key/*": {"window": "day"}})
    async with world.table() as table:
        budget = table.budget("key/42")
        await budget.create(10)
        await budget.raise_limit(5, id="order-1")
        await world.clock.advance(86_400)
        assert (await budget.raise_limit(5, id="order-1")).later == 15
