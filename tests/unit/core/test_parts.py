"""Changes that share one item: its text, its parts, and what may be written again."""

from dataclasses import replace
from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import counters, entry_ids, money

from ledger.core import amounts
from ledger.core.capacity import WRITE_UNIT_BYTES, item_size
from ledger.core.entry import entry_item, entry_of
from ledger.core.errors import AmountOverflow, DamagedItem, InvalidEntry
from ledger.core.ids import EntryId
from ledger.core.item_checks import check_said
from ledger.core.parts import (
    PARTS_MAX,
    GatheredParts,
    changes_in,
    expanded,
    part_like,
    part_named,
    part_of,
    parts_text,
    text_room,
    whole_of,
)
from ledger.core.values import Entry, Spending, same_change

ID = "2026-11-21T06:50:01.123456Z#4f1d2c3b5a697887"
REGION = "eu-west-1"
LONGEST_REGION = "us-" + "government-" * 2 + "up-1"
WHOLE = Entry("stock", ID, Decimal(12), REGION, count=3, shard=2, key="k", parts="5 -1 8")
PARTS = [
    Entry("stock", f"{ID}.{place:03d}", Decimal(change), REGION)
    for place, change in enumerate((5, -1, 8))
]


LARGE = st.integers(1 - 10**38, 10**38 - 1).map(Decimal)
"""Amounts of which two may have no sum within 38 digits."""


def whole(*changes: Decimal, counter: str = "stock", id_: str = ID) -> Entry:
    """Return the item of some changes."""
    text, total = parts_text(changes), amounts.total_wide(changes)
    return Entry(counter, id_, total, REGION, count=len(changes), parts=text)


def test_each_change_of_an_item_is_an_entry() -> None:
    """With its own amount, and place, time and region of the item; nobody writes it again."""
    found = expanded(replace(WHOLE, repeated=True))
    assert found == PARTS
    for part in found:
        assert (part.at, part.shard, part.repeated) == (WHOLE.at, 2, True)
        assert (part.count, part.parts) == (1, "")


def test_an_item_of_one_change_has_one_part() -> None:
    """Its id is not that of the item, which no caller knows."""
    one = Entry("stock", ID, Decimal(5), REGION, parts="5")
    assert entry_item(one)["parts"] == {"S": "5"}
    assert expanded(one) == PARTS[:1]


@pytest.mark.parametrize("entry", [replace(WHOLE, parts=""), replace(WHOLE, id="other", parts="")])
def test_an_entry_without_parts_is_itself(entry: Entry) -> None:
    """One that stands for several changes, of an earlier release, too."""
    assert expanded(entry) == [entry]


def test_parts_of_another_writers_item_are_none() -> None:
    """Whatever it calls so: its id is not one that a place could be added to."""
    for text in ({"S": "wheel axle"}, {"N": "7"}):
        foreign = {**entry_item(replace(WHOLE, id="other", parts="")), "parts": text}
        assert expanded(entry_of(foreign)) == [entry_of(foreign)]
        assert entry_of(foreign).count == 3


@given(
    changes=st.one_of(
        st.lists(money(), min_size=1, max_size=40), st.lists(LARGE, min_size=1, max_size=9)
    ),
    counter=counters(),
    id_=entry_ids(),
)
def test_property_an_item_returns_its_changes(
    changes: list[Decimal], counter: str, id_: EntryId
) -> None:
    """In order and exactly, after a way through the table; each of them leads to the whole."""
    made = whole(*changes, counter=counter, id_=str(id_))
    try:
        amounts.total(changes)
    except AmountOverflow:
        part = part_of(made, 0, changes[0], parts=made.parts)
        with pytest.raises(AmountOverflow, match="amount must"):
            whole_of(part)
        return
    read = entry_of(entry_item(made))
    assert same_change(read, made)
    assert changes_in(read) == changes
    for place, part in enumerate(expanded(read)):
        again = replace(part, parts=made.parts)
        assert part == part_of(made, place, changes[place]) == part_named(read, part.id)
        assert entry_item(whole_of(again)) == entry_item(made)


