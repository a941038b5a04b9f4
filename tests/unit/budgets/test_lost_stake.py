"""What a lost region leaves of a budget, and is minted again once."""

from dataclasses import replace
from decimal import Decimal

import pytest

from ledger.budgets import lost_stake, rights_plan
from ledger.budgets.rights import Grant, GrantName, Holder, Rights
from ledger.budgets.spend_record import SpendRecord
from ledger.core.errors import InvalidInput

LOST, HERE, THERE = Holder("us-east-1"), Holder("eu-west-1"), Holder("ap-south-1")
D = Decimal
BASE = Rights(
    LOST,
    9,
    D(100),
    retired=D(1),
    charged=D(20),
    sent={HERE: D(7)},
    grants={8: Grant(D(9), 0, 9, "")},
)
CUT = Rights(HERE, 4, D(10), taken={LOST: D(5)}, sent={LOST: D(2)}, cut={LOST: D(5)})
OTHER = Rights(THERE, 4, sent={LOST: D(3)}, cut={LOST: D(0)})


def _spend(version: int, amount: int = 4, number: str = "1") -> SpendRecord:
    return SpendRecord(number, D(amount), (GrantName(LOST, version),))


def test_the_newest_version_that_is_shown_counts() -> None:
    """Shown nowhere the item was made with its share, at most."""
    assert lost_stake.newest(LOST, [replace(BASE, version=3), BASE]) == BASE
    assert lost_stake.newest(LOST, [], share=D(5)) == Rights(LOST, minted=D(5))


def test_what_nobody_who_remains_has_spent_is_minted_again() -> None:
    """What it had, and was sent, less what others took and what it charged or left as entries."""
    spends = [_spend(8), _spend(10, 1, "2"), _spend(5, 50, "3")]
    stake = lost_stake.stake_of(BASE, [CUT, OTHER], spends)
    assert stake.minted == 99
    assert stake.sent == 5
    assert stake.taken == 5
    assert stake.charged == 20
    assert stake.entries == 5
    assert stake.amount == 74


@pytest.mark.parametrize(("reclaimed", "is_again"), [({HERE: D(1)}, True), ({}, False)])
def test_what_was_minted_in_an_item_that_is_lost_since_is_minted_with_that(
    reclaimed: dict[Holder, Decimal], *, is_again: bool
) -> None:
    """Not before: until then it is nobody's."""
    shown = {
        HERE: replace(CUT, reclaimed={LOST: D(9)}),
        THERE: replace(OTHER, reclaimed=reclaimed),
    }
    assert lost_stake.is_minted_again(LOST, shown, keeps=lambda one: one == THERE) is is_again


def test_each_remaining_item_must_have_cut_it_off() -> None:
    """Else it might take up later what is minted again."""
    with pytest.raises(InvalidInput, match="must cut off us-east-1"):
        lost_stake.stake_of(BASE, [replace(CUT, cut={})], [])


def test_who_cut_a_holder_off_takes_nothing_up_any_more() -> None:
    """What had been taken stays on record."""
    before = replace(CUT, cut={})
    assert rights_plan.take_up(before, BASE) is not None
    cut = lost_stake.cut_off(before, LOST)
    assert cut is not None
    assert cut.cut == {LOST: 5}
    assert rights_plan.take_up(cut, BASE) is None
    assert lost_stake.cut_off(cut, LOST) is None
    with pytest.raises(InvalidInput, match="not lost"):
        rights_plan.send(cut, LOST, D(1))


def test_of_an_entry_that_regions_show_differently_the_higher_counts() -> None:
    """A hold of which one region shows what it was settled for, another what was held."""
    hold = replace(_spend(8, 6), hold=50)
    settled = replace(hold, amount=D(2), resolved="settled")
    for shown in ([settled, hold], [hold, settled]):
        assert lost_stake.stake_of(BASE, [CUT], shown).entries == 6


def test_an_open_hold_counts_though_its_grant_was_closed() -> None:
    """It may have been charged what it was settled for, which has not arrived."""
    hold = replace(_spend(5, 6), hold=50)
    apart = replace(hold, resolved="settled", adjusted=(GrantName(LOST, 10),))
    assert lost_stake.stake_of(BASE, [CUT], [hold]).entries == 6
    assert lost_stake.stake_of(BASE, [CUT], [apart]).entries == 6
    shown = replace(apart, adjusted=(GrantName(LOST, 9),))
    assert lost_stake.stake_of(BASE, [CUT], [shown]).entries == 0


def test_what_was_let_through_counts_where_the_lost_region_has_charged_it() -> None:
    """As far as its item shows; else an item that remains is charged for it, now or by then."""
    through = replace(_spend(0), grants=(GrantName(LOST, 0),))
    assert lost_stake.stake_of(BASE, [CUT], [through]).entries == 0
    for by, entries in (
        (GrantName(LOST, 10), 4),
        (GrantName(LOST, 9), 0),
        (GrantName(HERE, 99), 0),
    ):
        charged = replace(through, resolved="charged", adjusted=(by,))
        assert lost_stake.stake_of(BASE, [CUT], [charged]).entries == entries


def test_only_entries_of_the_same_budget_count() -> None:
    """Of a bundle each grant is named with its budget."""
    org = replace(_spend(8), grants=(GrantName(HERE, 8), GrantName(LOST, 8, "org/1")))
    assert lost_stake.stake_of(BASE, [CUT], [org]).entries == 0
    assert lost_stake.stake_of(BASE, [CUT], [org], "org/1").entries == 4


def test_rights_are_minted_again_once() -> None:
    """Less than is at stake may be asked for; a debt is charged."""
    again = lost_stake.mint_again(CUT, LOST, D(74))
    assert again is not None
    assert again.minted == 84
    assert again.reclaimed == {LOST: 74}
    assert lost_stake.mint_again(again, LOST, D(74)) is None
    assert lost_stake.is_reclaimed([OTHER, again], LOST)
    assert not lost_stake.is_reclaimed([OTHER, CUT], LOST)
    debt = lost_stake.mint_again(CUT, LOST, D(-3))
    assert debt is not None
    assert debt.minted == 10
    assert debt.charged == 3
    with pytest.raises(InvalidInput, match="must cut off"):
        lost_stake.mint_again(replace(CUT, cut={}), LOST, D(1))


def test_what_an_item_of_a_later_epoch_was_charged_is_not_charged_to_the_lost_one() -> None:
    """The region was added again: its new item was charged for what the lost one let through."""
    by = GrantName(Holder(LOST.region, 2), 10)
    through = replace(_spend(0), resolved="charged", adjusted=(by,))
    assert lost_stake.stake_of(BASE, [CUT], [through]).entries == 0
