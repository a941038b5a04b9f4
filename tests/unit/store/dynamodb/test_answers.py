"""What the answer to each operation must contain, and what nobody but DynamoDB says of it."""

from typing import Any

import pytest
from support.scripted import true_answer

from ledger.runtime.aws_answers import NoAnswer
from ledger.store.conditions import Absent
from ledger.store.dynamodb import requests, statements
from ledger.store.dynamodb.answers import check
from ledger.store.reads import Get, Query, Scan
from ledger.store.transports.lean import OPERATIONS
from ledger.store.writes import Delete, Put, Update

KEY = ("c", "s")
ITEM = {"pk": {"S": "c"}, "sk": {"S": "s"}, "change": {"N": "1"}}
OTHER = {"pk": {"S": "c"}, "sk": {"S": "other"}}
PUTS = [Put({**ITEM, "sk": {"S": f"s{n}"}}, Absent()) for n in range(2)]
SAID = [said for put in PUTS if (said := statements.statement(put, "ledger"))]
REQUESTS: dict[str, dict[str, Any]] = {
    "put_item": requests.write_request(Put(ITEM), "ledger")[1],
    "delete_item": requests.write_request(Delete(KEY), "ledger")[1],
    "update_item": requests.write_request(Update(KEY, add={"n": {"N": "1"}}), "ledger")[1],
    "get_item": requests.get_request(Get(KEY), "ledger"),
    "query": requests.query_request(Query("c"), "ledger"),
    "scan": requests.scan_request(Scan(), "ledger"),
    "batch_write_item": requests.batch_request(PUTS, "ledger"),
    "batch_get_item": requests.each_gets_request(requests.gets_request([Get(KEY)], "ledger")),
    "transact_write_items": requests.transaction_request(PUTS, "ledger", None),
    "execute_transaction": statements.transaction_request(PUTS, "ledger", None),
    "batch_execute_statement": statements.each_request(SAID),
    "describe_table": {"TableName": "ledger"},
}


def answer_to(operation: str, **fields: Any) -> dict[str, Any]:
    """Return DynamoDB's answer to our request of an operation, with these fields."""
    return {**true_answer(OPERATIONS[operation], REQUESTS[operation]), **fields}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_true_answer_is_taken(operation: str) -> None:
    """What DynamoDB answers to each operation that is used is taken."""
    check(operation, REQUESTS[operation], answer_to(operation))


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("answer", [{}, {"status": "blocked"}, {"message": "Forbidden"}], ids=str)
def test_an_object_of_a_gateway_answers_nothing(operation: str, answer: dict[str, Any]) -> None:
    """There is no operation to which an object without DynamoDB's fields is an answer."""
    with pytest.raises(NoAnswer):
        check(operation, REQUESTS[operation], answer)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_answer_of_another_table_is_none(operation: str) -> None:
    """Each answer names the table, which must be the request's."""
    other = {**REQUESTS[operation], "TableName": "other"}
    answer = true_answer(OPERATIONS[operation], other)
    if isinstance(consumed := answer.get("ConsumedCapacity"), list):
        consumed[0]["TableName"] = "other"
    with pytest.raises(NoAnswer):
        check(operation, REQUESTS[operation], answer)


@pytest.mark.parametrize(
    ("operation", "fields"),
    [
        ("update_item", {"Attributes": OTHER}),
        ("get_item", {"Item": OTHER}),
        ("query", {"Items": [ITEM], "Count": 2}),
        ("scan", {"Items": [], "Count": 1}),
        ("scan", {"LastEvaluatedKey": {"id": {"S": "x"}}}),
        ("batch_write_item", {"UnprocessedItems": {"other": []}}),
        ("batch_write_item", {"UnprocessedItems": {"ledger": [{"PutRequest": {"Item": OTHER}}]}}),
        ("batch_get_item", {"Responses": {"other": []}}),
        ("batch_get_item", {"UnprocessedKeys": {"ledger": {"Keys": [OTHER]}}}),
        ("batch_execute_statement", {"Responses": [{}]}),
        ("batch_execute_statement", {"Responses": [{}, {}, {}]}),
        ("batch_execute_statement", {"Responses": [{"TableName": "other"}, {}]}),
        ("execute_transaction", {"Responses": [{}, {}, {}]}),
        ("transact_write_items", {"ConsumedCapacity": {"TableName": "ledger"}}),
        ("put_item", {"ConsumedCapacity": {"TableName": "ledger", "CapacityUnits": "1"}}),
        ("describe_table", {"Table": {}}),
    ],
)
def test_an_answer_to_another_request_is_none(operation: str, fields: dict[str, Any]) -> None:
    """Keys, counts and tables in an answer must be those of its request."""
    with pytest.raises(NoAnswer, match=operation):
        check(operation, REQUESTS[operation], answer_to(operation, **fields))


@pytest.mark.parametrize(
    ("operation", "fields"),
    [
        ("get_item", {"Item": ITEM}),
        (
            "batch_write_item",
            {"UnprocessedItems": {"ledger": [{"PutRequest": {"Item": PUTS[1].item}}]}},
        ),
        (
            "batch_get_item",
            {"UnprocessedKeys": {"ledger": {"Keys": [requests.key_attributes(KEY)]}}},
        ),
        ("transact_write_items", {"ConsumedCapacity": []}),
        ("execute_transaction", {"Responses": [], "ConsumedCapacity": None}),
        (
            "batch_execute_statement",
            {"Responses": [{"TableName": "ledger"}, {}], "ConsumedCapacity": None},
        ),
        (
            "batch_execute_statement",
            {"Responses": [{"Error": {"Code": "ValidationError"}}] * 2, "ConsumedCapacity": []},
        ),
    ],
)
def test_what_engines_leave_out_is_not_asked(operation: str, fields: dict[str, Any]) -> None:
    """DynamoDB Local and moto leave out fields of some answers, which stay answers."""
    check(operation, REQUESTS[operation], answer_to(operation, **fields))
