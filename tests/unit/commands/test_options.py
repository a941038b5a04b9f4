"""Times of the command line, the ends of the calendar among them."""

from datetime import UTC, datetime

import pytest

from ledger.commands.history import _first
from ledger.commands.options import iso_time
from ledger.core.errors import InvalidEntry


def test_a_time_is_told_in_utc() -> None:
    """Whatever its zone."""
    assert iso_time("--at", "2026-11-21T07:50+01:00") == datetime(2026, 11, 21, 6, 50, tzinfo=UTC)


@pytest.mark.parametrize("text", ["0001-01-01T00:00+01:00", "9999-12-31T23:59-00:01"])
def test_a_time_that_utc_has_no_year_for_is_refused(text: str) -> None:
    """Python would end in an OverflowError wherever it is first compared or printed."""
    with pytest.raises(InvalidEntry, match=r"--since is out of the calendar in UTC, got"):
        iso_time("--since", text)


def test_since_the_first_moment_is_no_bound() -> None:
    """There is none before it that could be left out."""
    assert _first("0001-01-01T00:00Z", None) is None
