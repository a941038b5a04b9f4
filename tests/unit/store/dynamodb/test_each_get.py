"""Several reads in one request: what is left unprocessed, and answers that are none."""

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from ledger.core.errors import Throttled
from ledger.store.dynamodb.client import TableClient
from ledger.store.dynamodb.clock_watch import ClockWatch
from ledger.store.dynamodb.store import DynamoStore
from ledger.store.reads import Get
from ledger.store.retrier import Retrier
from ledger.store.retry import Backoff, RetryBudget
from ledger.testing.clock import ManualClock

GETS = [Get(("c", name)) for name in "abc"]


def item(name: str) -> dict[str, Any]:
    """Return the item of a name."""
    return {"pk": {"S": "c"}, "sk": {"S": name}}


class Table:
    """A transport to a table with items a and c, which processes `at_once` reads a request."""

    def __init__(self, at_once: int) -> None:
        self.asked: list[list[str]] = []
        self._at_once = at_once

    async def send(self, _operation: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Answer some of the reads, the last ones first."""
        wanted = request["RequestItems"]["t"]
        assert wanted["ConsistentRead"] is True
        names = [key["sk"]["S"] for key in wanted["Keys"]]
        self.asked.append(names)
        left = names[: max(0, len(names) - self._at_once)]
        done = names[len(left) :]
        return {
            "Responses": {"t": [item(name) for name in reversed(done) if name in "ac"]},
            "UnprocessedKeys": {"t": {**wanted, "Keys": list(map(item, left))}} if left else {},
            "ConsumedCapacity": [{"TableName": "t", "CapacityUnits": float(len(done))}],
        }

    async def close(self) -> None:
        """Close nothing."""


def store_over(transport: Any) -> DynamoStore:
    """Return a store whose requests the transport answers."""
    clock = ManualClock(instant=True)
    retrier = Retrier(clock=clock, randomness=Random(1), budget=RetryBudget())  # noqa: S311 (waits)
    watch = ClockWatch(clock)
    return DynamoStore(
        TableClient(
            transport=transport, region="eu-west-1", table="t", retrier=retrier, watch=watch
        )
    )


@pytest.mark.parametrize("at_once", [3, 2, 1])
async def test_what_is_left_unprocessed_is_asked_for_again(at_once: int) -> None:
    """Only what is left is asked for again; items keep the order of the reads, units add up."""
    table = Table(at_once)
    found = await store_over(table).get_each(GETS)
    assert found.items == [item("a"), None, item("c")]
    assert found.read_units == 3
    assert table.asked == [
        ["a", "b", "c"][: 3 - at_once * turn] for turn in range(-(-3 // at_once))
    ]


async def test_reads_that_stay_unprocessed_are_throttled() -> None:
    """After as many requests as a throttled call may take, none of the reads has an answer."""
    table = Table(0)
    with pytest.raises(Throttled) as raised:
        await store_over(table).get_each(GETS)
    assert len(table.asked) == raised.value.requests == Backoff().throttled_tries_max
