"""The form of sequences in the table."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core import keys
from ledger.core.errors import DamagedItem, InvalidCounter, InvalidInput
from ledger.primitives.sequences import NUMBER_MAX, number_of_key, sort_key_of
from ledger.primitives.sequences.numbers import (
    content_of,
    fate_of,
    last_of,
    numbered_item,
    partition_of,
)

NUMBERS = st.integers(0, NUMBER_MAX) | st.integers(0, 1000)


@given(NUMBERS, NUMBERS)
def test_sort_keys_are_ordered_as_their_numbers(one: int, other: int) -> None:
    """The bytes of two sort keys compare as their numbers do, and give the numbers back."""
    keys_of = [sort_key_of(number) for number in (one, other)]
    assert (keys_of[0].encode() < keys_of[1].encode()) == (one < other)
    assert [number_of_key(("p", key)) for key in keys_of] == [one, other]


@pytest.mark.parametrize("number", [-1, NUMBER_MAX + 1, 1.0, "1", True, None])
def test_what_is_no_number_has_no_sort_key(number: object) -> None:
    """Numbers outside 0 to 10^38 - 1, and what is no int, are refused."""
    with pytest.raises(InvalidInput, match="must be an int from 0"):
        sort_key_of(number)  # type: ignore[arg-type]


@pytest.mark.parametrize("key", ["7", "0" * 37, "0" * 39, "0" * 37 + "x", "\u0660" * 38, "counter"])
def test_other_sort_keys_are_damage(key: str) -> None:
    """A sort key of another width, or with other signs, is no number."""
    with pytest.raises(DamagedItem, match="38 digits"):
        number_of_key(("~sequence~p", key))


def test_a_sequence_is_no_counter_to_the_ledger() -> None:
    """Readers, finder and history take the partition for the ledger's own, never for a counter."""
    assert partition_of("orders") == "~sequence~orders"
    assert keys.counter_of(partition_of("orders")) is None


@pytest.mark.parametrize("name", ["", "~orders", "a\n", "x" * 1025, 7])
def test_names_follow_the_rules_of_counter_ids(name: str) -> None:
    """What is no counter id is no name of a sequence."""
    with pytest.raises(InvalidCounter):
        partition_of(name)


def test_an_item_gives_its_content_back() -> None:
    """What a caller stores comes back without what the sequence added."""
    content = {"title": {"S": "first"}, "size": {"N": "3"}}
    item = numbered_item("p", 3, content, token="t")
    assert item["sk"]["S"] == "0" * 37 + "3"
    assert content_of(item) == content
    assert [fate_of(one, "t") for one in (None, item, {**item, "~token": {"S": "u"}})] == [
        "open",
        "ours",
        "taken",
    ]


@pytest.mark.parametrize("number", [{"S": "7"}, {"N": "7.5"}, {"N": "-1"}])
def test_a_counter_item_without_a_whole_number_is_damage(number: dict[str, str]) -> None:
    """A counter that holds anything but a whole number from 0 is never read as one."""
    with pytest.raises(DamagedItem):
        last_of({"pk": {"S": "p"}, "sk": {"S": "counter"}, "number": number})
