"""What a request asks for: each value and rule that is refused is named."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from pydantic import TypeAdapter

from ledger.core.errors import (
    InvalidAmount,
    InvalidCounter,
    InvalidEntry,
    InvalidInput,
    UntimedKey,
)
from ledger.core.tokens import time_of_key
from ledger.http.service.json_bodies import read_body
from ledger.http.service.request_models import (
    EntriesBody,
    EntryBody,
    RetryBody,
    bound,
    counter_in,
    edge,
    entry_in,
    key_of,
    wait_of,
)

ENTRY = TypeAdapter(EntryBody)
UUID7 = "019ab2c8-4f00-7abc-8def-0123456789ab"


@pytest.mark.parametrize(
    ("segment", "counter"),
    [("stock", "stock"), ("shop%2Fa", "shop/a"), ("caf%C3%A9", "café"), ("100%25", "100%")],
)
def test_a_segment_of_a_path_names_a_counter(segment: str, counter: str) -> None:
    """Percent-encoded characters, slashes among them, are those of the id."""
    assert counter_in(segment) == counter


@pytest.mark.parametrize("segment", ["%FF", "%zz", "a%", "a%2", "%%41", "caf\xc3\xa9"])
def test_a_segment_that_is_not_utf8_is_refused(segment: str) -> None:
    """The error shows it as it came; a percent sign stands for nothing but two digits."""
    with pytest.raises(InvalidCounter, match=f"{segment!r} is not percent-encoded UTF-8"):
        counter_in(segment)
    with pytest.raises(InvalidEntry, match=f"entry {segment!r} is not percent-encoded UTF-8"):
        entry_in(segment)


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_time_that_utc_has_no_year_for_is_refused(text: str) -> None:
    """Nothing can be compared with it."""
    with pytest.raises(InvalidInput, match=r"until must be a time .* years 1971 to 9899, got '"):
        bound("until", text)


def test_a_key_that_carries_its_time_needs_no_other() -> None:
    """As a UUIDv7, bare or in quotes as the header's draft has it."""
    assert key_of(UUID7, None) == (UUID7, None)
    assert key_of(f'"{UUID7}"', None) == (UUID7, None)
    assert key_of(None, None) == (None, None)


def test_a_time_beside_a_key_that_carries_one_is_the_same() -> None:
    """Another one would make another entry of the key, and count a second time."""
    carried = time_of_key(UUID7)
    assert carried is not None
    assert key_of(UUID7, carried.isoformat()) == (UUID7, carried)
    with pytest.raises(InvalidInput, match="is not the time that the Idempotency-Key carries"):
        key_of(UUID7, "2025-11-25T06:50:00Z")


def test_another_key_comes_with_its_time() -> None:
    """The time is that of the header, with its zone."""
    moment = datetime(2026, 11, 21, 6, 50, tzinfo=UTC)
    assert key_of("order-17", "2026-11-21T06:50:00Z") == ("order-17", moment)


@pytest.mark.parametrize(
    ("key", "time", "kind", "message"),
    [
        (None, "2026-11-21T06:50:00Z", InvalidInput, "belongs to an Idempotency-Key"),
        ("order-17", "2026-11-21T06:50:00", InvalidInput, "must be a time with a zone"),
        ("order-17", "yesterday", InvalidInput, "got 'yesterday'"),
        ("", None, InvalidEntry, "must be a non-empty string"),
        ("x" * 1_025, "2026-11-21T06:50:00Z", InvalidEntry, "is over 1024 bytes"),
        ("caf\xc3\xa9", "2026-11-21T06:50:00Z", InvalidInput, "must be ASCII, got .*/v1/entries"),
        ("order-17", None, UntimedKey, "carries no time: send Idempotency-Time"),
        (UUID7.replace("-", ""), None, UntimedKey, f"a UUIDv7 has hyphens: {UUID7}"),
    ],
)
def test_a_key_that_names_no_change_is_refused(
    key: str | None, time: str | None, kind: type[InvalidInput], message: str
) -> None:
    """The message says what to send."""
    with pytest.raises(kind, match=message):
        key_of(key, time)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ([], None),
        (["wait=5"], 5.0),
        (["wait=60"], 60.0),
        (['wait="7"'], 7.0),
        (["respond-async, wait=10"], 10.0),
        (['x="a, wait=3, b"; wait=4', 'y="\\", wait=5"', "wait=6"], 6.0),
        (["Wait = 3; x=1"], 3.0),
        (["x; wait=3"], None),
        (["await=3"], None),
        (["respond-async"], None),
    ],
)
def test_a_preference_says_how_long_to_wait(headers: list[str], seconds: float | None) -> None:
    """Among other preferences and parameters, which are left alone, whatever is in their quotes."""
    assert wait_of(headers) == seconds


@pytest.mark.parametrize(
    "value",
    [
        "=0",
        "=61",
        "=9999",
        "=0.001",
        "=-1",
        "=5.0",
        "=+5",
        "=",
        "",
        "=1 2",
        "=\u0661",
        '="5',
        '=5"',
    ],
)
def test_a_wait_that_is_no_number_of_seconds_is_refused(value: str) -> None:
    """A whole number of them, between one and a minute."""
    with pytest.raises(InvalidInput, match="whole number of seconds from 1 to 60, got"):
        wait_of([f"x, wait{value}"])


@pytest.mark.parametrize("headers", [["wait=5", "wait=5"], ["wait=5, respond-async, Wait=9"]])
def test_a_wait_that_is_there_twice_is_refused(headers: list[str]) -> None:
    """In one header or in two; whoever takes the other one waits for another time."""
    with pytest.raises(InvalidInput, match="Prefer: wait must be there once, got 2 of them"):
        wait_of(headers)


