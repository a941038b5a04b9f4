"""Several independent writes, or reads, of one item each, in one request.

Conditional writes share a request where statements can express them. A statement that was
throttled, or in conflict, is sent again, without those whose outcome is known, within the bounds
and the budget of the `Retrier`. Statements that a policy denies are sent as item operations, which
it may allow: PartiQL has separate permissions. So are those of a request refused as a whole,
because a single write in it may be the cause. A put `as_statement` is never sent in another way.
Unprocessed reads are sent again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from ledger.core.entry import Item, Key, key_of
from ledger.core.errors import AccessDenied, RequestRefused, StoreError, Throttled
from ledger.runtime.tasks import run_all
from ledger.store.dynamodb import statements, throttling
from ledger.store.dynamodb.client import TableClient
from ledger.store.dynamodb.requests import (
    Request,
    each_gets_request,
    gets_request,
    write_request,
    written_units,
)
from ledger.store.dynamodb.transport import Response
from ledger.store.reads import FoundItems, Get
from ledger.store.writes import (
    Applied,
    EachOutcome,
    Outcome,
    Unknown,
    Write,
    is_statement,
    signed_by,
)

_OPERATION = "batch_execute_statement"
_APPLIED = Applied()
_ALONE_AT_ONCE = 8


class EachWrite:
    """One call of `write_each`: its results so far, by position, and their units."""

    def __init__(self, client: TableClient, writes: Sequence[Write]) -> None:
        self._client = client
        self._writes = writes
        self._results: dict[int, Outcome | StoreError] = {}
        self._units: float | None = 0.0
        self._refused: Sequence[int] = ()

    async def done(self) -> EachOutcome:
        """Do the writes."""
        said = [statements.statement(write, self._client.table) for write in self._writes]
        batch = {place: text for place, text in enumerate(said) if text is not None}
        if len(batch) == 1 and not any(self._is_statement(place) for place in batch):
            batch = {}  # a separate request returns the existing item
        jobs: list[Callable[[], Any]] = [
            partial(self._alone, place) for place in range(len(said)) if place not in batch
        ]
        if batch:
            jobs.append(partial(self._together, batch))
        await run_all(jobs, at_once=len(jobs))
        await self._without_statements(
            [
                place
                for place in batch
                if isinstance(self._results[place], AccessDenied) and not self._is_statement(place)
            ]
        )
        await self._each_alone(self._refused)
        return EachOutcome(tuple(self._results[place] for place in range(len(said))), self._units)

    async def _alone(self, place: int) -> None:
        write = self._writes[place]
        if self._is_statement(place):
            try:
                said = statements.insert(write, self._client.table)
            except RequestRefused as error:
                self._results[place] = error
            else:
                await self._together({place: said})
            return
        self._units = None
        operation, request = write_request(write, self._client.table)
        try:
            answer = await self._client.write(operation, request, signed_by([write]))
        except StoreError as error:
            self._results[place] = error
        else:
            self._results[place] = answer if isinstance(answer, Outcome) else Applied()

    async def _without_statements(self, denied: Sequence[int]) -> None:
        """Send denied statements as item operations; if the first is denied too, stop."""
        if not denied:
            return
        self._client.retrier.on_retry(_OPERATION, "accessdenied")
        first, *rest = denied
        await self._alone(first)
        result = self._results[first]
        if isinstance(result, AccessDenied):
            self._settle(denied, result)
        else:
            await self._each_alone(rest)

    async def _each_alone(self, places: Sequence[int]) -> None:
        if jobs := [partial(self._alone, place) for place in places]:
            await run_all(jobs, at_once=_ALONE_AT_ONCE)

    async def _together(self, left: Mapping[int, Request]) -> None:
        tries = self._client.retrier.begin(_OPERATION)
        latest = signed_by([self._writes[place] for place in left])
        while True:
            request = statements.each_request([*left.values()])
            try:
                answer = await self._client.write_part(_OPERATION, request, latest, tries)
            except StoreError as error:
                self._settle(left, error)
                if isinstance(error, RequestRefused):
                    self._refused = [*left]
                return
            again = self._taken(left, answer)
            if not again:
                tries.succeeded()
                return
            left = {place: left[place] for place in again}
            if not await tries.again(
                throttling.cause_of(again.values()),
                throttled=any(error["Code"] in statements.THROTTLED for error in again.values()),
            ):
                for place, failed in again.items():
                    late = throttling.of_statement(failed, left[place], self._where)
                    late.requests = tries.requests
                    self._results[place] = late
                return

    def _taken(self, sent: Mapping[int, Request], answer: Any) -> dict[int, Mapping[str, Any]]:
        """Record an answer; returns the writes that may be sent again, with their errors."""
        if isinstance(answer, Unknown):
            self._settle(sent, answer)
            return {}
        errors = statements.errors_of(answer)
        units = written_units(answer)
        self._units = None if units is None or self._units is None else self._units + units
        again: dict[int, Mapping[str, Any]] = {}
        for place, error in zip(sent, errors, strict=True):
            if not error:
                self._results[place] = _APPLIED
            elif error.get("Code") in statements.PASSING:
                again[place] = error
            else:
                self._results[place] = statements.outcome_of(error, self._where)
        return again

    def _is_statement(self, place: int) -> bool:
        return is_statement(self._writes[place])

    def _settle(self, places: Iterable[int], result: Outcome | StoreError) -> None:
        self._results.update(dict.fromkeys(places, result))

    @property
    def _where(self) -> str:
        return f"{self._client.region}, table {self._client.table}"


_GET_OPERATION = "batch_get_item"


class EachGet:
    """One call of `get_each`: the items found so far, by table and key, and their units."""

    def __init__(self, client: TableClient, gets: Sequence[Get]) -> None:
        self._client = client
        self._gets = gets
        self._found: dict[tuple[str, Key], Item] = {}
        self._units: float | None = 0.0

    async def done(self) -> FoundItems:
        """Read the items.

        Raises:
            StoreError: some could not be read.
        """
        table = self._client.table
        left = gets_request(self._gets, table)
        tries = self._client.retrier.begin(_GET_OPERATION)
        while left:
            answer = await self._client.read_part(_GET_OPERATION, each_gets_request(left), tries)
            left = self._taken(answer)
            if left and not await tries.again("unprocessed", throttled=True):
                late = Throttled(
                    f"{self._client.region}, table {table}: reads still throttled after every try"
                )
                late.requests = tries.requests
                raise late
        tries.succeeded()
        places = [(get.table or table, get.key) for get in self._gets]
        return FoundItems([self._found.get(place) for place in places], self._units)

    def _taken(self, answer: Response) -> Request:
        """Record an answer; returns the unprocessed reads."""
        for table, items in answer["Responses"].items():
            for item in items:
                self._found[table, key_of(item)] = item
        left: Request = answer["UnprocessedKeys"]
        units = written_units(answer)
        self._units = None if units is None or self._units is None else self._units + units
        return left
