"""A budget as one region shows it: grants, transfers, what is stranded and at stake."""

from dataclasses import replace
from decimal import Decimal

import pytest
from support.budgets import AT_HOME, AT_SOUTH, AT_WEST, changed, granted, limited_settings
from support.ledgers import HOME, SOUTH, WEST

from ledger.budgets.budget_state import BudgetState, InFlight, explain_budget, state_of, with_shares
from ledger.budgets.calendar import Window
from ledger.budgets.lost_stake import cut_off, mint_again
from ledger.budgets.rights import Grant, Rights
from ledger.budgets.rights_plan import limit_of, lower_limit
from ledger.budgets.rolling_limits import LASTING
from ledger.core.amounts import total_wide
from ledger.core.contract import Terms
from ledger.testing.clock import START

WHOLE = Window("counter", "counter")


def terms(*lost: str) -> Terms:
    """Return terms under which these regions are lost."""
    of = limited_settings().terms
    regions = tuple(region for region in of.regions if region not in lost)
    return replace(of, regions=regions, lost=lost)


def shown(*items: Rights, lost: tuple[str, ...] = (), over: int = 0) -> BudgetState:
    """Return what these items say; grants that expire by `over` are over."""

    def is_over(grant: Grant) -> bool:
        return grant.expires <= over

    by_holder = {item.holder: item for item in items}
    return state_of(WHOLE, by_holder, target=None, terms=terms(*lost), is_over=is_over)


HOME_ITEM = changed(granted(AT_HOME, 10, at=START), sent={AT_WEST: Decimal(30)})
WEST_ITEM = changed(granted(AT_WEST, at=START, minted=0), taken={AT_HOME: Decimal(20)})


def test_rights_are_free_granted_or_on_their_way() -> None:
    """By region and by pair; together they are the limit."""
    state = shown(HOME_ITEM, WEST_ITEM)
    assert [state.limit, state.free, state.granted] == [100, 90, 10]
    home, west = sorted(state.regions, key=lambda one: one.region != HOME)
    assert [home.free, home.granted, home.at_stake] == [60, 10, 70]
    assert [west.free, west.in_flight, west.at_stake] == [20, 10, 30]
    assert state.in_flight == (InFlight(HOME, WEST, Decimal(10)),)
    assert state.stranded == 0


def test_a_grant_that_is_over_is_stranded_until_its_entries_are_read() -> None:
    """Its amount is neither free nor spendable."""
    [grant] = shown(HOME_ITEM, WEST_ITEM).grants
    assert not grant.is_over
    state = shown(HOME_ITEM, WEST_ITEM, over=grant.expires)
    assert state.grants[0].is_over
    assert state.stranded == 10


def test_what_a_settled_hold_gave_back_is_not_stranded() -> None:
    """It is free again, though its grant is still open."""
    [version] = HOME_ITEM.grants
    item = changed(HOME_ITEM, adjusted={version: Decimal(-3)})
    [grant] = shown(item, WEST_ITEM).grants
    state = shown(item, WEST_ITEM, over=grant.expires)
    assert [state.granted, state.stranded, state.free] == [7, 7, 93]
    assert state.grants[0].amount == 7


def test_what_was_credited_is_free_and_no_amount_of_a_grant() -> None:
    """While its grant is open, as once it is closed; a reclaim would mint it again."""
    [version] = HOME_ITEM.grants
    grants = {version: HOME_ITEM.grants[version], 99: Grant(Decimal(0), 1, 2, "token")}
    item = changed(HOME_ITEM, grants=grants, adjusted={99: Decimal(-5)})
    state = shown(item, WEST_ITEM, over=2)
    assert [state.free, state.granted, state.charged, state.stranded] == [95, 10, -5, 0]
    home = next(one for one in state.regions if one.region == HOME)
    assert [home.free, home.granted, home.charged, home.at_stake] == [65, 10, -5, 75]
    assert [grant.amount for grant in state.grants] == [10, -5]
    assert any(": 5 credited, since " in line for line in explain_budget(state))


def test_what_a_lost_region_has_is_stranded_until_it_is_reclaimed() -> None:
    """What was sent to it, too; then it is minted again, and the limit is as it was."""
    state = shown(HOME_ITEM, WEST_ITEM, lost=(WEST,))
    assert [state.limit, state.free, state.stranded] == [100, 60, 30]
    cut = cut_off(HOME_ITEM, AT_WEST)
    assert cut is not None
    minted = mint_again(cut, AT_WEST, Decimal(30))
    assert minted is not None
    again = shown(minted, WEST_ITEM, lost=(WEST,))
    assert [again.limit, again.free, again.stranded] == [100, 90, 0]
    assert [region.region for region in again.regions] == [HOME]
    assert again.in_flight == ()


@pytest.mark.parametrize("west", [(WEST_ITEM,), ()])
def test_what_a_lost_region_spent_by_entries_counts_as_charged(west: tuple[Rights, ...]) -> None:
    """It is in no item: neither what was minted again, nor what anybody charged.

    Of a hold among them that is voided later as much is given back at home.
    """
    cut = cut_off(HOME_ITEM, AT_WEST)
    assert cut is not None
    minted = mint_again(cut, AT_WEST, Decimal(26))
    assert minted is not None
    again = shown(minted, *west, lost=(WEST,))
    assert [again.limit, again.free, again.granted, again.charged] == [100, 86, 10, 4]
    voided = shown(changed(minted, charged=Decimal(-4)), *west, lost=(WEST,))
    assert [voided.free, voided.charged] == [90, 0]