def test_bounds_are_dates_times_or_ids() -> None:
    """A history's edge may be an id of another tool, too."""
    moment = datetime(2026, 11, 21, 6, 50, tzinfo=UTC)
    assert bound("since", "2026-11-21") == date(2026, 11, 21)
    assert bound("since", "2026-11-21T06:50:00Z") == moment
    assert edge("after", "2026-11-21T06:50:00+00:00") == moment
    assert edge("after", "imported-7") == "imported-7"
    assert bound("since", None) is None
    assert edge("after", None) is None
    with pytest.raises(InvalidInput, match="since must be a time with a zone"):
        bound("since", "soon")


def test_a_body_is_read_exactly() -> None:
    """Amounts keep every digit."""
    body = read_body(ENTRY, b'{"change": "1234567890123456789012345678901234567.8", "note": "n"}')
    assert body.change == Decimal("1234567890123456789012345678901234567.8")
    assert (body.note, body.effective) == ("n", None)
    assert read_body(ENTRY, b'{"change":"1","effective":"2026-11-21"}').effective == date(
        2026, 11, 21
    )


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        (b"", InvalidInput, "body: invalid JSON"),
        (b"[1]", InvalidInput, "should be an object"),
        (b"{}", InvalidInput, "body: change: field required"),
        (b'{"change": 1.5}', InvalidAmount, "must be a string"),
        (b'{"change": 1}', InvalidAmount, "must be a string"),
        (b'{"change": true}', InvalidAmount, "must be a string"),
        (b'{"change": "NaN"}', InvalidAmount, "got NaN|finite|decimal number"),
        (b'{"change": "ten"}', InvalidAmount, "got 'ten'"),
        (b'{"change": " 3"}', InvalidAmount, "without spaces, .* got ' 3'"),
        (b'{"change": "3\\n"}', InvalidAmount, "without spaces"),
        (b'{"change": "+3"}', InvalidAmount, "got '\\+3'"),
        (b'{"change": null}', InvalidAmount, "got null$"),
        (b'{"change": "1", "effective": null, "x": null}', InvalidInput, "x: .*got null$"),
        (b'{"change": "1e500"}', InvalidAmount, "within 1E-130"),
        (b'{"change": "1", "chnage": "2"}', InvalidInput, "body: chnage: extra"),
        (b'{"change": "1", "change": "1"}', InvalidInput, "body: 'change' stands twice"),
        (b'{"change": "1", "ch\\u0061nge": "2"}', InvalidInput, "body: 'change' stands twice"),
        (b'{"change": "1E38"}', InvalidAmount, "at most 38 digits before the point"),
        (b'{"change": "1", "note": 7}', InvalidInput, "body: note: .*got 7"),
        (b'{"change": "1", "effective": "soon"}', InvalidInput, "body: effective"),
    ],
)
def test_a_body_that_breaks_a_rule_is_refused(
    body: bytes, kind: type[InvalidInput], message: str
) -> None:
    """The message names the member and the rule."""
    with pytest.raises(kind, match=message):
        read_body(ENTRY, body)


def test_an_amount_may_have_an_exponent() -> None:
    """As the document of the interface says."""
    assert read_body(ENTRY, b'{"change": "-1.5e3"}').change == Decimal(-1500)


@pytest.mark.parametrize(
    ("member", "kind", "message"),
    [
        ('"change": "1,5"', InvalidAmount, "body: entries.1.change: an amount must .*got '1,5'"),
        ('"change": "1", "at": "soon"', InvalidInput, "body: entries.1.at: at must be a time"),
        ('"change": "1", "effective": 7', InvalidInput, "entries.1.effective: .*string, got 7"),
        ('"change": "1", "note": false', InvalidInput, "entries.1.note: .*got false"),
    ],
)
def test_of_many_entries_the_one_that_is_refused_is_named(
    member: str, kind: type[InvalidInput], message: str
) -> None:
    """By its place, from 0 on."""
    first = '{"counter": "a", "change": "1"}'
    body = f'{{"entries": [{first}, {{"counter": "b", {member}}}]}}'
    with pytest.raises(InvalidInput, match=message) as caught:
        read_body(TypeAdapter(EntriesBody), body.encode())
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('{"entries": [%s]}', "entries: list should have at most 1000 items .*, not 1001$"),
        ('{"entries": [{"a": {"b": 1, "b": 2}}], "x": [%s]}', "'b' stands twice"),
    ],
)
def test_what_is_too_long_is_not_echoed(body: str, message: str) -> None:
    """Its number is said."""
    entry = '{"counter": "secret", "change": "1"}'
    with pytest.raises(InvalidInput, match=message) as caught:
        read_body(TypeAdapter(EntriesBody), (body % ",".join([entry] * 1_001)).encode())
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("member", "message"),
    [
        ('"reverses": "2026-11-21T06:50:01.123456Z#4f1d2c3b5a697887"', "reverses"),
        ('"count": 1000001', "count: .*less than or equal to 1000000"),
        ('"count": 0', "count: .*greater than or equal to 1"),
        ('"spending": {}', "spending"),
    ],
)
def test_an_entry_to_be_repeated_is_one_that_a_writer_makes(member: str, message: str) -> None:
    """No reversal, and not of more changes than are combined; of any amount."""
    id_ = "2026-11-21T06:50:01.123456Z#4f1d2c3b5a697887"
    entry = f'{{"entries": [{{"counter": "a", "id": "{id_}", "key": "k", "change": "1E37"%s}}]}}'
    (read,) = read_body(TypeAdapter(RetryBody), (entry % "").encode()).entries
    assert (read.change, read.count, read.reverses) == (Decimal("1E37"), 1, None)
    with pytest.raises(InvalidInput, match=message):
        read_body(TypeAdapter(RetryBody), (entry % f", {member}").encode())
