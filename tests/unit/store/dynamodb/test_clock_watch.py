from datetime import timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError
from support.ledgers import seeded

from ledger.core.clock_offset import ClockOffset
from ledger.store.dynamodb.client import TableClient
from ledger.store.dynamodb.clock_watch import ClockWatch
from ledger.store.dynamodb.requests import Request
from ledger.store.dynamodb.store import DynamoStore
from ledger.store.dynamodb.transport import Response
from ledger.store.reads import Get
from ledger.store.retrier import Retrier
from ledger.store.retry import RetryBudget
from ledger.testing.clock import ManualClock

GET = Get(("a", "b"))


class DatedTransport:
    """Answers each request with a `Date` that is so far behind the clock of the asker."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.behind_seconds = 0.0
        self.is_refusing = False
        self.headers: dict[str, str] | None = None

    async def send(self, operation: str, request: Request) -> Response:
        """Answer, or refuse with a dated error."""
        del request
        right = self.clock.now() - timedelta(seconds=self.behind_seconds)
        headers = self.headers
        if headers is None:
            headers = {"date": format_datetime(right.replace(microsecond=0), usegmt=True)}
        answer: dict[str, Any] = {"ResponseMetadata": {"HTTPHeaders": headers}}
        if self.is_refusing:
            answer["Error"] = {"Code": "ValidationException", "Message": "no"}
            raise ClientError(answer, operation)  # type: ignore[arg-type]
        return answer

    async def close(self) -> None:
        """Do nothing."""


class Watched:
    """A store over such a transport, and what was told of each change."""

    def __init__(self) -> None:
        self.clock = ManualClock(instant=True)
        self.transport = DatedTransport(self.clock)
        self.told: list[ClockOffset] = []
        self.store = DynamoStore(
            TableClient(
                transport=self.transport,
                region="us-east-1",
                table="ledger",
                retrier=Retrier(clock=self.clock, randomness=seeded(), budget=RetryBudget()),
                watch=ClockWatch(self.clock, on_change=self.told.append),
            )
        )


async def test_an_answer_tells_the_offset() -> None:
    """Before the first answer nothing is known, then the bounds; each change is reported once."""
    watched = Watched()
    before = watched.store.clock_offset
    assert before is None
    watched.transport.behind_seconds = 700
    await watched.store.get(GET)
    offset = watched.store.clock_offset
    assert offset is not None
    assert 699 <= offset.least <= 700 <= offset.most <= 701
    assert watched.told == [offset]
    await watched.store.get(GET)
    assert watched.told == [offset]


async def test_an_error_tells_the_offset_too() -> None:
    """A clock so far off that each request is refused is measured on the refusals."""
    watched = Watched()
    watched.transport.behind_seconds, watched.transport.is_refusing = -3000, True
    with pytest.raises(Exception, match="no"):
        await watched.store.get(GET)
    assert watched.store.clock_offset is not None
    assert watched.store.clock_offset.is_beyond(2990)


@pytest.mark.parametrize("headers", [{}, {"date": "yesterday"}])
async def test_an_answer_without_a_date_tells_nothing(headers: dict[str, str]) -> None:
    """Engines that send none are left alone."""
    watched = Watched()
    watched.transport.headers = headers
    await watched.store.get(GET)
    assert watched.store.clock_offset is None
    assert watched.told == []