def test_a_limit_is_lowered_right_after_a_reclaim() -> None:
    """What was minted again counts once, not twice."""
    cut = cut_off(HOME_ITEM, AT_WEST)
    assert cut is not None
    minted = mint_again(cut, AT_WEST, Decimal(30))
    assert minted is not None
    lowered = lower_limit(minted, Decimal(95), (WEST_ITEM,))
    assert lowered is not None
    assert lowered.retired == 5
    assert limit_of((lowered, WEST_ITEM)) == 95


def test_a_lost_region_that_owed_leaves_the_limit_as_it_was() -> None:
    """What it was charged more than it had is charged again, and nothing minted."""
    cut = cut_off(HOME_ITEM, AT_WEST)
    assert cut is not None
    charged = mint_again(cut, AT_WEST, Decimal(-5))
    assert charged is not None
    assert limit_of((charged, WEST_ITEM)) == limit_of((HOME_ITEM, WEST_ITEM))
    state = shown(charged, WEST_ITEM, lost=(WEST,))
    assert [state.limit, state.free, state.granted, state.charged] == [100, 55, 10, 35]


def test_rights_sent_to_a_region_that_shows_no_item_are_on_their_way() -> None:
    """And are in the lines that people read."""
    home = changed(granted(AT_HOME, at=START), sent={AT_SOUTH: Decimal(5)})
    state = shown(home)
    assert state.in_flight == (InFlight(HOME, SOUTH, Decimal(5)),)
    assert state.free == state.limit
    assert f"in flight: 5 from {HOME} to {SOUTH}" in explain_budget(state)


def test_each_open_grant_has_a_line() -> None:
    """With its times, and whether it waits to be closed by its entries."""
    [grant] = shown(HOME_ITEM).grants
    lines = explain_budget(shown(HOME_ITEM, over=grant.expires))
    assert lines[5] == (
        "grant 2 of us-east-1: 10, since 2026-11-21T06:50:00Z, expires 2026-11-21T06:51:00Z, over:"
        " waits to be closed by its entries"
    )


@pytest.mark.parametrize(("minted", "limit"), [(20, 110), (15, 105), (10, 100), (-5, 100)])
def test_the_share_that_nobody_saw_of_a_lost_region_counts_once_reclaimed(
    minted: int, limit: int
) -> None:
    """The window ended so long ago that no step says it; 10 more had been sent there."""
    sent = changed(granted(AT_HOME, at=START), sent={AT_WEST: Decimal(10)})
    home = cut_off(sent, AT_WEST)
    assert home is not None
    again = mint_again(home, AT_WEST, Decimal(minted))
    assert again is not None
    items = {AT_HOME: again, AT_WEST: Rights(AT_WEST, 1)}
    made = with_shares(items, [AT_WEST, AT_SOUTH])
    state = state_of(WHOLE, made, target=None, terms=terms(WEST), is_over=lambda _: False)
    assert state.limit == limit
    assert with_shares(items, [AT_SOUTH]) == items


def test_what_lasts_of_a_rolling_limit_is_nobody_s_charge() -> None:
    """It was not spent: the parts come to the limit without it."""
    item = replace(granted(AT_HOME, at=START, minted=70), bucket=3_600)
    home = changed(item, charged=Decimal(13), buckets={1: Decimal(3), LASTING: Decimal(10)})
    [region] = shown(home).regions
    assert [region.charged, region.free] == [3, 57]


def test_what_was_charged_more_than_there_was_is_owed() -> None:
    """Less what is on its way; else it would be shown nowhere, since nothing is free then."""
    over = changed(WEST_ITEM, charged=Decimal(70))
    [west] = [region for region in shown(HOME_ITEM, over).regions if region.region == WEST]
    assert west.owed == shown(HOME_ITEM, over).owed == 40
    assert f"{WEST} owes 40: it was charged more than it had" in explain_budget(
        shown(HOME_ITEM, over)
    )
    assert shown(HOME_ITEM, WEST_ITEM).owed == 0


@pytest.mark.parametrize("has_cut", [True, False])
def test_what_moved_between_two_lost_regions_is_in_the_lines_of_both_or_of_none(
    *, has_cut: bool
) -> None:
    """As reclaims count it: west was reclaimed first, and south paid the 12 if it owed them.

    West had taken 30 of home's, of which home's newest item that arrived shows 20 as sent.
    """
    home = changed(granted(AT_HOME, 10, at=START), sent={AT_WEST: Decimal(20)})
    cut = {AT_HOME: Decimal(30)} if has_cut else {}
    west = changed(
        granted(AT_WEST, at=START, minted=0),
        taken={AT_HOME: Decimal(30)},
        charged=Decimal(12),
        cut=cut,
    )
    south = changed(
        granted(AT_SOUTH, at=START, minted=20 + 18 * has_cut),
        cut={AT_WEST: Decimal(0)},
        charged=Decimal(0 if has_cut else 12),
        reclaimed={AT_WEST: Decimal(18 if has_cut else -12)},
    )
    state = shown(home, west, south, lost=(HOME, WEST))
    free = {region.region: region.free for region in state.regions}
    assert free == {HOME: 60 if has_cut else 90, SOUTH: 38 if has_cut else 8}
    assert [state.limit, state.charged, state.granted] == [120, 12, 10]
    assert total_wide((*free.values(), state.charged, state.granted)) == state.limit
