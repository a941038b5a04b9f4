"""The store over aiobotocore: the one place that talks to DynamoDB.

The SDK's own retries are off: it repeats a write whose answer was lost (an `ADD 1` stores 2), so
what may be repeated is decided here, by what is known of the failed attempt:

- not applied for certain (throttled, conflict, connection never made): tried again with backoff;
- fate unknown (connection lost, time-out, 5xx): a read is tried again, a write returns `Unknown`;
- refused (credentials, table, request): raised at once.
"""

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Any

import anyio
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    ProxyConnectionError,
    ReadTimeoutError,
)

from ledger.clock import Clock, SystemClock, system_random
from ledger.core.entry import Item, Key
from ledger.core.errors import StoreError, Throttled, Unreachable
from ledger.metrics import Metrics
from ledger.settings import Settings
from ledger.store import requests, signing
from ledger.store.connect import client_options
from ledger.store.errors import from_botocore
from ledger.store.metered import MeteredStore
from ledger.store.port import (
    BATCH_WRITES_MAX,
    TRANSACTION_ACTIONS_MAX,
    Action,
    Applied,
    BatchOutcome,
    BatchWrite,
    Outcome,
    Page,
    Rejected,
    Store,
    Unknown,
    Write,
    checked_actions,
    signed_by,
)
from ledger.store.retry import Backoff

CONNECTIONS_MAX = 64
_SERVER_FAULT = 500
_CONFLICTS = {"TransactionConflictException", "TransactionInProgressException"}
_PASSING_REASONS = {"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"}
_PASSING_REASONS |= {"RequestLimitExceeded"}

Response = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Failure:
    """What is known of a failed attempt."""

    error: StoreError
    applied_maybe: bool = False
    passing: bool = False


