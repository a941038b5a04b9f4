"""Transfers that share one item of a book: text, bytes, and what they move together."""

import zlib
from dataclasses import replace
from datetime import date
from decimal import Decimal
from functools import partial
from typing import Any
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import money

from ledger.core import books, transfers
from ledger.core.capacity import WRITE_UNIT_BYTES, item_size
from ledger.core.entry import entry_item, entry_of, legs_of
from ledger.core.errors import DamagedItem, InvalidEntry
from ledger.core.item_checks import check_said
from ledger.core.parts import (
    PARTS_MAX,
    GatheredTransfers,
    expanded,
    part_like,
    part_named,
    parts_text,
    whole_of,
)
from ledger.core.transfers import Legs
from ledger.core.values import Entry, Leg, same_change

ID = "2026-11-21T06:50:01.123456Z#4f1d2c3b5a697887"
BOOK = "book/shop"


def transfer(amount: int | Decimal, to: str = "alice", asset: str = "EUR") -> Legs:
    """Return a transfer from cash to an account."""
    given = Decimal(amount)
    return books.checked_legs([("cash", asset, given.copy_negate()), (to, asset, given)])


SALES = [transfer(5), transfer(Decimal("12.50"), 'b"ob'), transfer(7, "cafe", "USD")]
TEXT = (
    '[{"EUR":{"alice":5,"cash":-5}},{"EUR":{"b\\"ob":12.5,"cash":-12.5}},'
    '{"USD":{"cafe":7,"cash":-7}}]'
)


def item_of(*listed: Legs) -> Entry:
    """Return the item that transfers share."""
    return Entry(BOOK, ID, Decimal(0), "eu-west-1", count=len(listed), parts=parts_text(listed))


letters = st.text(st.characters(codec="utf-8", categories=["L", "N", "P"]), min_size=1, max_size=9)
names = letters.map(partial(normalize, "NFC"))


@st.composite
def drawn_transfers(draw: st.DrawFn) -> Legs:
    """Draw legs of up to three assets."""
    legs = list[Any]()
    for asset in draw(st.sets(st.sampled_from(["EUR", "USD/2", '"']), min_size=1)):
        amount = draw(money().filter(bool))
        one, other = draw(st.lists(names, min_size=2, max_size=2, unique=True))
        legs += [(f"a/{one}", asset, amount), (f"a/{other}", asset, amount.copy_negate())]
    return books.checked_legs(legs)


def test_each_transfer_of_an_item_is_an_entry() -> None:
    """With its own legs and place; the item says what all of them move together."""
    item = entry_item(item_of(*SALES))
    assert transfers.text_in(item["legs"]["B"]) == TEXT
    assert "parts" not in item
    read = entry_of(item)
    assert (read.parts, read.count, int(read.change)) == (TEXT, 3, 0)
    assert not read.legs
    found = expanded(read)
    assert [one.legs for one in found] == SALES
    assert [one.id for one in found] == [f"{ID}.{place:03d}" for place in range(3)]
    assert {(one.change, one.count, one.parts) for one in found} == {(Decimal(0), 1, "")}
    assert legs_of(item) == (
        Leg("alice", "EUR", Decimal(5)),
        Leg('b"ob', "EUR", Decimal("12.5")),
        Leg("cash", "EUR", Decimal("-17.5")),
        Leg("cafe", "USD", Decimal(7)),
        Leg("cash", "USD", Decimal(-7)),
    )


def test_transfers_that_undo_each_other_move_nothing_together() -> None:
    """Each is still there."""
    item = entry_item(item_of(SALES[0], books.opposite(SALES[0])))
    assert legs_of(item) == ()
    assert len(expanded(entry_of(item))) == 2


@given(st.lists(drawn_transfers(), min_size=1, max_size=30))
def test_what_was_gathered_is_read_again(listed: list[Legs]) -> None:
    """In order; the item costs one unit, and each part may be written again, as the same item."""
    gathered, taken = GatheredTransfers(BOOK), list[Legs]()
    for legs in listed:
        if not gathered.take(legs):
            break
        taken.append(legs)
    made = Entry(BOOK, ID, Decimal(0), "us-east-1", count=gathered.size, parts=gathered.text)
    item = entry_item(made)
    assert gathered.text == parts_text(taken)
    assert len(taken) == 1 or item_size(item) <= WRITE_UNIT_BYTES
    read = entry_of(item)
    assert same_change(made, read)
    for place, part in enumerate(expanded(read)):
        assert part.legs == taken[place]
        assert part == part_named(read, part.id)
        again = replace(part, parts=made.parts)
        assert entry_item(whole_of(again)) == item
        assert part_like(whole_of(again), again) == part
    moved = books.AccountSums()
    for legs in taken:
        moved.move(legs)
    assert legs_of(item) == books.legs_of(moved.accounts())


