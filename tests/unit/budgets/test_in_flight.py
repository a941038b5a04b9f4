"""What is on its way between rights items, as a search of the table shows it."""

from dataclasses import replace
from decimal import Decimal

import pytest

from ledger.budgets.rights import Holder, Rights, is_in_flight, rights_item
from ledger.core.entry import Item

HERE, THERE = Holder("us-east-1"), Holder("eu-west-1")


@pytest.mark.parametrize(
    ("sent", "taken", "is_cut", "found"),
    [
        (0, 0, False, False),
        (5, 0, False, True),
        (5, 3, False, True),
        (5, 5, False, False),
        (5, 3, True, False),
    ],
)
def test_what_was_sent_and_not_taken_up_is_in_flight(
    sent: int, taken: int, *, is_cut: bool, found: bool
) -> None:
    """Unless the taker was lost, and cut off."""
    giver = Rights(HERE, 1, sent={THERE: Decimal(sent)} if sent else {})
    giver = replace(giver, cut={THERE: Decimal(0)} if is_cut else {})
    taker = Rights(THERE, 1, taken={HERE: Decimal(taken)} if taken else {})
    items = [rights_item(rights, "counter") for rights in (giver, taker)]
    assert is_in_flight(items, is_over=lambda _: False) is found
    assert not is_in_flight(items, is_over=lambda holder: holder == THERE)
    assert not is_in_flight(items[1:], is_over=lambda _: False)


def test_what_was_sent_to_a_holder_without_an_item_is_in_flight() -> None:
    """Whoever fetched it crashed before the item was made."""
    items = [rights_item(Rights(HERE, 1, sent={THERE: Decimal(5)}), "counter")]
    assert is_in_flight(items, is_over=lambda _: False)


@pytest.mark.parametrize(
    "damage", [{"sent": {"S": "5"}}, {"sent": {"M": {"?": {"N": "5"}}}}, {"cut": {"N": "1"}}]
)
def test_what_cannot_be_read_is_in_flight(damage: Item) -> None:
    """A visit finds out, and says so; the search goes on."""
    item = {**rights_item(Rights(HERE, 1), "counter"), **damage}
    assert is_in_flight([item], is_over=lambda _: False)
