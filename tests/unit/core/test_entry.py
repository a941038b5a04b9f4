"""Entries and net changes as items: the documented form, and every kind of damage."""

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from ledger.core import ids
from ledger.core.entry import (
    ITEM_BYTES_MAX,
    AttributeValue,
    checked_size,
    entry_item,
    entry_of,
    net_item,
    net_of,
)
from ledger.core.errors import DamagedItem, InvalidEntry
from ledger.core.values import Entry, NetChange

KEY = "2026-11-21T06:50:01.123456Z#4f1d2c3b5a697887"
ID = ids.parse(KEY)
assert ID is not None
ENTRY = Entry("customer1", KEY, Decimal("2.50"), "eu-west-1", "refund", date(2026, 11, 20))
NET = NetChange(Decimal(-3), 2, (ID,), "v1", KEY, "eu-west-1", generation=2)


def test_an_entry_is_the_documented_item() -> None:
    """An entry has the keys and attributes that the table's design names."""
    assert entry_item(ENTRY) == {
        "pk": {"S": "customer1"},
        "sk": {"S": KEY},
        "change": {"N": "2.5"},
        "region": {"S": "eu-west-1"},
        "note": {"S": "refund"},
        "effective": {"S": "2026-11-20"},
    }


def test_what_an_entry_does_not_have_is_not_written() -> None:
    """An entry without region, note and date takes only its keys and its change."""
    assert entry_item(Entry("a", KEY, Decimal(1))) == {
        "pk": {"S": "a"},
        "sk": {"S": KEY},
        "change": {"N": "1"},
    }


def test_an_entry_of_a_shard_tells_its_counter() -> None:
    """An entry in a shard lies under the shard's key and is read as its counter's."""
    item = entry_item(replace(ENTRY, shard=3))
    assert item["pk"] == {"S": "~3~customer1"}
    assert entry_of(item) == ENTRY


def test_an_entry_tells_when_it_was_made() -> None:
    """The time is in the id; an entry of another tool has none."""
    assert ENTRY.at == datetime(2026, 11, 21, 6, 50, 1, 123456, tzinfo=UTC)
    assert Entry("a", "a458fc3d", Decimal(1)).at is None


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("change", None, "change must be a number"),
        ("change", {"S": "1"}, "change must be a number"),
        ("change", {"N": 1}, "change must be a number"),
        ("change", {"N": "one"}, "must be a decimal number"),
        ("change", {"N": "1" * 39}, "39 digits"),
        ("change", {"N": "NaN"}, "finite"),
        ("region", {"N": "1"}, "region must be a string"),
        ("note", {"B": b"x"}, "note must be a string"),
        ("effective", {"S": "yesterday"}, "yesterday"),
        ("effective", {"NULL": True}, "effective must be a string"),
    ],
)
def test_a_damaged_entry_is_named(name: str, value: AttributeValue | None, reason: str) -> None:
    """An entry that cannot be read raises an error naming counter, item and reason."""
    item = entry_item(ENTRY)
    if value is None:
        del item[name]
    else:
        item[name] = value
    with pytest.raises(DamagedItem, match=reason) as raised:
        entry_of(item)
    assert "'customer1'" in str(raised.value)
    assert KEY in str(raised.value)


def test_a_net_change_is_the_documented_item() -> None:
    """A net change has the keys and attributes that the table's design names."""
    assert ID is not None
    assert net_item(NET, "~3~customer1") == {
        "pk": {"S": "~3~customer1"},
        "sk": {"S": "~net#0002"},
        "change": {"N": "-3"},
        "count": {"N": "2"},
        "merged": {"B": ID.pack()},
        "version": {"S": "v1"},
        "until": {"S": KEY},
        "home": {"S": "eu-west-1"},
        "digest": {"B": bytes.fromhex("e7e5443329fff713")},
    }


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("change", None, "change"),
        ("change", {"S": "1"}, "change"),
        ("count", None, "count"),
        ("count", {"N": "1.5"}, "count must be a whole number of at least 1 .*, got 1.5"),
        ("count", {"N": "0"}, "count must be a whole number of at least 1 .*, got 0"),
        ("count", {"N": "-1"}, "count must be .*, got -1"),
        ("merged", None, "merged"),
        ("merged", {"S": "x"}, "merged"),
        ("merged", {"B": b"x"}, "merged: length must be a multiple of 16 bytes, got 1"),
        ("merged", {"B": b"\0" * 32}, "merged: ids must be in strictly ascending order"),
        ("merged", {"B": b"\xff" * 16}, "merged: ids must not be later than"),
        ("version", None, "version"),
        ("version", {"N": "1"}, "version"),
        ("until", None, "until"),
        ("home", None, "home"),
        ("digest", None, "a net change must have digest"),
        ("digest", {"B": b"\0" * 8}, "digest does not match"),
        ("digest", {"S": "x"}, "digest does not match"),
        ("change", {"N": "-2"}, "digest does not match"),
        ("merged", {"B": b""}, "digest does not match"),
        ("sk", {"S": "~net#0001"}, "digest does not match"),
        ("sk", {"S": "~net#1"}, "sk"),
        ("sk", {"S": "~net#00001"}, "sk"),
    ],
)
def test_a_damaged_net_change_is_named(
    name: str, value: AttributeValue | None, reason: str
) -> None:
    """A net change that cannot be read whole raises an error naming counter and item."""
    item = net_item(NET, "customer1")
    if value is None:
        del item[name]
    else:
        item[name] = value
    with pytest.raises(DamagedItem, match=reason) as raised:
        net_of(item)
    assert "'customer1'" in str(raised.value)
    assert "~net#" in str(raised.value)


def test_a_net_change_of_another_collection_is_damaged() -> None:
    """A net change that was copied into another collection does not pass for that one's."""
    with pytest.raises(DamagedItem, match=r"'customer2'.*digest does not match"):
        net_of({**net_item(NET, "customer1"), "pk": {"S": "customer2"}})


def test_numbers_of_a_net_change_may_be_written_otherwise() -> None:
    """DynamoDB may write a number its own way: the digest is of the number, not of its text."""
    assert net_of({**net_item(NET, "a"), "change": {"N": "-3.0"}}) == NET


def test_an_entry_over_the_item_limit_is_refused() -> None:
    """400 KB are allowed, a byte more is not."""
    checked_size(ENTRY, ITEM_BYTES_MAX)
    with pytest.raises(InvalidEntry, match="got 409,601 bytes"):
        checked_size(ENTRY, ITEM_BYTES_MAX + 1)
