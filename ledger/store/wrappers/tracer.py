"""A store that makes a span of each operation, with the requests and waits of its repeats in it.

A span covers the operation as its caller sees it, and is named after DynamoDB's operation and the
table: `PutItem ledger`. `ledger.outcome` is applied, rejected or unknown; a write without an answer
is an error, one whose condition is false is not. Keys, items and conditions are in no span.

Source: OpenTelemetry Semantic Conventions, "Database client spans" (stable) and "AWS DynamoDB"
(in development): opentelemetry.io/docs/specs/semconv/db/dynamodb.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal
from urllib.parse import urlsplit

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind

from ledger.core.entry import Item
from ledger.core.errors import StoreError
from ledger.runtime.tracing.spans import OUTCOME, REGION, Tracing, Value
from ledger.store.port import Store
from ledger.store.reads import FoundItems, Get, Page, Query, Scan
from ledger.store.wrappers.forwarder import ForwardingStore
from ledger.store.wrappers.meter import outcome_name
from ledger.store.writes import (
    Action,
    BatchOutcome,
    BatchWrite,
    Delete,
    EachOutcome,
    InTable,
    Outcome,
    Put,
    Unknown,
    Update,
    Write,
    placed,
)

SYSTEM = "aws.dynamodb"
WRITES: Mapping[type, str] = {Put: "PutItem", Update: "UpdateItem", Delete: "DeleteItem"}
UNITS = "aws.dynamodb.consumed_capacity"
_HTTPS = 443


class TracedStore(ForwardingStore):
    """A `Store` that forwards every request within a span.

    `endpoint` is where its requests go; None if the AWS SDK resolves that, perhaps by account.
    """

    def __init__(
        self, inner: Store, *, tracing: Tracing, table: str, endpoint: str | None = None
    ) -> None:
        super().__init__(inner)
        self._tracing = tracing
        self._table = table
        self._always: dict[str, Value] = {
            "db.system.name": SYSTEM,
            REGION: inner.region,
            **_server(endpoint),
        }

    async def write(self, write: Write) -> Outcome:
        """Do one conditional write."""
        name = WRITES[type(placed(write)[1])]
        with self._span(name, [_table_of(write)]) as span:
            outcome = await self._inner.write(write)
            _say(span, outcome)
        return outcome

    async def write_batch(self, writes: Sequence[BatchWrite]) -> BatchOutcome:
        """Do a batch of unconditional writes."""
        with self._span("BatchWriteItem", count=len(writes)) as span:
            outcome = await self._inner.write_batch(writes)
            if outcome.unknown:
                _failed(span, "unknown")
            elif outcome.unprocessed:
                _failed(span, "unprocessed")
            else:
                span.set_attribute(OUTCOME, "applied")
        return outcome

    async def write_each(self, writes: Sequence[Write]) -> EachOutcome:
        """Do several conditional writes: `ledger.outcome` is the worst of theirs."""
        tables = map(_table_of, writes)
        with self._span("BatchExecuteStatement", tables, count=len(writes)) as span:
            answer = await self._inner.write_each(writes)
            self._say_each(span, answer.outcomes)
        return answer

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Do a transaction."""
        tables = map(_table_of, actions)
        with self._span("TransactWriteItems", tables, count=len(actions)) as span:
            outcome = await self._inner.transact(actions, token=token)
            _say(span, outcome)
        return outcome

    async def get(self, get: Get) -> Item | None:
        """Read one item."""
        with self._span("GetItem", [get.table]):
            return await self._inner.get(get)

    async def get_each(self, gets: Sequence[Get]) -> FoundItems:
        """Read several items."""
        with self._span("BatchGetItem", (get.table for get in gets), count=len(gets)):
            return await self._inner.get_each(gets)

    async def query(self, query: Query) -> Page:
        """Read one page of a partition."""
        with self._span("Query") as span:
            return _counted(span, await self._inner.query(query))

    async def scan(self, scan: Scan) -> Page:
        """Read one page of one segment."""
        with self._span("Scan", [scan.table]) as span:
            return _counted(span, await self._inner.scan(scan))

    async def replicas(self) -> Mapping[str, str] | None:
        """Describe the table's replicas."""
        with self._span("DescribeTable"):
            return await self._inner.replicas()

    def _say_each(self, span: Span, outcomes: Iterable[Outcome | StoreError]) -> None:
        names = set()
        for outcome in outcomes:
            if isinstance(outcome, StoreError):
                self._tracing.failed(span, outcome)
                names.add("refused")
            else:
                names.add(outcome_name(outcome))
        if "unknown" in names:
            _failed(span, "unknown")
        elif "refused" not in names:
            span.set_attribute(OUTCOME, "rejected" if "rejected" in names else "applied")

    @contextmanager
    def _span(
        self, operation: str, tables: Iterable[str] = ("",), *, count: int = 1
    ) -> Iterator[Span]:
        """Make the span of an operation on these tables, "" for the store's own."""
        names = sorted({table or self._table for table in tables})
        attributes = {
            **self._always,
            "db.operation.name": operation,
            "aws.dynamodb.table_names": names,
        }
        if len(names) == 1:
            attributes["db.collection.name"] = names[0]
        if count > 1:
            attributes["db.operation.batch.size"] = count
        name = f"{operation} {names[0]}" if len(names) == 1 else operation
        with self._tracing.span(name, attributes=attributes, kind=SpanKind.CLIENT) as span:
            yield span


def say_units(table: str, kind: Literal["read", "write"], units: float) -> None:
    """Record in the current operation's span what it costs, in the form of DynamoDB's answer.

    For pages and batches the units are DynamoDB's own count, otherwise those of our model.
    """
    named = "ReadCapacityUnits" if kind == "read" else "WriteCapacityUnits"
    found = {"TableName": table, "CapacityUnits": units, named: units}
    trace.get_current_span().set_attribute(UNITS, [json.dumps(found)])


def _table_of(action: Action) -> str:
    return action.table if isinstance(action, InTable) else ""


def _server(endpoint: str | None) -> dict[str, Value]:
    if endpoint is None:
        return {}
    parts = urlsplit(endpoint)
    port = {"server.port": parts.port} if parts.port not in {None, _HTTPS} else {}
    return {"server.address": parts.hostname or "", **port}


def _say(span: Span, outcome: Outcome) -> None:
    if isinstance(outcome, Unknown):
        _failed(span, "unknown")
    else:
        span.set_attribute(OUTCOME, outcome_name(outcome))


def _failed(span: Span, why: Literal["unknown", "unprocessed"]) -> None:
    span.set_attributes({"error.type": why, OUTCOME: why})
    Tracing.hindered(span)


def _counted(span: Span, page: Page) -> Page:
    span.set_attribute("aws.dynamodb.count", len(page.items))
    return page