def test_seventy_transfers_share_a_write_unit() -> None:
    """Of two legs, with names that come again: with amounts alone that are all different."""
    gathered = GatheredTransfers("book/shop1")
    number = 0
    while gathered.take(transfer(Decimal(f"{100 + 7919 * number}e-2"), f"customer/{number:06d}")):
        number += 1
    assert number >= 70
    item = entry_item(replace(item_of(), count=gathered.size, parts=gathered.text))
    assert 900 < item_size(item) <= WRITE_UNIT_BYTES


def test_an_item_is_bounded_by_its_text_too() -> None:
    """Else a repeat could carry megabytes that pack to nothing."""
    gathered, number = GatheredTransfers(BOOK), 0
    while gathered.take(transfer(1)):
        number += 1
    assert 200 < number < PARTS_MAX
    assert len(gathered.text.encode()) <= transfers.TEXT_BYTES_MAX
    long = transfer(1, "x" * 255)
    assert GatheredTransfers("c" * 1_000).take(long)
    assert not gathered.take(transfer(1))


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "[1]",
        "{}",
        '[{"EUR":{"a":5}}]',
        '[{"EUR":{"a":5,"b":-4}}]',
        '[{"EUR":{"a":0,"b":0}}]',
        '[{"EUR":{"a":"5","b":-5}}]',
        '[{"EUR":{"a":5,"b":NaN}}]',
        '[{"EUR":[5,-5]}]',
        "[" * 3_000,
        "\N{REPLACEMENT CHARACTER}",
    ],
)
def test_what_is_no_list_of_transfers_is_damage(text: str) -> None:
    """For all that read it: totals too, since its legs count."""
    item = {**entry_item(item_of(*SALES)), "legs": {"B": zlib.compress(text.encode())}}
    with pytest.raises(DamagedItem, match=f"{ID}.* of counter .*{BOOK}.* is damaged"):
        legs_of(item)
    with pytest.raises(DamagedItem):
        check_said([item], BOOK, with_items=False, with_dates=False)
    with pytest.raises(DamagedItem):
        expanded(entry_of(item))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        zlib.compress(b"[")[:-1],
        zlib.compress(TEXT.encode()) + b"x",
        zlib.compress(b"[" + b" " * transfers.TEXT_BYTES_MAX),
        zlib.compress(b"\xff"),
    ],
)
def test_bytes_of_another_form_are_damage(data: bytes) -> None:
    """Cut, followed by others, too long, or no text."""
    item = {**entry_item(item_of(*SALES)), "legs": {"B": data}}
    for read in (legs_of, entry_of):
        with pytest.raises(DamagedItem, match="is damaged"):
            read(item)


@pytest.mark.parametrize(
    "change",
    [
        {"count": 2},
        {"parts": TEXT.replace("12.5", "12.50")},
        {"parts": TEXT.replace("5,", "5, ")},
        {"parts": '[{"EUR":{"cash":-5,"alice":5}}]', "count": 1},
    ],
)
def test_another_form_of_the_same_is_no_item_of_ours(change: dict[str, Any]) -> None:
    """Number and text are exact, so that two regions show the same bytes of one call."""
    with pytest.raises(DamagedItem, match="transfers that add up to 0"):
        expanded(replace(item_of(*SALES), **change))


PART = replace(expanded(item_of(*SALES))[1], parts=TEXT)


@pytest.mark.parametrize(
    "wrong",
    [
        replace(PART, legs=SALES[0]),
        replace(PART, legs=()),
        replace(PART, change=Decimal(1)),
        replace(PART, id=f"{ID}.003"),
        replace(PART, count=3),
        replace(PART, note="n"),
        replace(PART, effective=date(2026, 11, 1)),
        replace(PART, metadata={"a": "b"}),
        replace(PART, parts="0 0 0"),
        replace(
            PART, parts=parts_text([SALES[0], ((*SALES[1][:1], Leg("~x", "EUR", Decimal(-5))))])
        ),
        replace(PART, parts=parts_text([transfer(1)] * 300)),
        replace(item_of(*SALES), legs=SALES[0]),
        replace(item_of(*SALES), count=4),
    ],
)
def test_a_changed_part_is_refused(wrong: Entry) -> None:
    """A repeat writes what was asked for first, or nothing."""
    with pytest.raises(InvalidEntry, match="say nothing else"):
        whole_of(wrong)


def test_a_part_may_be_repeated_with_its_legs_in_any_order() -> None:
    """As a client may have them."""
    assert whole_of(replace(PART, legs=PART.legs[::-1])).parts == TEXT
