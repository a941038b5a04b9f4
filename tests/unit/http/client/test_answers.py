"""What the client makes of answers that are not the service's own."""

from datetime import UTC, datetime

import pytest

from ledger.http.client.answers import Unanswered, judged
from ledger.http.client.requests import Request
from ledger.http.wire.schemas import TopModel

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.mark.parametrize("asked", ["20", "Sat, 21 Nov 2026 12:00:20 GMT"])
@pytest.mark.parametrize("status", [429, 503])
def test_the_wait_that_a_load_balancer_asks_for_is_kept(asked: str, status: int) -> None:
    """In seconds or as a date, also where nothing is known of the request."""
    found = judged(
        Request("GET", "/v1/top", TopModel), status, {"retry-after": asked}, b"busy", now=NOON
    )
    assert isinstance(found, Unanswered)
    assert found.retry_after_seconds == 20.0
