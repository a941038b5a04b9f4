"""Times as text, however they are written."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from ledger.commands.options import iso_bound, iso_time
from ledger.core.times import is_time, time_of
from ledger.http.service.request_models import bound, edge, moment
from ledger.pipeline.core.record_times import time_of as record_time

MOMENT = datetime(2026, 11, 21, 6, 50, tzinfo=UTC)
TEXTS = [
    f"2026-11-21{between}06:50:00{zone}"
    for between in "Tt "
    for zone in ("Z", "z", ".000z", "+00:00")
]


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


@pytest.mark.parametrize("text", ["z", "", "soon", "2026-11-21T06:50:00y"])
def test_what_is_no_time_is_none(text: str) -> None:
    """Whatever it ends with."""
    assert not is_time(text)
