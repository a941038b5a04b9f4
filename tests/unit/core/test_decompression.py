"""Compressed bytes are unpacked up to a bound."""

import zlib

import pytest

from ledger.core.decompression import inflated


@pytest.mark.parametrize("size", [0, 1, 999, 1_000])
def test_what_fits_is_unpacked_whole(size: int) -> None:
    """Up to the bound itself; what follows the stream is told apart."""
    packed = zlib.compress(b"x" * size) + b"tail"
    assert inflated(packed, bytes_max=1_000) == (b"x" * size, b"tail")


@pytest.mark.parametrize(
    ("packed", "rule"),
    [
        (zlib.compress(b"x" * 1_001), "unpacks to over 1,000 bytes"),
        (zlib.compress(b"x" * 10_000_000), "unpacks to over 1,000 bytes"),
        (zlib.compress(b"x" * 100)[:-1], "truncated"),
        (b"", "truncated"),
        (b"not compressed", "incorrect header"),
    ],
)
def test_what_does_not_fit_or_is_damaged_is_refused(packed: bytes, rule: str) -> None:
    """Never returned in part."""
    with pytest.raises(ValueError, match=rule):
        inflated(packed, bytes_max=1_000)
