"""Entry ids: form, order, packing, and what is refused."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import entry_ids

from ledger.core import ids
from ledger.core.entry import entry_id
from ledger.core.errors import InvalidEntry
from ledger.core.ids import EntryId

AT = datetime(2026, 11, 21, 6, 50, 1, 123456, tzinfo=UTC)
KEY = "2026-11-21T06:50:01.123456Z#4f1d2c3b5a697887"


def test_an_id_reads_as_documented() -> None:
    """The sort key of an id is UTC to the microsecond, `#`, and 16 hex digits."""
    entry = entry_id(AT, 0x4F1D2C3B5A697887)
    assert str(entry) == KEY
    assert ids.parse(KEY) == entry
    assert entry.at == AT


def test_whole_seconds_and_small_suffixes_keep_their_width() -> None:
    """Zeros are written out, so that sort keys stay in order."""
    assert str(entry_id(AT.replace(microsecond=0), 1)) == (
        "2026-11-21T06:50:01.000000Z#0000000000000001"
    )


def test_times_of_other_zones_are_turned_into_utc() -> None:
    """The same moment gives the same id in whatever zone it is told."""
    zone = timezone(timedelta(hours=5, minutes=45))
    assert entry_id(AT.astimezone(zone), 1) == entry_id(AT, 1)


@pytest.mark.parametrize(
    "at",
    [
        datetime(2026, 11, 21),  # noqa: DTZ001 (what is tested)
        datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))),
        datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-12))),
    ],
)
def test_times_that_no_id_can_hold_are_refused(at: datetime) -> None:
    """A time without a zone, or outside the years 1970 to 9999 in UTC, is refused."""
    with pytest.raises(InvalidEntry, match=r"zone|1970 to 9999"):
        entry_id(at, 0)


def test_the_first_and_last_moments_are_legal() -> None:
    """1970 began, and 9999 ends, with a legal id."""
    first = entry_id(datetime(1970, 1, 1, tzinfo=UTC), 0)
    last = entry_id(datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), 2**64 - 1)
    for entry in (first, last):
        assert ids.parse(str(entry)) == entry
        assert ids.unpack_all(entry.pack()) == (entry,)
    assert str(first) < str(last)


@pytest.mark.parametrize(
    "key",
    [
        "",
        "a458fc3d",
        "~net#0001",
        KEY.upper(),
        KEY[:-1],
        KEY + "0",
        KEY + "\n",
        KEY.replace("Z", "+00:00"),
        KEY.replace("T", " "),
        KEY.replace("#", "-"),
        KEY.replace("2026", "\uff12\uff10\uff12\uff16"),
        KEY.replace("-11-", "-13-"),
        KEY.replace("-21T", "-31T"),
        KEY.replace("T06", "T24"),
        KEY.replace("T06:50:01.123456", "T24:00:00.000000"),
        KEY.replace(":01.", ":60."),
        KEY.replace("2026", "1969"),
        KEY.replace("2026", "0000"),
        KEY[:19] + KEY[26:],
    ],
)
def test_other_sort_keys_are_foreign(key: str) -> None:
    """A sort key that is not exactly in our form is no id of ours."""
    assert ids.parse(key) is None


def test_a_derived_suffix_is_the_documented_one() -> None:
    """A key of the caller gives the first 16 hex digits of SHA-256 over counter, NUL and key."""
    # printf 'customer1-balance\0order-17' | sha256sum
    assert ids.suffix_of("customer1-balance", "order-17") == 0x48C4950E51420B9C


def test_derived_suffixes_tell_counter_and_key_apart() -> None:
    """Moving a letter from the counter to the key gives another suffix."""
    pairs = [("a", "bc"), ("ab", "c"), ("abc", ""), ("a", "b"), ("b", "a"), ("a", "b\0"), ("é", "")]
    assert len({ids.suffix_of(*pair) for pair in pairs}) == len(pairs)


ONE, TWO = EntryId(1, 1), EntryId(1, 2)


@pytest.mark.parametrize(
    ("packed", "rule"),
    [
        pytest.param((ONE.pack() + TWO.pack())[:-1], "multiple of 16 bytes", id="cut"),
        pytest.param(b"\0", "multiple of 16 bytes", id="one byte"),
        pytest.param(ONE.pack() + ONE.pack(), "ascending order", id="doubled"),
        pytest.param(TWO.pack() + ONE.pack(), "ascending order", id="unsorted"),
        pytest.param(EntryId(253_402_300_800_000_000, 0).pack(), "year 9999", id="too late"),
        pytest.param(b"\xff" * 16, "year 9999", id="all ones"),
    ],
)
def test_damaged_packed_ids_are_refused(packed: bytes, rule: str) -> None:
    """Packed ids that were cut, doubled, put out of order or overwritten are refused."""
    with pytest.raises(ValueError, match=rule):
        ids.unpack_all(packed)


def test_packing_takes_16_bytes_an_id_each_once_in_order() -> None:
    """Packing sorts the ids and drops doubles; no ids take no bytes."""
    assert ids.pack_all([TWO, ONE, TWO]) == ONE.pack() + TWO.pack()
    assert len(ONE.pack()) == 16
    assert ids.pack_all([]) == b""
    assert ids.unpack_all(b"") == ()


def test_sort_keys_made_together_rise_and_differ() -> None:
    """Ids of one time keep the order of their changes, and each has its own 64 bits."""
    at, bits = datetime(2026, 11, 21, 6, 50, 1, 123456, tzinfo=UTC), (5 << 64) | (7 << 128) | 9
    keys = ids.sort_keys(at, bits, 3)
    assert keys == [ids.sort_key(at, suffix) for suffix in (5, 7, 9)]
    assert [ids.suffix_in(key) for key in keys] == [5, 7, 9]
    assert ids.sort_keys(at, 0, 0) == []


def test_the_ids_of_changes_that_share_an_item_sort_between_its_own_and_the_next() -> None:
    """As text and as UTF-8, which is DynamoDB's order, in the order of their places."""
    following = ids.sort_key(AT, ids.suffix_in(KEY) + 1)
    parts = [ids.part_id(KEY, place) for place in (0, 1, 2, 10, 99, 100, 999)]
    inorder = [KEY, *parts, following]
    assert parts[:2] == [f"{KEY}.000", f"{KEY}.001"]
    assert sorted({*inorder}) == inorder
    assert sorted({*inorder}, key=str.encode) == inorder


@pytest.mark.parametrize(
    "text",
    [
        KEY,
        "",
        "a458fc3d",
        "a458fc3d.007",
        "~net#0001",
        f"{KEY}.",
        f"{KEY}.7",
        f"{KEY}.07",
        f"{KEY}.1000",
        f"{KEY}.-07",
        f"{KEY}.007\n",
        f"{KEY} .007",
        f"{KEY}#007",
        f"{KEY}.007.007",
        f"{KEY}.\u0660\u0660\u0667",
        f"{KEY[:-1]}.007",
        f"{KEY.upper()}.007",
        f"{KEY.replace('-11-', '-13-')}.007",
    ],
)
def test_other_texts_name_no_place(text: str) -> None:
    """An id of its own, or of another writer, stays as it is."""
    assert ids.split(text) == (text, None)
    assert ids.parse_named(text) == ids.parse(text)


@given(item=entry_ids(), place=st.integers(0, 999))
def test_property_an_item_and_a_place_are_what_a_part_names(item: EntryId, place: int) -> None:
    """And the id of the part is no sort key of ours, so it is taken for no item."""
    part = ids.part_id(str(item), place)
    assert ids.split(part) == (str(item), place)
    assert ids.parse_named(part) == item
    assert ids.parse(part) is None
