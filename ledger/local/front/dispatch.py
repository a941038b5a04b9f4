"""The front of the local global table: one request in, one answer out, on either engine.

::

    HTTP (endpoints) -> Front -> ControlPlane -> Catalog          tables
                           |
                           +-> limits, tokens, faults
                           +-> Engine -> changes -> Replicator    items

Writes to a region take its lock from before the engine is asked until the changes are stamped and
sent off, so their stamps are in the order of the commits. Reads take no lock.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from ledger.local.engines.port import ApiError, Engine, EngineAnswer, TableKey, invalid
from ledger.local.front import request_limits, statements
from ledger.local.front.catalog import Catalog, table_name
from ledger.local.front.control_plane import ControlPlane
from ledger.local.front.faults import HALF_REFUSED, Fault, Faults, halve, refusal
from ledger.local.front.request_limits import check_depths
from ledger.local.front.streams import OPERATIONS as STREAMS
from ledger.local.front.streams import Streams
from ledger.local.replication.journal import KeptToken
from ledger.local.replication.regions import Regions
from ledger.local.replication.replicator import Replicator
from ledger.store.writes import TOKEN_SECONDS

_LOG = logging.getLogger(__name__)

READS = frozenset({"GetItem", "BatchGetItem", "TransactGetItems", "Query", "Scan"})
WRITES = frozenset(
    {
        "BatchExecuteStatement",
        "BatchWriteItem",
        "DeleteItem",
        "ExecuteTransaction",
        "PutItem",
        "TransactWriteItems",
        "UpdateItem",
    }
)
_REFUSED = frozenset({"ExecuteStatement"})


class ConnectionDropped(Exception):
    """The connection is to be closed without an answer, or held until the client gives up."""

    def __init__(self, *, hold: bool) -> None:
        super().__init__("no answer")
        self.hold = hold


class OtherServer(Exception):
    """Another server is to answer in place of DynamoDB."""


class Front:
    """Answers the DynamoDB requests of all regions."""

    def __init__(
        self,
        tables: Catalog,
        engine: Engine,
        replicator: Replicator,
        control_plane: ControlPlane,
        faults: Faults,
        regions: Regions,
        streams: Streams,
    ) -> None:
        self._streams = streams
        self._tables = tables
        self._engine = engine
        self._replicator = replicator
        self._control_plane = control_plane
        self._faults = faults
        self._regions = regions
        self._tokens = {region: request_limits.Tokens() for region in tables.regions}

    @property
    def operations(self) -> list[str]:
        """The names of all operations that are offered, in order."""
        return sorted(READS | WRITES | STREAMS | self._control_plane.operations)

    async def reset(self) -> None:
        """Delete all items of all tables, all in flight, and all remembered tokens.

        Raises:
            ApiError: a region is unavailable.
        """
        await self._control_plane.empty()
        self._tokens = {region: request_limits.Tokens() for region in self._tables.regions}
        self._replicator.journal.forget_tokens()

    def check_there(self, region: str) -> None:
        """Leave every request to a region without an answer that is lost for good.

        Raises:
            NoAnswer: it is lost.
        """
        if region in self._regions.lost:
            raise ConnectionDropped(hold=False)

    async def call(self, region: str, operation: str, body: dict[str, Any]) -> dict[str, Any]:
        """Carry out one request.

        Raises:
            ApiError: the answer is this error.
            NoAnswer: there must be no answer.
            OtherServer: the answer must not be DynamoDB's.
        """
        try:
            return await self._call(region, operation, body)
        except (ApiError, ConnectionDropped, OtherServer):
            raise
        except KeyError as error:
            _LOG.debug("%s lacks a field", operation, exc_info=True)
            raise invalid(
                f"1 validation error detected: Value null at '{error.args[0]}' failed to satisfy "
                "constraint: Member must not be null"
            ) from None
        except (TypeError, AttributeError, ValueError, RecursionError) as error:
            _LOG.debug("%s was malformed", operation, exc_info=True)
            raise ApiError(
                "SerializationException", f"{operation}: the request is malformed: {error!r}"
            ) from None

    async def _call(self, region: str, operation: str, body: dict[str, Any]) -> dict[str, Any]:
        self._regions.check(region)
        fault = self._faults.choose(region, operation, body)
        if fault is not None:
            return await self._faulty(fault, region, operation, body)
        return await self._carry_out(region, operation, body)

    async def _faulty(
        self, fault: Fault, region: str, operation: str, body: dict[str, Any]
    ) -> dict[str, Any]:
        error = refusal(fault, operation, body)
        if error is not None:
            raise error
        if fault is Fault.HANG:
            raise ConnectionDropped(hold=True)
        if fault is Fault.GATEWAY:
            raise OtherServer
        if fault is Fault.SLOW:
            await asyncio.sleep(self._faults.slow_seconds())
        if fault is Fault.LOST_ANSWER:
            with contextlib.suppress(ApiError):
                await self._carry_out(region, operation, body)
            raise ConnectionDropped(hold=False)
        if operation == "BatchExecuteStatement" and fault in HALF_REFUSED:
            return await self._statements(region, body, refused=HALF_REFUSED[fault])
        halves = halve(operation, body) if fault is Fault.UNPROCESSED else None
        if halves is not None:
            first, field, rest = halves
            answer = await self._carry_out(region, operation, first)
            return {**answer, field: {**answer.get(field, {}), **rest}}
        return await self._carry_out(region, operation, body)

    async def _carry_out(self, region: str, operation: str, body: dict[str, Any]) -> dict[str, Any]:
        if operation in self._control_plane.operations:
            return await self._control_plane.call(region, operation, body)
        if operation in STREAMS:
            return self._streams.call(region, operation, body)
        if operation in _REFUSED:
            raise invalid(
                f"{operation}: PartiQL is not supported by the local global table but in "
                "BatchExecuteStatement and ExecuteTransaction: use the item operations instead"
            )
        if operation not in READS and operation not in WRITES:
            raise ApiError(
                "UnknownOperationException",
                f"{operation} is not offered by the local global table",
            )
        if operation == "BatchExecuteStatement":
            return await self._statements(region, body)
        if operation == "ExecuteTransaction":
            return await self._transaction(region, body)
        check_depths(operation, body)
        if operation in READS:
            self._regions.check(region)
            body = self._checked(region, operation, body)
            return (await self._engine.call(region, operation, body)).body
        return await self._write(region, operation, body)

    async def _statements(
        self, region: str, body: dict[str, Any], *, refused: str = ""
    ) -> dict[str, Any]:
        """Do the statements of a batch, each as an item operation.

        With a code in `refused` the second half of them is refused with it.
        """
        given = statements.statements_of(body)
        asked = [self._statement(region, text) for text in given]
        request_limits.check_statements(
            [
                (one["TableName"], self._keys(region, [one["TableName"]])[one["TableName"]], one)
                for one in (each[1] for each in asked if not isinstance(each, ApiError))
            ]
        )
        responses, units = [], dict[str, float]()
        for place, one in enumerate(asked):
            if refused and place >= (len(asked) + 1) // 2:
                responses.append({"Error": {"Code": refused, "Message": "injected"}})
                continue
            if isinstance(one, ApiError):
                responses.append({"Error": statements.error_of(one, "")})
                continue
            operation, request = one
            try:
                answer = await self._carry_out(region, operation, request)
            except ApiError as error:
                responses.append({"Error": statements.error_of(error, operation)})
                spent = 1.0 if error.kind == "ConditionalCheckFailedException" else 0.0
            else:
                responses.append({"TableName": request["TableName"]})
                spent = answer["ConsumedCapacity"]["CapacityUnits"]
            units[request["TableName"]] = units.get(request["TableName"], 0.0) + spent
        answered: dict[str, Any] = {"Responses": responses}
        if body.get("ReturnConsumedCapacity", "NONE") != "NONE":
            answered["ConsumedCapacity"] = [
                {"TableName": name, "CapacityUnits": spent} for name, spent in units.items()
            ]
        return answered

    async def _transaction(self, region: str, body: dict[str, Any]) -> dict[str, Any]:
        """Do the statements of a transaction as the actions of one."""
        given = body["TransactStatements"]
        asked = [self._statement(region, text) for text in given]
        for statement in asked:
            if isinstance(statement, ApiError):
                raise statement
        operations = [statement for statement in asked if not isinstance(statement, ApiError)]
        try:
            answer = await self._carry_out(
                region, "TransactWriteItems", statements.transaction_of(operations, body)
            )
        except ApiError as error:
            raise statements.cancelled(error, operations) from None
        return {**answer, "Responses": [{} for _ in given]}

    def _statement(
        self, region: str, statement: Mapping[str, Any]
    ) -> statements.Operation | ApiError:
        try:
            table = statements.table_of(statement)
            return statements.operation_of(statement, self._keys(region, [table])[table])
        except ApiError as error:
            return error

    async def _write(self, region: str, operation: str, body: dict[str, Any]) -> dict[str, Any]:
        async with self._replicator.locks[region]:
            # Only now: while it waited the region or the table may have gone, or come again.
            self._regions.check(region)
            body = self._checked(region, operation, body)
            if operation != "TransactWriteItems":
                return self._committed(region, await self._engine.call(region, operation, body))
            tokens = self._tokens[region]
            if tokens.seen(body, now=time.monotonic()):
                return request_limits.repeated(body)
            tokenless = {name: body[name] for name in body if name != "ClientRequestToken"}
            answer = await self._engine.call(region, operation, tokenless)
            remember = partial(self._remember, region, body)
            self._replicator.committed(region, answer.changes, keep_too=remember)
            return answer.body

    def _remember(self, region: str, body: dict[str, Any]) -> None:
        self._tokens[region].remember(body, now=time.monotonic())
        if "ClientRequestToken" in body:
            token, content = body["ClientRequestToken"], request_limits.fingerprint(body)
            self._replicator.journal.remember(KeptToken(region, token, time.time(), content))

    def restore(self) -> None:
        """Take over the tokens that were kept."""
        now = time.time()
        for kept in self._replicator.journal.tokens(since=now - TOKEN_SECONDS):
            when = time.monotonic() - (now - kept.used_at)
            self._tokens[kept.region].restore(kept.token, kept.fingerprint, when=when)

    def _committed(self, region: str, answer: EngineAnswer) -> dict[str, Any]:
        self._replicator.committed(region, answer.changes)
        return answer.body

    def _checked(self, region: str, operation: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return the request with plain table names, its tables and limits checked."""
        if operation in ("BatchWriteItem", "BatchGetItem"):
            requests = {table_name(name): part for name, part in body["RequestItems"].items()}
            request_limits.check_batch(operation, body, self._keys(region, body["RequestItems"]))
            return {**body, "RequestItems": requests}
        if operation in ("TransactWriteItems", "TransactGetItems"):
            actions = [
                {
                    kind: {**part, "TableName": table_name(part.get("TableName"))}
                    for kind, part in action.items()
                }
                for action in body["TransactItems"]
            ]
            names = {part["TableName"]: None for action in actions for part in action.values()}
            request_limits.check_transaction(operation, body, self._keys(region, names))
            return {**body, "TransactItems": actions}
        name = table_name(body.get("TableName"))
        self._tables.usable(region, name, now=time.monotonic())
        return {**body, "TableName": name}

    def _keys(self, region: str, names: Iterable[str]) -> dict[str, TableKey]:
        now = time.monotonic()
        plain = {given: table_name(given) for given in names}
        return {
            given: self._tables.usable(region, name, now=now).key for given, name in plain.items()
        }
