"""Keys that prove who wrote an entry."""

from dataclasses import replace
from decimal import Decimal

import pytest

from ledger.core import ids
from ledger.core.own_keys import is_proved, own_keys, own_suffix
from ledger.core.values import Entry
from ledger.testing.clock import START
from ledger.writes.asked_parts import ListedChanges
from ledger.writes.entry_plan import Change

(KEY,) = own_keys(5, 1)
MADE = Entry(
    "stock",
    ids.sort_key(START, own_suffix("stock", KEY, Decimal("7.50"), 3)),
    Decimal("7.5"),
    count=3,
    key=KEY,
)
NAMED = Entry(
    "stock", ids.sort_key(START, ids.suffix_of("stock", "order-17")), Decimal(7), key="order-17"
)


def test_each_entry_has_a_key_of_its_own() -> None:
    """Of all the bits that are given, its own 128."""
    assert own_keys(2**128 + 15, 2) == [f"{1:032x}", f"{15:032x}"]


def test_of_an_item_with_parts_each_amount_is_proved() -> None:
    """Others with the same sum are another item."""
    parts = "5 -1 3.5"
    suffix = own_suffix("stock", KEY, Decimal("7.5"), 3, parts)
    whole = replace(MADE, id=ids.sort_key(START, suffix), parts=parts)
    assert is_proved(whole)
    assert not is_proved(replace(whole, parts="5 -2 4.5"))
    assert not is_proved(replace(whole, parts=""))
    assert not is_proved(replace(MADE, parts=parts))


def test_who_knows_the_key_is_the_writer() -> None:
    """Of a key that was made, and of one that its caller chose, in either spelling."""
    assert is_proved(MADE)
    assert is_proved(NAMED)
    ulid = "01HF0000000000000000000000"
    suffix = ids.suffix_of("stock", ulid)
    made = replace(NAMED, id=ids.sort_key(START, suffix), key=ulid.lower())
    assert is_proved(made)


@pytest.mark.parametrize("entry", [MADE, NAMED])
@pytest.mark.parametrize("key", [None, "", "order-18", MADE.id, f"{5:032x}\x007.5\x003x"])
def test_any_other_key_proves_nothing(entry: Entry, key: str | None) -> None:
    """Nor the id itself, which everybody sees."""
    assert not is_proved(replace(entry, key=key))
    assert not is_proved(replace(entry, id="x"))
    assert not is_proved(replace(entry, counter="stock2"))


@pytest.mark.parametrize("other", [replace(MADE, change=Decimal(0)), replace(MADE, count=1)])
def test_a_key_that_was_made_is_of_one_amount(other: Entry) -> None:
    """So of several callers, whose changes share an entry, none can write another in its place."""
    assert not is_proved(other)


def test_an_item_of_a_list_is_proved_by_the_lists_key() -> None:
    """Whichever of the counter's items it is; with another amount it is not."""
    changes = [Change("c", 1)] * 250
    for item in ListedChanges.of(changes, "list-1", START).items:
        assert is_proved(item)
        assert not is_proved(replace(item, key="list-2"))
        assert not is_proved(replace(item, counter="d"))
        assert not is_proved(replace(item, parts=""))
