"""Keys that carry their time: which do, and which time."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core.ids import EPOCH
from ledger.core.tokens import no_hyphens, one_spelling, time_of_key

RFC_9562 = datetime(2022, 2, 22, 19, 22, 22, tzinfo=UTC)
"""The time in the example of RFC 9562, appendix A.6."""
ULID_SPEC = datetime(2016, 7, 30, 23, 54, 10, 259000, tzinfo=UTC)
"""The time in the example of the ULID specification."""


@pytest.mark.parametrize(
    ("key", "at"),
    [
        ("017F22E2-79B0-7CC3-98C4-DC0C0C07398F", RFC_9562),
        ("017f22e2-79b0-7cc3-98c4-dc0c0c07398f", RFC_9562),
        ("01ARZ3NDEKTSV4RRFFQ69G5FAV", ULID_SPEC),
        ("01arz3ndektsv4rrffq69g5fav", ULID_SPEC),
        ("2026-11-21T06:50:00.000001Z#00000000000000ff", datetime(2026, 11, 21, 6, 50, 0, 1, UTC)),
    ],
)
def test_a_key_with_a_time_says_it(key: str, at: datetime) -> None:
    """A UUIDv7, a ULID and an id of the ledger's say when they were made, in either case."""
    assert time_of_key(key) == at


@pytest.mark.parametrize(
    ("key", "spelling"),
    [
        ("017F22E2-79b0-7CC3-98C4-DC0C0C07398F", "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"),
        ("01arz3ndektsv4rrffq69g5fav", "01ARZ3NDEKTSV4RRFFQ69G5FAV"),
        ("Order-17", "Order-17"),
        ("F81D4FAE-7DEC-41D0-A765-00A0C91E6BF6", "F81D4FAE-7DEC-41D0-A765-00A0C91E6BF6"),
    ],
)
def test_a_key_with_a_time_has_one_spelling(key: str, spelling: str) -> None:
    """Other software may change the case of a UUIDv7 or a ULID; any other key is as it is."""
    assert one_spelling(key) == spelling


@pytest.mark.parametrize(
    "key",
    [
        "order-17",
        "",
        "f81d4fae-7dec-41d0-a765-00a0c91e6bf6",  # version 4
        "017f22e2-79b0-7cc3-18c4-dc0c0c07398f",  # another variant
        "017f22e279b07cc398c4dc0c0c07398f",  # as good a digest
        " 017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
        "ffffffff-ffff-7cc3-98c4-dc0c0c07398f",  # after the year 9999
        "81ARZ3NDEKTSV4RRFFQ69G5FAV",  # more than 48 bits of time
        "01ARZ3NDEKTSV4RRFFQ69G5FAU",  # U is no digit of a ULID
        "01ARZ3NDEKTSV4RRFFQ69G5FA",
        "7ZZZZZZZZZ0000000000000000",  # after the year 9999
    ],
)
def test_any_other_key_says_none(key: str) -> None:
    """What is in none of the forms carries no time."""
    assert time_of_key(key) is None


@given(
    milliseconds=st.integers(0, 253_402_300_799_999),
    low=st.integers(0, 2**12 - 1),
    rest=st.integers(0, 2**62 - 1),
)
def test_every_uuid7_says_its_time(milliseconds: int, low: int, rest: int) -> None:
    """Whatever its random bits, of any time that an entry can have."""
    number = milliseconds << 80 | 7 << 76 | low << 64 | 2 << 62 | rest
    assert time_of_key(str(UUID(int=number))) == EPOCH + timedelta(milliseconds=milliseconds)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (
            "017F22E279B07cc398c4dc0c0c07398f",
            " (a UUIDv7 has hyphens: 017F22E2-79B0-7cc3-98c4-dc0c0c07398f)",
        ),
        ("017f22e2-79b0-7cc3-98c4-dc0c0c07398f", ""),
        ("f81d4fae7dec41d0a76500a0c91e6bf6", ""),  # version 4
        ("order-17", ""),
    ],
)
def test_a_uuid7_without_hyphens_is_told(key: str, said: str) -> None:
    """In messages alone: as a key it is any text."""
    assert no_hyphens(key) == said