@given(st.lists(st.one_of(money(), LARGE, st.just(Decimal("1E-130"))), max_size=12))
def test_property_what_gathers_for_an_item_has_a_sum(changes: list[Decimal]) -> None:
    """Each change is taken exactly if the sum still fits; the first one always is."""
    gathered, taken = GatheredParts("stock"), list[Decimal]()
    for change in changes:
        fits = not taken or amounts.fits(list(map(amounts.to_text, [*taken, change])))
        assert gathered.take(change) is fits
        taken += [change] if fits else []
    assert gathered.change == amounts.total_wide(taken)
    assert (gathered.size, gathered.text) == (len(taken), parts_text(taken))


DAMAGED = [
    pytest.param("5 -1 8", 4, 12, id="too few"),
    pytest.param("5 -1 8", 1, 12, id="too many"),
    pytest.param("5 -1 9", 3, 12, id="another sum"),
    pytest.param("5 -1  8", 3, 12, id="two spaces"),
    pytest.param("5 -1  8", 4, 12, id="two spaces, counted"),
    pytest.param(" 5 -1 8", 3, 12, id="a space before"),
    pytest.param("5 -1 8 ", 3, 12, id="a space after"),
    pytest.param(" ", 1, 12, id="a space alone"),
    pytest.param("5\t-1\t8", 3, 12, id="tabs"),
    pytest.param("5,-1,8", 3, 12, id="commas"),
    pytest.param("5.0 -1 8", 3, 12, id="a zero too many"),
    pytest.param("+5 -1 8", 3, 12, id="a plus"),
    pytest.param("05 -1 8", 3, 12, id="a zero before"),
    pytest.param("5 -1 -0 8", 4, 12, id="minus zero"),
    pytest.param("5 -1 8E0", 3, 12, id="an exponent"),
    pytest.param("5 -1 eight", 3, 12, id="no number"),
    pytest.param("NaN -1 8", 3, 12, id="not a number"),
    pytest.param("Infinity -1 8", 3, 12, id="no end"),
    pytest.param("\u0665 -1 8", 3, 12, id="other digits"),
    pytest.param("5 -1 1E+126", 3, 12, id="out of range"),
    pytest.param(f"5 -1 {10**38 + 1}", 3, 12, id="39 digits"),
    pytest.param(f"{10**37} 0.1", 2, 10**37, id="their sum does not fit"),
    pytest.param(" ".join(["1"] * (PARTS_MAX + 1)), PARTS_MAX + 1, PARTS_MAX + 1, id="1,001"),
]


@pytest.mark.parametrize(("text", "count", "change"), DAMAGED)
def test_what_is_not_all_of_an_item_is_damaged(text: str, count: int, change: int) -> None:
    """No change of such an item is shown, and none of it is archived; the error names the item."""
    item = entry_item(replace(WHOLE, parts=text, count=count, change=Decimal(change)))
    for read in (expanded, changes_in, lambda entry: part_named(entry, f"{ID}.000")):
        with pytest.raises(DamagedItem, match=f"item '{ID}' of counter 'stock' .* {count} amounts"):
            read(entry_of(item))
    with pytest.raises(DamagedItem):
        check_said([item], "stock", with_items=True, with_dates=False)
    check_said([item], "stock", with_items=False, with_dates=True)  # a total needs its sum alone


def test_text_of_another_type_is_damaged() -> None:
    """As that of a note is."""
    with pytest.raises(DamagedItem, match=r"parts must be a string \(S\)"):
        entry_of({**entry_item(WHOLE), "parts": {"L": []}})


def test_an_item_has_up_to_a_thousand_changes() -> None:
    """The last has place 999."""
    found = expanded(whole(*[Decimal(1)] * PARTS_MAX))
    assert (len(found), found[-1].id) == (1_000, f"{ID}.999")


