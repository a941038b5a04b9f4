"""What an entry says of its grants, and when it may be folded."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from ledger.budgets import rights_plan, spend_record
from ledger.budgets.rights import Grant, GrantName, Holder, Rights
from ledger.budgets.spend_record import SpendRecord
from ledger.core.entry import entry_item, entry_of
from ledger.core.errors import DamagedItem
from ledger.core.values import Entry

HERE, THERE = Holder("us-east-1"), Holder("eu-west-1")
D = Decimal
NAME, ORG = GrantName(HERE, 2), GrantName(HERE, 9, "org/1")
SPEND = SpendRecord("2026-11-22T00:00:00.000000Z#0000000000000001", D(3), (NAME,))
GRANT = Grant(D(4), 100, 160, "me")
OPEN = Rights(HERE, 2, D(9), grants={2: GRANT})
CLOSED = Rights(HERE, 3, D(9), charged=D(3))
BEFORE = rights_plan.create(HERE, D(9))


def _item(spend: SpendRecord) -> dict[str, Any]:
    entry = Entry("key/42", spend.id, spend.amount.copy_negate())
    return {**entry_item(entry), **spend_record.spend_attributes(spend)}


@pytest.mark.parametrize(
    "spend",
    [
        SPEND,
        replace(SPEND, grants=(NAME, ORG)),
        replace(SPEND, hold=500),
        replace(SPEND, hold=500, resolved="expired", adjusted=(GrantName(HERE, 7),)),
        replace(SPEND, amount=D("-2.5")),
    ],
)
def test_what_is_read_is_what_was_written(spend: SpendRecord) -> None:
    """And the entry counts as any other."""
    assert spend_record.spend_of(_item(spend)) == spend
    assert entry_of(_item(spend)).change == spend.amount.copy_negate()


def test_an_entry_that_names_no_grant_is_no_spend() -> None:
    """It is a change like any."""
    assert spend_record.spend_of(entry_item(Entry("key/42", SPEND.id, D(1)))) is None


@pytest.mark.parametrize(
    "change",
    [
        {"grant": {"S": "us-east-1"}},
        {"grant": {"L": []}},
        {"grant": {"N": "1"}},
        {"hold": {"S": "soon"}},
        {"resolved": {"S": "somehow"}},
    ],
)
def test_a_spend_that_cannot_be_read_is_damaged(change: dict[str, Any]) -> None:
    """Whoever closes a grant by reading must know all of it."""
    with pytest.raises(DamagedItem, match="must name its grants"):
        spend_record.spend_of({**_item(SPEND), **change})


def test_a_grant_is_charged_what_names_it() -> None:
    """What gives back counts against it; another budget's grant of the same version does not."""
    other = replace(SPEND, grants=(replace(NAME, budget="org/1"),))
    back = replace(SPEND, amount=D("-0.5"))
    assert spend_record.charge_of([SPEND, other, back], NAME) == D("2.5")


def test_what_gives_back_is_not_credited_before_regions_agree() -> None:
    """Under a key that was used in two regions at once both would credit it."""
    back = replace(SPEND, amount=D("-0.5"))
    assert spend_record.charge_unagreed([SPEND, back], NAME) == 3


def test_regions_agree_once_all_show_the_same_entries() -> None:
    """One that has got nothing yet, or another's under the same key, does not."""
    other = replace(SPEND, grants=(GrantName(THERE, 2),))
    assert spend_record.agree(NAME, {"a": [SPEND, other], "b": [SPEND]})
    assert not spend_record.agree(NAME, {"a": [SPEND], "b": []})
    assert not spend_record.agree(NAME, {"a": [SPEND], "b": [other]})
    assert spend_record.agree(NAME, {"a": [other], "b": [other]})


def test_the_oldest_of_too_many_are_closed_without_agreement() -> None:
    """So an item stays small while a region is away."""
    over = range(100, 100 + spend_record.WAITING_MAX)
    assert spend_record.to_close_unagreed(over) == ()
    assert spend_record.to_close_unagreed([*over, 7, 3]) == (3, 7)


@pytest.mark.parametrize(
    ("shown", "may"),
    [
        ([CLOSED, CLOSED], True),
        ([CLOSED, OPEN], False),
        ([CLOSED, BEFORE], False),
        ([CLOSED, None], False),
    ],
)
def test_an_entry_is_folded_once_every_region_shows_its_grant_closed(
    shown: list[Rights | None], *, may: bool
) -> None:
    """Where the grant has not arrived, or the item itself, it is not closed."""
    views = {str(place): {("", HERE): item} if item else {} for place, item in enumerate(shown)}
    assert spend_record.may_fold(SPEND, views) == may


