"""Where things lie in the table: counters, shards, reserved keys."""

import pytest

from ledger.core import keys
from ledger.core.errors import InvalidCounter, InvalidEntry, InvalidInput


@pytest.mark.parametrize(
    "counter",
    [
        "a",
        "customer1-balance",
        "with space/and#signs~inside",
        "é" * 512,
        "x" * 1024,
        "数え",
        "\u2028",
        "\U0001f600",
    ],
    ids=ascii,
)
def test_a_counter_id_is_any_printable_text(counter: str) -> None:
    """1 to 1,024 bytes of UTF-8 without control characters are a counter id."""
    assert keys.checked_counter(counter) == counter


@pytest.mark.parametrize(
    ("counter", "rule"),
    [
        ("", "got ''"),
        ("~", "reserved"),
        ("~lease", "reserved"),
        ("~1~a", "reserved"),
        ("x" * 1025, "1,025 bytes"),
        ("é" * 513, "1,026 bytes"),
        ("a\0b", "control"),
        ("a\nb", "control"),
        ("a\x7f", "control"),
        ("a\x85", "control"),
        ("\ud800", "UTF-8"),
        (None, "NoneType"),
        (7, "int"),
        (b"a", "bytes"),
    ],
    ids=lambda value: ascii(value)[:20],
)
def test_what_is_no_counter_id_is_refused_by_its_rule(counter: object, rule: str) -> None:
    """Empty, reserved, too long, unprintable or no text: refused with the rule it breaks."""
    with pytest.raises(InvalidCounter, match=rule) as raised:
        keys.checked_counter(counter)
    assert len(str(raised.value)) < 200


@pytest.mark.parametrize("entry", ["", "x" * 1025, "é" * 513, "\ud800", None, b"a", 7])
def test_what_no_entry_can_have_as_its_id_is_refused(entry: object) -> None:
    """DynamoDB refuses it as a key; one of another tool may have any other form."""
    with pytest.raises(InvalidEntry, match=r"bound must be an id of 1 to 1,024 bytes") as raised:
        keys.checked_id(entry, "bound")
    assert len(str(raised.value)) < 200
    assert keys.checked_id("é" * 512) == "é" * 512


UNSEEN = "\u3164\u2800\ufe0f\ufe00\u034f\u115f\u1160\uffa0\u17b4\u180b\u2060\ufffc"


@pytest.mark.parametrize(
    ("counter", "rule"),
    [
        ("cafe\u0301", r"normal form C \(NFC\).*got 'cafe\\u0301'"),
        ("a\u200bb", r"invisible characters, such as '\\u200b', got 'a\\u200bb'"),
        ("a\u202eb", "invisible"),
        ("a\u2028b", "invisible"),
        *[(f"a{sign}b", rf"invisible characters, such as '\\u{ord(sign):04x}'") for sign in UNSEEN],
        ("a\u00a0b", "invisible"),
        ("\U0001d159", "invisible"),
        ("a\U000e0041", "invisible"),
        ("e\u0301" * 300, "normal form"),
    ],
    ids=lambda value: ascii(value)[:20],
)
def test_a_new_counter_is_told_apart_by_what_is_seen(counter: str, rule: str) -> None:
    """One spelling of a text, and nothing invisible in it; such ids are still read."""
    with pytest.raises(InvalidCounter, match=rule) as raised:
        keys.checked_new_counter(counter)
    assert len(str(raised.value)) < 400
    assert keys.checked_counter(counter) == counter
    for fine in ("café", "shop/1", "金額"):
        assert keys.checked_new_counter(fine) == fine
    with pytest.raises(InvalidCounter, match="reserved"):
        keys.checked_new_counter("~a")


@pytest.mark.parametrize(
    ("partition", "place"),
    [
        ("a", ("a", 0)),
        ("~1~a", ("a", 1)),
        ("~9999~a~b", ("a~b", 9999)),
        ("~1~a\u2028b", ("a\u2028b", 1)),
        ("~lease", None),
        ("~import", None),
        ("~scan", None),
        ("~0~a", None),
        ("~01~a", None),
        ("~10000~a", None),
        ("~1~", None),
        ("~~a", None),
        ("~\uff11~a", None),
    ],
)
def test_a_partition_key_tells_counter_and_shard(
    partition: str, place: tuple[str, int] | None
) -> None:
    """Shards are told from the ledger's own partitions, and only in their one form."""
    assert keys.counter_of(partition) == place


@pytest.mark.parametrize("shard", [0, 1, 9, 10, 9999])
def test_a_shard_finds_its_way_back(shard: int) -> None:
    """The partition key of a shard tells the same counter and shard."""
    assert keys.counter_of(keys.partition_key("a", shard)) == ("a", shard)


@pytest.mark.parametrize(
    ("sort_key", "generation"),
    [
        ("~net#0001", 1),
        ("~net#9999", 9999),
        ("~net#1", None),
        ("~net#00001", None),
        ("~net#0001 ", None),
        ("~net", None),
        ("~net#\uff10\uff10\uff10\uff11", None),
        ("2026-11-21T06:50:01.123456Z#4f1d2c3b5a697887", None),
    ],
)
def test_a_net_change_is_known_by_its_sort_key(sort_key: str, generation: int | None) -> None:
    """The generation is read from exactly four digits."""
    assert keys.generation_of(sort_key) == generation


@pytest.mark.parametrize("generation", [-1, 0, 10_000])
def test_a_generation_has_four_digits(generation: int) -> None:
    """One that does not sort among the others is refused."""
    with pytest.raises(InvalidInput, match=f"1 to 9,999, got {generation}"):
        keys.net_sort_key(generation)


def test_net_changes_sort_after_every_entry_and_by_generation() -> None:
    """In order of bytes, entries come first, then net changes from generation 1 up."""
    order = [
        "1970-01-01T00:00:00.000000Z#0000000000000000",
        "9999-12-31T23:59:59.999999Z#ffffffffffffffff",
        *(keys.net_sort_key(generation) for generation in (1, 2, 10, 9999)),
    ]
    assert sorted(order, key=str.encode) == order
