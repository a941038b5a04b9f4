"""What a span says of an operation: the table, how it ended, what it cost, and no names."""

import json

import pytest
from opentelemetry.trace import SpanKind, StatusCode
from support.ledgers import HOME
from support.spans import Spans, kept_spans, said

from ledger.core.errors import Throttled
from ledger.runtime.metrics import Metrics
from ledger.runtime.tracing.spans import Tracing
from ledger.store.conditions import Absent
from ledger.store.memory import MemoryStore
from ledger.store.reads import Get, Query, Scan
from ledger.store.wrappers.faults import Fault, FaultyStore, InOrder, Lost, Partial, Raises
from ledger.store.wrappers.meter import MeteredStore
from ledger.store.wrappers.tracer import TracedStore, say_units
from ledger.store.writes import Check, Delete, InTable, Put, Update
from ledger.testing.clock import ManualClock

ITEM = {"pk": {"S": "visits-of-ann"}, "sk": {"S": "a"}}
KEY = ("visits-of-ann", "a")


@pytest.fixture
def spans() -> Spans:
    """The spans of the test."""
    return kept_spans()


def traced(*faults: Fault | None, names_counters: bool = False) -> TracedStore:
    """Return a traced store over a metered and faulty one in memory."""
    clock = ManualClock(instant=True)
    faulty = FaultyStore(MemoryStore(HOME), InOrder(*faults), clock=clock)
    metered = MeteredStore(
        faulty,
        metrics=Metrics(),
        clock=clock,
        on_units=lambda kind, units: say_units("ledger", kind, units),
    )
    return TracedStore(
        metered,
        tracing=Tracing(names_counters=names_counters),
        table="ledger",
        endpoint="http://127.0.0.1:8001",
    )


async def test_a_span_is_named_by_operation_and_table(spans: Spans) -> None:
    """The attributes are those of the conventions for databases and DynamoDB."""
    await traced().write(Put(ITEM))

    span = spans.one("PutItem ledger")
    assert span.kind is SpanKind.CLIENT
    assert dict(span.attributes or {}) == {
        "db.system.name": "aws.dynamodb",
        "db.operation.name": "PutItem",
        "db.collection.name": "ledger",
        "aws.dynamodb.table_names": ("ledger",),
        "cloud.region": HOME,
        "server.address": "127.0.0.1",
        "server.port": 8001,
        "ledger.outcome": "applied",
        "aws.dynamodb.consumed_capacity": (
            json.dumps({"TableName": "ledger", "CapacityUnits": 1, "WriteCapacityUnits": 1}),
        ),
    }


async def test_a_rejected_write_is_no_error(spans: Spans) -> None:
    """That a condition was false is an outcome; the span's status says nothing."""
    store = traced()
    await store.write(Put(ITEM))
    await store.write(Put(ITEM, Absent()))

    span = spans.named("PutItem ledger")[1]
    assert said(span, "ledger.outcome") == "rejected"
    assert span.status.status_code is StatusCode.UNSET


@pytest.mark.parametrize("kind", ["write", "batch", "each", "transaction"])
async def test_a_write_without_an_answer_is_an_error(kind: str, spans: Spans) -> None:
    """Whatever operation it is, an unknown outcome is said as such."""
    store, put = traced(Lost()), Put(ITEM)
    match kind:
        case "write":
            await store.write(put)
        case "batch":
            await store.write_batch([put])
        case "each":
            await store.write_each([put])
        case _:
            await store.transact([put])

    (span,) = spans.all
    assert (said(span, "ledger.outcome"), said(span, "error.type")) == ("unknown", "unknown")
    assert span.status.status_code is StatusCode.ERROR


async def test_a_batch_cut_short_says_that_a_part_was_left(spans: Spans) -> None:
    """What is unprocessed after all repeats is said; the caller asks again in another span."""
    others = [Put({**ITEM, "sk": {"S": sk}}) for sk in "bc"]
    await traced(Partial((1,))).write_batch(others)

    assert said(spans.one("BatchWriteItem ledger"), "ledger.outcome") == "unprocessed"
    assert said(spans.one("BatchWriteItem ledger"), "db.operation.batch.size") == 2


async def test_several_writes_say_the_worst_of_their_outcomes(spans: Spans) -> None:
    """One rejected among them makes the whole rejected."""
    store = traced()
    await store.write(Put(ITEM))
    await store.write_each([Put(ITEM, Absent()), Put({**ITEM, "sk": {"S": "b"}}, Absent())])

    assert said(spans.one("BatchExecuteStatement ledger"), "ledger.outcome") == "rejected"


async def test_an_error_is_said_by_its_class_alone(spans: Spans) -> None:
    """Its message may name a counter."""
    store = traced(Raises(Throttled("visits-of-ann is hot")))
    with pytest.raises(Throttled):
        await store.write(Put(ITEM))

    span = spans.one("PutItem ledger")
    assert (said(span, "error.type"), said(span, "ledger.outcome")) == ("Throttled", "not_applied")
    assert span.status.status_code is StatusCode.ERROR
    assert not span.events
    assert "ann" not in spans.texts


async def test_an_error_has_its_message_where_counters_may_be_named(spans: Spans) -> None:
    """Then it is the status's description."""
    store = traced(Raises(Throttled("visits-of-ann is hot")), names_counters=True)
    with pytest.raises(Throttled):
        await store.write(Put(ITEM))

    assert spans.one("PutItem ledger").status.description == "visits-of-ann is hot"


async def test_every_operation_of_the_port_has_a_span(spans: Spans) -> None:
    """Reads say what they cost as well, and none of them names what is read."""
    store = traced()
    await store.write(Update(KEY, set={"v": {"N": "1"}}))
    await store.get(Get(KEY))
    await store.get_each([Get(KEY), Get(("visits-of-ann", "b"))])
    await store.query(Query("visits-of-ann"))
    await store.scan(Scan())
    await store.replicas()
    await store.transact([Check(KEY, Absent()), Delete(("visits-of-ann", "b"))])
    await store.write(Delete(KEY))

    assert [span.name for span in spans.all] == [
        "UpdateItem ledger",
        "GetItem ledger",
        "BatchGetItem ledger",
        "Query ledger",
        "Scan ledger",
        "DescribeTable ledger",
        "TransactWriteItems ledger",
        "DeleteItem ledger",
    ]
    assert '"ReadCapacityUnits": 1' in str(
        said(spans.one("Query ledger"), "aws.dynamodb.consumed_capacity")
    )
    assert said(spans.one("Query ledger"), "aws.dynamodb.count") == 1
    assert "ann" not in spans.texts


async def test_a_transaction_over_two_tables_names_both(spans: Spans) -> None:
    """Then no one table is the collection, and the span's name has none."""
    await traced().transact([Put(ITEM), InTable("orders", Put(ITEM))])

    span = spans.one("TransactWriteItems")
    assert said(span, "aws.dynamodb.table_names") == ("ledger", "orders")
    assert said(span, "db.collection.name") is None