THROUGH = replace(SPEND, grants=(GrantName(HERE, 0), GrantName(HERE, 0, "org/1")))
"""Let through from two budgets: it names no grant of either."""


@pytest.mark.parametrize(
    ("spend", "is_there"),
    [
        (SPEND, False),
        (replace(SPEND, hold=500), True),
        (replace(SPEND, hold=500, resolved="void"), False),
        (THROUGH, True),
        (replace(THROUGH, grants=THROUGH.grants[:1]), True),
        (replace(THROUGH, resolved="charged", adjusted=THROUGH.grants), False),
        (replace(SPEND, grants=(GrantName(HERE, 10),)), False),
        (replace(SPEND, grants=(GrantName(Holder("a", 1, 10), 20, "0/0"),)), False),
    ],
)
def test_what_is_still_to_be_resolved_is_known_by_its_item(
    spend: SpendRecord, *, is_there: bool
) -> None:
    """An open hold, or let through and not charged: also where not all of it is read."""
    assert spend.is_open == is_there
    assert spend_record.is_open(_item(spend)) == is_there
    assert not spend_record.is_open(entry_item(Entry("key/42", SPEND.id, D(1))))


def test_what_was_let_through_is_folded_once_every_region_shows_its_charge() -> None:
    """Nobody else knows that it is to be charged; a budget without a limit has nothing to show."""
    written = (GrantName(HERE, 4), GrantName(HERE, 0, "org/1"))
    charged = replace(THROUGH, resolved="charged", adjusted=written)
    shown, older = {("", HERE): Rights(HERE, 4, D(9))}, {("", HERE): CLOSED}
    assert spend_record.may_fold(charged, {"a": shown, "b": shown})
    assert not spend_record.may_fold(charged, {"a": shown, "b": older})
    assert not spend_record.may_fold(charged, {"a": shown, "b": {}})
    assert not spend_record.may_fold(THROUGH, {"a": shown, "b": shown})


def test_an_entry_of_several_grants_waits_for_all() -> None:
    """Else the wider limit would be closed without it."""
    both = replace(SPEND, grants=(NAME, ORG))
    view = {("", HERE): CLOSED, ("org/1", HERE): Rights(HERE, 9, grants={9: GRANT})}
    assert not spend_record.may_fold(both, {"a": view})
    assert spend_record.may_fold(both, {"a": {**view, ("org/1", HERE): Rights(HERE, 10)}})


def test_a_hold_is_folded_once_it_is_resolved_and_its_charge_is_shown() -> None:
    """An open one could not be settled any more."""
    hold = replace(SPEND, hold=500)
    settled = replace(hold, resolved="settled", adjusted=(GrantName(HERE, 4),))
    assert not spend_record.may_fold(hold, {"a": {("", HERE): CLOSED}})
    assert not spend_record.may_fold(settled, {"a": {("", HERE): CLOSED}})
    assert spend_record.may_fold(settled, {"a": {("", HERE): replace(CLOSED, version=4)}})


def test_what_a_lost_holder_left_is_folded_once_all_show_its_reclaim() -> None:
    """Its own item shows the grant open for ever."""
    reclaimed = Rights(THERE, 5, reclaimed={HERE: D(1)})
    view = {("", HERE): OPEN, ("", THERE): reclaimed}
    assert spend_record.may_fold(SPEND, {"a": view})
    assert not spend_record.may_fold(SPEND, {"a": {("", HERE): OPEN, ("org/1", THERE): reclaimed}})


@pytest.mark.parametrize("spend", [THROUGH, replace(SPEND, hold=500)])
def test_what_a_lost_item_should_show_is_folded_once_all_show_its_reclaim(
    spend: SpendRecord,
) -> None:
    """The entry's mark arrived and the item's version did not: it was counted by the reclaim."""
    written = (GrantName(HERE, 9), GrantName(HERE, 9, "org/1"))[: len(spend.grants)]
    charged = replace(spend, resolved="charged", adjusted=written)
    before = {("", HERE): CLOSED, ("org/1", HERE): CLOSED}
    own = before | {("", THERE): Rights(THERE, 5, reclaimed={HERE: D(1)})}
    both = own | {("org/1", THERE): Rights(THERE, 5, reclaimed={HERE: D(1)})}
    assert not spend_record.may_fold(charged, {"a": both, "b": before})
    assert spend_record.may_fold(charged, {"a": both, "b": both})
    assert spend_record.may_fold(charged, {"a": own}) == (len(written) == 1)
