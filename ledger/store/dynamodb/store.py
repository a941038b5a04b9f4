"""The store over DynamoDB: operations of the port as requests, answers as outcomes and pages.

How a request is carried is up to the `Transport`, how often it is sent to `TableClient`.
"""

from collections.abc import Mapping, Sequence

from ledger.core.clock_offset import ClockOffset
from ledger.core.entry import Item, key_of
from ledger.core.errors import StoreError
from ledger.store.dynamodb import requests, statements
from ledger.store.dynamodb.client import TableClient
from ledger.store.dynamodb.each import EachGet, EachWrite
from ledger.store.dynamodb.transport import Response
from ledger.store.reads import FoundItems, Get, Page, Query, Scan, checked_gets
from ledger.store.writes import (
    BATCH_WRITES_MAX,
    EACH_WRITES_MAX,
    TRANSACTION_ACTIONS_MAX,
    Action,
    Applied,
    BatchOutcome,
    BatchWrite,
    EachOutcome,
    Outcome,
    Rejected,
    Unknown,
    Write,
    checked_actions,
    checked_statements,
    is_statement,
    signed_by,
)

_BATCH = "batch_write_item"


class DynamoStore:
    """One region's table; see `ledger.store.port.Store`."""

    def __init__(self, client: TableClient) -> None:
        self.region = client.region
        self.retry_budget = client.retrier.budget
        self._table = client.table
        self._client = client

    @property
    def clock_offset(self) -> ClockOffset | None:
        """The measurement of this machine's clock by the answers so far."""
        return self._client.watch.offset

    async def write(self, write: Write) -> Outcome:
        """Do one conditional write."""
        if is_statement(write):
            return await self._insert(write)
        operation, request = requests.write_request(write, self._table)
        answer = await self._client.write(operation, request, signed_by([write]))
        return answer if isinstance(answer, Outcome) else Applied(answer.get("Attributes") or None)

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Do up to 100 actions, all or none."""
        checked_actions(actions, TRANSACTION_ACTIONS_MAX)
        checked_statements(actions)
        if is_statement(actions[0]):
            operation = "execute_transaction"
            request = statements.transaction_request(actions, self._table, token)
        else:
            operation = "transact_write_items"
            request = requests.transaction_request(actions, self._table, token)
        answer = await self._client.write(operation, request, signed_by(actions))
        return answer if isinstance(answer, Outcome) else Applied()

    async def _insert(self, write: Write) -> Outcome:
        """Put an item by a statement, which does not return an existing item."""
        checked_statements([write])
        [outcome] = (await EachWrite(self._client, [write]).done()).outcomes
        if isinstance(outcome, StoreError):
            raise outcome
        return Rejected(found={0: None}) if isinstance(outcome, Rejected) else outcome

    async def write_batch(self, writes: Sequence[BatchWrite]) -> BatchOutcome:
        """Do up to 25 unconditional writes; those left unprocessed are sent again."""
        checked_actions(writes, BATCH_WRITES_MAX)
        latest, left = signed_by(writes), writes
        places: Sequence[int] = range(len(writes))
        units: float | None = 0.0
        tries = self._client.retrier.begin(_BATCH)
        while True:
            request = requests.batch_request(left, self._table)
            try:
                answer = await self._client.write_part(_BATCH, request, latest, tries)
            except StoreError as error:
                if len(left) == len(writes):
                    raise
                return BatchOutcome(tuple(places), (), str(error), units, error.requests)
            if isinstance(answer, Unknown):
                return BatchOutcome((), tuple(places), answer.cause, units, answer.requests)
            if isinstance(answer, Outcome):
                raise TypeError("a batch has no conditions to fail")
            units = _plus(units, requests.written_units(answer))
            keys = requests.unprocessed_keys(answer, self._table)
            places = [place for place in places if writes[place].key in keys] if keys else ()
            if not places:
                tries.succeeded()
                return BatchOutcome(write_units=units)
            left = [writes[place] for place in places]
            if not await tries.again("throttled", throttled=True):
                cause = f"still throttled in {self.region}"
                return BatchOutcome(tuple(places), (), cause, units, tries.requests)

    async def write_each(self, writes: Sequence[Write]) -> EachOutcome:
        """Do up to 25 conditional writes, in one request where statements can express them."""
        checked_actions(writes, EACH_WRITES_MAX)
        return await EachWrite(self._client, writes).done()

    async def get(self, get: Get) -> Item | None:
        """Read one item."""
        request = requests.get_request(get, self._table)
        found: Item | None = (await self._client.read("get_item", request)).get("Item")
        return found

    async def get_each(self, gets: Sequence[Get]) -> FoundItems:
        """Read up to 100 items; those left unprocessed are read again."""
        checked_gets(gets)
        return await EachGet(self._client, gets).done()

    async def query(self, query: Query) -> Page:
        """Read one page of a partition."""
        request = requests.query_request(query, self._table)
        return _page(await self._client.read("query", request))

    async def scan(self, scan: Scan) -> Page:
        """Read one page of one segment."""
        request = requests.scan_request(scan, self._table)
        return _page(await self._client.read("scan", request))

    async def replicas(self) -> Mapping[str, str]:
        """Describe the table's replicas in other regions, by DescribeTable."""
        answer = await self._client.read("describe_table", {"TableName": self._table})
        return {
            str(replica["RegionName"]): str(replica.get("ReplicaStatus", "of unknown state"))
            for replica in answer["Table"].get("Replicas") or ()
            if replica["RegionName"] != self.region
        }

    async def close(self) -> None:
        """Close the connections."""
        await self._client.transport.close()


def _plus(units: float | None, more: float | None) -> float | None:
    return None if units is None or more is None else units + more


def _page(response: Response) -> Page:
    last = response.get("LastEvaluatedKey")
    return Page(
        items=[*response["Items"]],
        after=key_of(last) if last else None,
        read_units=float(response["ConsumedCapacity"]["CapacityUnits"]),
    )
