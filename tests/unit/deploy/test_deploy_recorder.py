"""What the tests of policies take a call of the port for is what it sends."""

from collections.abc import Callable
from typing import Any

import pytest
from support.permissions import HOME
from support.scripted import true_answer

from ledger.core.entry import Item
from ledger.runtime.clock import SystemClock, system_random
from ledger.store.conditions import Absent
from ledger.store.dynamodb.client import TableClient
from ledger.store.dynamodb.clock_watch import ClockWatch
from ledger.store.dynamodb.store import DynamoStore
from ledger.store.reads import Get, Query, Scan
from ledger.store.retrier import Retrier
from ledger.store.retry import Backoff, RetryBudget
from ledger.store.transports.sdk import SdkTransport
from ledger.store.writes import (
    Check,
    Delete,
    Put,
    Update,
)


@pytest.mark.parametrize(
    ("use", "operation"),
    [
        (lambda store: store.write(Put(item())), "put_item"),
        (lambda store: store.write(Delete(("a", "b"))), "delete_item"),
        (lambda store: store.write(Update(("a", "b"), set={"c": {"S": "d"}})), "update_item"),
        (lambda store: store.write_batch([Put(item())]), "batch_write_item"),
        (lambda store: store.transact([Check(("a", "b"), Absent())]), "transact_write_items"),
        (lambda store: store.get(Get(("a", "b"))), "get_item"),
        (lambda store: store.query(Query("a")), "query"),
        (lambda store: store.scan(Scan()), "scan"),
        (lambda store: store.replicas(), "describe_table"),
    ],
)
async def test_the_port_calls_what_the_recorder_notes(
    use: Callable[[DynamoStore], Any], operation: str
) -> None:
    """The DynamoDB store sends the one request that the recorder takes it for."""
    client = Client()
    store = DynamoStore(
        TableClient(
            transport=SdkTransport(client),
            region=HOME,
            table="money",
            retrier=Retrier(
                clock=SystemClock(),
                randomness=system_random(),
                budget=RetryBudget(),
                backoff=Backoff(),
            ),
            watch=ClockWatch(SystemClock()),
        )
    )
    await use(store)
    assert client.called == [operation]


class Client:
    """A client that answers every operation with nothing found, and notes its name."""

    def __init__(self) -> None:
        self.called: list[str] = []

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        async def call(**request: object) -> dict[str, Any]:
            self.called.append(operation)
            return true_answer(operation.title().replace("_", ""), request)

        return call


def item() -> Item:
    """Give the smallest item."""
    return {"pk": {"S": "a"}, "sk": {"S": "b"}}