class DynamoStore:
    """One region's table over an aiobotocore client; see `ledger.store.port.Store`."""

    def __init__(
        self,
        client: Any,
        *,
        region: str,
        table: str,
        backoff: Backoff,
        clock: Clock,
        randomness: Random,
        attempt_seconds: float = math.inf,
        on_retry: Callable[[str, str], None] = lambda _operation, _cause: None,
    ) -> None:
        self.region = region
        self._attempt_seconds = attempt_seconds
        self._client = client
        self._table = table
        self._backoff = backoff
        self._clock = clock
        self._random = randomness
        self._on_retry = on_retry

    async def write(self, write: Write) -> Outcome:
        """Do one conditional write."""
        operation, request = requests.write_request(write, self._table)
        answer = await self._write(operation, request, signed_by([write]))
        return answer if isinstance(answer, Outcome) else Applied(answer.get("Attributes"))

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Do up to 100 actions, all or none."""
        checked_actions(actions, TRANSACTION_ACTIONS_MAX)
        request = requests.transaction_request(actions, self._table, token)
        answer = await self._write("transact_write_items", request, signed_by(actions))
        return answer if isinstance(answer, Outcome) else Applied()

    async def write_batch(self, writes: Sequence[BatchWrite]) -> BatchOutcome:
        """Do up to 25 unconditional writes; what DynamoDB leaves unprocessed is sent again."""
        checked_actions(writes, BATCH_WRITES_MAX)
        left = dict(enumerate(writes))
        for tries in range(1, self._backoff.tries_max + 1):
            request = requests.batch_request(list(left.values()), self._table)
            try:
                answer = await self._write("batch_write_item", request, signed_by(writes))
            except StoreError as error:
                if len(left) == len(writes):
                    raise
                return BatchOutcome(unprocessed=tuple(left), cause=str(error))
            if isinstance(answer, Unknown):
                return BatchOutcome(unknown=tuple(left), cause=answer.cause)
            if isinstance(answer, Outcome):
                raise TypeError("a batch has no conditions to fail")
            keys = requests.unprocessed_keys(answer, self._table)
            left = {place: write for place, write in left.items() if write.key in keys}
            if not left:
                return BatchOutcome()
            await self._wait("batch_write_item", "unprocessed", tries)
        return BatchOutcome(unprocessed=tuple(left), cause=f"still throttled in {self.region}")

    async def get(self, key: Key, *, consistent: bool = True) -> Item | None:
        """Read one item."""
        request = {
            "TableName": self._table,
            "Key": requests.key_attributes(key),
            "ConsistentRead": consistent,
        }
        found: Item | None = (await self._read("get_item", request)).get("Item")
        return found

    async def query(
        self,
        partition: str,
        *,
        consistent: bool = True,
        after: Key | None = None,
        first: str | None = None,
        last: str | None = None,
        limit: int | None = None,
    ) -> Page:
        """Read one page of a partition in ascending order."""
        request = requests.query_request(
            partition,
            self._table,
            consistent=consistent,
            after=after,
            first=first,
            last=last,
            limit=limit,
        )
        return _page(await self._read("query", request), self.region)

    async def scan(
        self,
        *,
        segment: int = 0,
        segments: int = 1,
        after: Key | None = None,
        attributes: Sequence[str] = (),
        limit: int | None = None,
    ) -> Page:
        """Read one page of one segment."""
        request = requests.scan_request(
            self._table,
            segment=segment,
            segments=segments,
            after=after,
            attributes=attributes,
            limit=limit,
        )
        return _page(await self._read("scan", request), self.region)

    async def close(self) -> None:
        """Close the client's connections."""
        await self._client.close()

    async def _write(
        self, operation: str, request: requests.Request, latest: datetime | None
    ) -> Response | Outcome:
        """Send a write until its fate is known or unknowable."""
        for tries in range(1, self._backoff.tries_max + 1):
            try:
                with signing.not_after(latest):
                    return await self._send(operation, request)
            except ClientError as error:
                rejected = _rejected(error)
                if rejected is not None:
                    return rejected
                failure = self._judge(error)
            except BotoCoreError as error:
                failure = self._judge(error)
            if failure.applied_maybe:
                return Unknown(str(failure.error))
            await self._again_or_raise(operation, failure, tries)
        raise AssertionError("unreachable: the last try returns or raises")

    async def _read(self, operation: str, request: requests.Request) -> Response:
        """Send a read until it is answered, within the bound."""
        for tries in range(1, self._backoff.tries_max + 1):
            try:
                return await self._send(operation, request)
            except (BotoCoreError, ClientError) as error:
                failure = self._judge(error)
            await self._again_or_raise(operation, failure, tries)
        raise AssertionError("unreachable: the last try returns or raises")

    async def _send(self, operation: str, request: requests.Request) -> Response:
        method: Callable[..., Awaitable[Response]] = getattr(self._client, operation)
        response: Response | None = None
        # The SDK's time-outs are per connection and per read: an answer that drips has no end.
        with anyio.move_on_after(self._attempt_seconds):
            response = await method(**request)
        if response is None:
            raise ReadTimeoutError(endpoint_url=f"{self.region}, {operation}")
        headers = response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
        kind = headers.get("content-type", "json")
        if "json" not in kind:
            # botocore reads any page with status 200 as an empty answer: a write by a proxy, or by
            # whatever else listens at a wrong endpoint, would pass for applied.
            raise HTTPClientError(error=f"a {kind} page with status 200 is no answer of DynamoDB")
        return response

    async def _again_or_raise(self, operation: str, failure: _Failure, tries: int) -> None:
        repeatable = failure.passing or failure.applied_maybe
        if not repeatable or tries >= self._backoff.tries_max:
            raise failure.error
        await self._wait(operation, type(failure.error).__name__.lower(), tries)

    async def _wait(self, operation: str, cause: str, tries: int) -> None:
        self._on_retry(operation, cause)
        await self._clock.sleep(self._backoff.wait_seconds(tries, self._random))

    def _judge(self, error: BotoCoreError | ClientError) -> _Failure:
        mapped = from_botocore(error, region=self.region, table=self._table)
        if isinstance(error, ClientError):
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            if isinstance(mapped, Throttled) or _is_passing(error):
                return _Failure(mapped, passing=True)
            if status >= _SERVER_FAULT or isinstance(mapped, Unreachable):
                return _Failure(mapped, applied_maybe=True)
            return _Failure(mapped)
        if _never_sent(error):
            return _Failure(mapped, passing=True)
        return _Failure(mapped, applied_maybe=isinstance(mapped, Unreachable))


