"""The store over DynamoDB: operations of the port as requests, answers as outcomes and pages.

How a request is carried is a `Transport`'s business, how often it is tried that of `Attempts`.
"""

from collections.abc import Sequence

from ledger.core.entry import Item
from ledger.core.errors import StoreError, Unreachable
from ledger.store.dynamodb import requests
from ledger.store.dynamodb.attempts import Attempts
from ledger.store.dynamodb.transport import Response
from ledger.store.reads import Get, Page, Query, Scan
from ledger.store.writes import (
    BATCH_WRITES_MAX,
    TRANSACTION_ACTIONS_MAX,
    Action,
    Applied,
    BatchOutcome,
    BatchWrite,
    Outcome,
    Unknown,
    Write,
    checked_actions,
    signed_by,
)


class DynamoStore:
    """One region's table; see `ledger.store.port.Store`."""

    def __init__(self, attempts: Attempts) -> None:
        self.region = attempts.region
        self._table = attempts.table
        self._attempts = attempts

    async def write(self, write: Write) -> Outcome:
        """Do one conditional write."""
        operation, request = requests.write_request(write, self._table)
        answer = await self._attempts.write(operation, request, signed_by([write]))
        return answer if isinstance(answer, Outcome) else Applied(answer.get("Attributes") or None)

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Do up to 100 actions, all or none."""
        checked_actions(actions, TRANSACTION_ACTIONS_MAX)
        request = requests.transaction_request(actions, self._table, token)
        answer = await self._attempts.write("transact_write_items", request, signed_by(actions))
        return answer if isinstance(answer, Outcome) else Applied()

    async def write_batch(self, writes: Sequence[BatchWrite]) -> BatchOutcome:
        """Do up to 25 unconditional writes; what DynamoDB leaves unprocessed is sent again."""
        checked_actions(writes, BATCH_WRITES_MAX)
        left, latest = dict(enumerate(writes)), signed_by(writes)
        units: float | None = 0.0
        for tries in range(1, self._attempts.backoff.tries_max + 1):
            request = requests.batch_request(list(left.values()), self._table)
            try:
                answer = await self._attempts.write("batch_write_item", request, latest)
            except StoreError as error:
                if len(left) == len(writes):
                    raise
                return BatchOutcome(unprocessed=tuple(left), cause=str(error), write_units=units)
            if isinstance(answer, Unknown):
                return BatchOutcome(unknown=tuple(left), cause=answer.cause, write_units=units)
            if isinstance(answer, Outcome):
                raise TypeError("a batch has no conditions to fail")
            units = _plus(units, requests.written_units(answer))
            keys = requests.unprocessed_keys(answer, self._table)
            left = {place: write for place, write in left.items() if keys and write.key in keys}
            if not left:
                return BatchOutcome(write_units=units)
            await self._attempts.wait("batch_write_item", "unprocessed", tries)
        cause = f"still throttled in {self.region}"
        return BatchOutcome(unprocessed=tuple(left), cause=cause, write_units=units)

    async def get(self, get: Get) -> Item | None:
        """Read one item."""
        request = requests.get_request(get, self._table)
        found: Item | None = (await self._attempts.read("get_item", request)).get("Item")
        return found

    async def query(self, query: Query) -> Page:
        """Read one page of a partition."""
        request = requests.query_request(query, self._table)
        return _page(await self._attempts.read("query", request), self.region)

    async def scan(self, scan: Scan) -> Page:
        """Read one page of one segment."""
        request = requests.scan_request(scan, self._table)
        return _page(await self._attempts.read("scan", request), self.region)

    async def close(self) -> None:
        """Close the connections."""
        await self._attempts.transport.close()


def _plus(units: float | None, more: float | None) -> float | None:
    return None if units is None or more is None else units + more


def _page(response: Response, region: str) -> Page:
    """Read a page; JSON that is none comes from whatever else listens at a wrong endpoint."""
    last = response.get("LastEvaluatedKey")
    capacity = response.get("ConsumedCapacity")
    try:
        return Page(
            items=[*response["Items"]],
            after=(last["pk"]["S"], last["sk"]["S"]) if last else None,
            read_units=float(capacity["CapacityUnits"]) if capacity else None,
        )
    except (KeyError, TypeError, ValueError):
        raise Unreachable(f"{region}: the answer is no page of items: check the endpoint") from None
