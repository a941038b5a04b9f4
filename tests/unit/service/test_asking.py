"""What a request asks for: each value and rule that is refused is named."""

from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from ledger.core.errors import InvalidAmount, InvalidCounter, InvalidEntry, InvalidInput
from ledger.service.asking import (
    EntriesBody,
    EntryBody,
    RetryBody,
    bound,
    counter_in,
    edge,
    key_of,
    read_body,
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


def test_a_segment_that_is_not_utf8_is_refused() -> None:
    """The error shows it as it came."""
    with pytest.raises(InvalidCounter, match="'%FF' is not percent-encoded UTF-8"):
        counter_in("%FF")


def test_a_key_that_carries_its_time_needs_no_other() -> None:
    """As a UUIDv7, bare or in quotes as the header's draft has it."""
    assert key_of(UUID7, None) == (UUID7, None)
    assert key_of(f'"{UUID7}"', None) == (UUID7, None)


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
    ],
)
def test_a_key_that_names_no_change_is_refused(
    key: str | None, time: str | None, kind: type[InvalidInput], message: str
) -> None:
    """The message says what to send."""
    with pytest.raises(kind, match=message):
        key_of(key, time)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("wait=5", 5.0),
        ("respond-async, wait=10", 10.0),
        ("Wait = 3; x=1", 3.0),
        ("await=3", None),
        ("respond-async", None),
    ],
)
def test_a_preference_says_how_long_to_wait(header: str | None, seconds: float | None) -> None:
    """Among other preferences, which are left alone."""
    assert wait_of(header) == seconds


@pytest.mark.parametrize("header", ["wait=0", "wait=61", "wait=9999"])
def test_a_wait_that_is_none_or_too_long_is_refused(header: str) -> None:
    """Between one second and a minute."""
    with pytest.raises(InvalidInput, match="1 to 60 s"):
        wait_of(header)


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
        (b"", InvalidInput, "body: invalid json"),
        (b"[1]", InvalidInput, "should be an object"),
        (b"{}", InvalidInput, "body: change: field required"),
        (b'{"change": 1.5}', InvalidAmount, "must be a string"),
        (b'{"change": 1}', InvalidAmount, "must be a string"),
        (b'{"change": true}', InvalidAmount, "must be a string"),
        (b'{"change": "NaN"}', InvalidAmount, "got NaN|finite|decimal number"),
        (b'{"change": "ten"}', InvalidAmount, "got 'ten'"),
        (b'{"change": "1e500"}', InvalidAmount, "within 1E-130"),
        (b'{"change": "1", "chnage": "2"}', InvalidInput, "body: chnage: extra"),
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


@given(st.binary(max_size=200))
def test_no_bytes_end_in_another_error(body: bytes) -> None:
    """Whatever comes is read or refused."""
    kinds: tuple[TypeAdapter[Any], ...] = (ENTRY, TypeAdapter(EntriesBody), TypeAdapter(RetryBody))
    for kind in kinds:
        with suppress(InvalidInput):
            read_body(kind, body)