def _rejected(error: ClientError) -> Rejected | None:
    """Read which conditions failed, None if the error is another one."""
    response: Any = error.response
    if _code(error) == "ConditionalCheckFailedException":
        return Rejected({0: response.get("Item") or None})
    found: dict[int, Item | None] = {
        position: reason.get("Item") or None
        for position, reason in enumerate(response.get("CancellationReasons", []))
        if reason.get("Code") == "ConditionalCheckFailed"
    }
    return Rejected(found) if found else None


def _is_passing(error: ClientError) -> bool:
    """Tell whether nothing was written and the next try may go through."""
    if _code(error) in _CONFLICTS:
        return True
    reasons = {reason.get("Code") for reason in error.response.get("CancellationReasons", [])}
    return bool(reasons & _PASSING_REASONS) and not reasons - _PASSING_REASONS - {"None", None}


def _never_sent(error: BotoCoreError) -> bool:
    """Tell whether no connection was made, so that the request cannot have arrived.

    aiobotocore raises `EndpointConnectionError` for a connection lost half-way as well; only
    aiohttp's own error underneath tells the two apart.
    """
    import aiohttp  # noqa: PLC0415 (as in `open_store`)

    if isinstance(error, ConnectTimeoutError | ProxyConnectionError):
        return True
    cause = error.kwargs.get("error")
    return isinstance(error, EndpointConnectionError) and isinstance(
        cause, aiohttp.ClientConnectorError
    )


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


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


@asynccontextmanager
async def open_store(
    settings: Settings,
    region: str,
    *,
    metrics: Metrics | None = None,
    clock: Clock | None = None,
    randomness: Random | None = None,
) -> AsyncIterator[Store]:
    """Open the table of one region; the connections are given back at the end.

    Raises:
        SettingsError: the region is not in the settings.
        AccessDenied: the profile does not exist.
    """
    # They take more time to import than all else: a command that sends nothing does without.
    from aiobotocore.config import AioConfig  # noqa: PLC0415
    from aiobotocore.session import AioSession  # noqa: PLC0415

    described = settings.region(region)
    clock = clock or SystemClock()
    metrics = metrics or Metrics(None)
    config = AioConfig(
        retries={"total_max_attempts": 1, "mode": "standard"},
        connect_timeout=settings.request_timeout,
        read_timeout=settings.request_timeout,
        max_pool_connections=CONNECTIONS_MAX,
        parameter_validation=False,
    )
    async with AsyncExitStack() as stack:
        try:
            session = AioSession(profile=described.profile)
            client = session.create_client(
                "dynamodb", config=config, **client_options(region, described)
            )
            opened = await stack.enter_async_context(client)
            opened.meta.events.register("before-send.dynamodb", signing.refuse_late)
        except BotoCoreError as error:
            raise from_botocore(error, region=region, table=settings.table) from error
        store = DynamoStore(
            opened,
            region=region,
            table=settings.table,
            backoff=Backoff(),
            clock=clock,
            randomness=randomness or system_random(),
            # To connect, or wait for a free connection, and to be answered.
            attempt_seconds=2 * settings.request_timeout,
            on_retry=lambda operation, cause: metrics.retry(region, operation, cause),
        )
        yield MeteredStore(store, metrics=metrics, clock=clock)
