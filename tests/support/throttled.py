"""A table that throttles: a transport that counts requests and answers some operations with 400."""

from collections import Counter

from botocore.exceptions import ClientError
from support.ledgers import HOME, seeded
from support.scripted import true_answer

from ledger.store.dynamodb.client import TableClient
from ledger.store.dynamodb.clock_watch import ClockWatch
from ledger.store.dynamodb.requests import Request
from ledger.store.dynamodb.store import DynamoStore
from ledger.store.dynamodb.transport import Response
from ledger.store.retrier import Retrier
from ledger.store.retry import RetryBudget
from ledger.store.transports.lean import OPERATIONS
from ledger.testing.clock import ManualClock

READS = frozenset({"get_item", "query", "scan"})
WRITES = frozenset(
    {"put_item", "update_item", "delete_item", "batch_write_item", "transact_write_items"}
)


class ThrottlingTransport:
    """A `Transport` to an empty table that throttles these operations, and carries out others."""

    def __init__(self, throttled: frozenset[str] = READS | WRITES) -> None:
        self.throttled = throttled
        self.retry_after: str | None = None
        self.sent: Counter[str] = Counter()

    async def send(self, operation: str, request: Request) -> Response:
        """Answer one request."""
        self.sent[operation] += 1
        if operation in self.throttled:
            raise self._throttled(operation)
        return true_answer(OPERATIONS[operation], request)

    async def close(self) -> None:
        """Nothing is open."""

    def _throttled(self, operation: str) -> ClientError:
        headers = {} if self.retry_after is None else {"x-amz-retry-after": self.retry_after}
        error = {"Code": "ThrottlingException", "Message": "slow down"}
        answer = {"Error": error, "ResponseMetadata": {"HTTPHeaders": headers}}
        return ClientError(answer, operation)  # type: ignore[arg-type]


def store_over(transport: ThrottlingTransport, clock: ManualClock) -> DynamoStore:
    """Return the store as entry points make it, over this transport."""
    retrier = Retrier(clock=clock, randomness=seeded(), budget=RetryBudget())
    client = TableClient(
        transport=transport,
        region=HOME,
        table="ledger",
        retrier=retrier,
        watch=ClockWatch(clock),
    )
    return DynamoStore(client)