def test_what_may_be_written_again_is_the_whole_item() -> None:
    """Of each of its parts the same, with what proves it; an entry of its own is itself."""
    for part in PARTS:
        again = replace(part, parts=WHOLE.parts, shard=2, key="k")
        found = whole_of(again)
        assert found == WHOLE
        assert (found.shard, found.key, found.parts) == (2, "k", WHOLE.parts)
        assert part_like(replace(found, repeated=True), again) == part
        assert part_like(replace(found, repeated=True), again).repeated
    assert whole_of(WHOLE) == WHOLE
    plain = replace(WHOLE, parts="")
    assert whole_of(plain) is plain
    assert part_like(plain, plain) is plain


def test_an_acknowledged_part_is_never_written_again() -> None:
    """It may have been merged and forgotten; its item may not even be known."""
    with pytest.raises(InvalidEntry, match=rf"{ID}\.001 was acknowledged, .* never written again"):
        whole_of(PARTS[1])


@pytest.mark.parametrize(
    "wrong",
    [
        replace(PARTS[1], parts="5 -2 8"),
        replace(PARTS[1], parts="5"),
        replace(PARTS[1], parts="5 -1.0 8"),
        replace(PARTS[1], parts="5 -1 eight"),
        replace(PARTS[1], parts=WHOLE.parts, count=3),
        replace(PARTS[1], parts=WHOLE.parts, note="n"),
        replace(PARTS[1], parts=WHOLE.parts, effective=date(2026, 11, 1)),
        replace(PARTS[1], parts=WHOLE.parts, reverses=ID),
        replace(PARTS[1], parts=WHOLE.parts, spending=Spending(("g",))),
        replace(WHOLE, change=Decimal(13)),
        replace(WHOLE, count=2),
        replace(WHOLE, parts="5 -1 eight"),
        replace(WHOLE, note=""),
    ],
)
def test_what_an_item_does_not_have_is_not_written(wrong: Entry) -> None:
    """Neither a change that is not at its place nor a sum of others, nor more than amounts."""
    what = "the sum" if wrong.id == ID else "change 1"
    with pytest.raises(InvalidEntry, match=f"must be {what} of its parts, and say nothing else"):
        whole_of(wrong)


def test_a_change_is_named_by_its_place() -> None:
    """A place beyond the last names none, nor does any of an entry that keeps no changes."""
    assert [part_named(WHOLE, part.id) for part in PARTS] == PARTS
    assert part_named(WHOLE, f"{ID}.003") is None
    plain = replace(WHOLE, parts="")
    assert part_named(plain, ID) is plain
    assert part_named(plain, f"{ID}.000") is None


def test_the_id_of_an_item_names_no_change() -> None:
    """The error says which ids do."""
    with pytest.raises(InvalidEntry) as refused:
        part_named(WHOLE, ID)
    said = f"entry {ID} of 'stock' has 3 changes: name one, {ID}.000 to {ID}.002"
    assert str(refused.value) == said


@pytest.mark.parametrize("counter", ["c", "größe-日本-🙂", "c" * 800])
def test_an_item_with_room_for_its_text_takes_a_write_unit(counter: str) -> None:
    """With the longest of everything else: shard, sum, count and region."""
    text = "9" * text_room(counter)
    longest = Entry(
        counter,
        ID,
        Decimal("-" + "9" * 37 + "." + "9"),
        LONGEST_REGION,
        count=999,
        shard=999,
        parts=text,
    )
    assert len(LONGEST_REGION) == 29
    assert WRITE_UNIT_BYTES - 1 <= item_size(entry_item(longest)) <= WRITE_UNIT_BYTES


def test_a_counter_whose_id_fills_the_item_has_no_room() -> None:
    """Not even for one digit."""
    assert text_room("c" * 895) == 1
    assert text_room("c" * 896) == text_room("c" * 1024) == 0


@pytest.mark.parametrize("parts", ["1E+125 -1E+125", "100000000000000000000000000000000000000 1"])
def test_amounts_that_no_call_adds_are_not_written_again(parts: str) -> None:
    """One of them, reversed, would leave its counter without a total."""
    first, second = (Decimal(text) for text in parts.split(" "))
    made = whole(first, second)
    assert made.parts == parts
    for entry in (made, part_of(made, 1, second, parts=parts)):
        with pytest.raises(InvalidEntry):
            whole_of(entry)
