"""Times as text, however they are written."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from ledger.commands.options import iso_bound, iso_time
from ledger.core.errors import InvalidInput
from ledger.core.times import is_time, time_of
from ledger.http.service.body_values import moment
from ledger.http.service.request_models import bound, edge
from ledger.pipeline.core.record_times import time_of as record_time

MOMENT = datetime(2026, 11, 21, 6, 50, tzinfo=UTC)
ZONES = ("Z", "z", ".000z", "+00:00")
TEXTS = [f"2026-11-21{between}06:50:00{zone}" for between in "Tt" for zone in ZONES]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize(
    "read",
    [
        time_of,
        record_time,
        lambda text: iso_time("--at", text),
        lambda text: iso_bound("--at", text),
        lambda text: moment("Idempotency-Time", text),
        lambda text: bound("since", text),
        lambda text: edge("after", text),
    ],
)
def test_t_and_z_are_of_either_case(read: Callable[[str], object], text: str) -> None:
    """Wherever a time is taken: RFC 3339 allows both."""
    assert read(text) == MOMENT


@pytest.mark.parametrize("zone", ZONES)
def test_files_and_commands_take_a_blank_for_the_t(zone: str) -> None:
    """RFC 3339 allows it where people read it; the service takes the form of its document alone."""
    text = f"2026-11-21 06:50:00{zone}"
    taken = [time_of(text), record_time(text), iso_time("--at", text), iso_bound("--at", text)]
    assert taken == [MOMENT] * len(taken)
    for read in (moment, bound, edge):
        with pytest.raises(InvalidInput, match="at"):
            read("at", text)


@pytest.mark.parametrize("text", ["z", "", "soon", "2026-11-21T06:50:00y"])
def test_what_is_no_time_is_none(text: str) -> None:
    """Whatever it ends with."""
    assert not is_time(text)
