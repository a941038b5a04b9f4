"""Several reads of one item each, in one request; unprocessed reads are sent again."""

from collections.abc import Sequence

from ledger.core.entry import Item, Key, key_of
from ledger.core.errors import Throttled
from ledger.store.dynamodb.client import TableClient
from ledger.store.dynamodb.requests import (
    Request,
    each_gets_request,
    gets_request,
    written_units,
)
from ledger.store.dynamodb.transport import Response
from ledger.store.reads import Found, Get

_OPERATION = "batch_get_item"


class EachGet:
    """One call of `get_each`: the items found so far, by table and key, and their units."""

    def __init__(self, client: TableClient, gets: Sequence[Get]) -> None:
        self._client = client
        self._gets = gets
        self._found: dict[tuple[str, Key], Item] = {}
        self._units: float | None = 0.0

    async def done(self) -> Found:
        """Read the items.

        Raises:
            StoreError: some could not be read.
        """
        table = self._client.table
        left = gets_request(self._gets, table)
        tries = self._client.retrier.begin(_OPERATION)
        while left:
            answer = await self._client.read_part(_OPERATION, each_gets_request(left), tries)
            left = self._taken(answer)
            if left and not await tries.again("unprocessed", throttled=True):
                late = Throttled(
                    f"{self._client.region}, table {table}: reads still throttled after every try"
                )
                late.requests = tries.requests
                raise late
        tries.succeeded()
        places = [(get.table or table, get.key) for get in self._gets]
        return Found([self._found.get(place) for place in places], self._units)

    def _taken(self, answer: Response) -> Request:
        """Record an answer; returns the unprocessed reads."""
        for table, items in answer["Responses"].items():
            for item in items:
                self._found[table, key_of(item)] = item
        left: Request = answer["UnprocessedKeys"]
        units = written_units(answer)
        self._units = None if units is None or self._units is None else self._units + units
        return left
