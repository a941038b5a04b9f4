"""What the true answer to each operation contains; the rest is of `ledger.runtime.aws_answers`.

Each request of ours asks for the consumed capacity, so that each answer names the table:

======================= =========================================================================
operation               its answer has
======================= =========================================================================
PutItem, DeleteItem     the capacity consumed of the request's table
UpdateItem              the same, and the new item under the request's key
GetItem                 the same, and no item but one under the request's key: `{}` is no answer
Query, Scan             the same, and as many items as it counts
BatchWriteItem          capacities of no other table, unprocessed writes of the request alone
BatchGetItem            the same of reads, and the items by table
TransactWriteItems      capacities of no other table
ExecuteTransaction      responses, no more than statements, capacities of no other table
BatchExecuteStatement   a response for each statement, and of no other table; the table of those
                        that succeeded is named
DescribeTable           the table of that name, with its status
DescribeTimeToLive      the description
DescribeContinuous-     the description
Backups
======================= =========================================================================

DynamoDB, DynamoDB Local, dynoxide and moto keep to this, but for two things that are therefore not
asked: DynamoDB Local tells no capacity of statements, but names their tables; moto's list of
capacities of a transaction is empty (`tests/conformance`).

Source: Amazon DynamoDB API Reference, the response elements of each operation, and ConsumedCapacity
(`TableName`: as in the request, name or ARN)
(https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_ConsumedCapacity.html).
"""

from collections.abc import Callable, Mapping
from typing import Any

from ledger.core.entry import key_of
from ledger.runtime.aws_answers import NoAnswer
from ledger.store.dynamodb.requests import Request, written_keys
from ledger.store.dynamodb.statements import table_of
from ledger.store.dynamodb.transport import Response


def check(operation: str, request: Request, response: Response) -> None:
    """Make sure that an answer is one to this request.

    Raises:
        NoAnswer: it is not, so it says nothing about the request.
    """
    is_true = _RULES.get(operation)
    if is_true is None:
        return
    try:
        if is_true(request, response):
            return
    except (AttributeError, LookupError, TypeError, ValueError):
        pass
    raise NoAnswer(reason=f"a JSON object that does not answer this {operation}")


def _names_table(request: Request, response: Response) -> bool:
    consumed = response["ConsumedCapacity"]
    return bool(consumed["TableName"] == request["TableName"]) and consumed["CapacityUnits"] >= 0


def _updated(request: Request, response: Response) -> bool:
    return _names_table(request, response) and _is_of_key(request, response["Attributes"])


def _got(request: Request, response: Response) -> bool:
    item = response.get("Item")
    return _names_table(request, response) and (item is None or _is_of_key(request, item))


def _is_of_key(request: Request, item: Mapping[str, Any]) -> bool:
    return all(item[name] == value for name, value in request["Key"].items())


def _paged(request: Request, response: Response) -> bool:
    last = response.get("LastEvaluatedKey")
    if last is not None:
        key_of(last)
    return _names_table(request, response) and bool(response["Count"] == len(response["Items"]))


def _batch_written(request: Request, response: Response) -> bool:
    asked = request["RequestItems"]
    return _names_only(asked, response["ConsumedCapacity"]) and all(
        written_keys(parts) <= written_keys(asked[table])
        for table, parts in response["UnprocessedItems"].items()
    )


def _batch_got(request: Request, response: Response) -> bool:
    asked = request["RequestItems"]
    return (
        _names_only(asked, response["ConsumedCapacity"])
        and response["Responses"].keys() <= asked.keys()
        and all(
            set(map(key_of, parts["Keys"])) <= set(map(key_of, asked[table]["Keys"]))
            for table, parts in response["UnprocessedKeys"].items()
        )
    )


def _transacted(request: Request, response: Response) -> bool:
    tables = {part["TableName"] for item in request["TransactItems"] for part in item.values()}
    return _names_only(tables, response["ConsumedCapacity"])


def _executed(request: Request, response: Response) -> bool:
    asked, consumed = request["TransactStatements"], response.get("ConsumedCapacity") or ()
    return len(response["Responses"]) in {0, len(asked)} and _names_only(
        set(map(table_of, asked)), consumed
    )


def _each_executed(request: Request, response: Response) -> bool:
    asked, answered = request["Statements"], response["Responses"]
    named = {part["TableName"] for part in answered if "TableName" in part}
    named |= {consumed["TableName"] for consumed in response.get("ConsumedCapacity") or ()}
    return (
        len(answered) == len(asked)
        and named <= set(map(table_of, asked))
        and (bool(named) or all(part["Error"] for part in answered))
    )


def _names_only(tables: Any, consumed: Any) -> bool:
    return all(each["TableName"] in tables and each["CapacityUnits"] >= 0 for each in consumed)


def _described(request: Request, response: Response) -> bool:
    table = response["Table"]
    named = {table["TableName"], table.get("TableArn")}
    return request["TableName"] in named and isinstance(table["TableStatus"], str)


def _has(field: str) -> Callable[[Request, Response], bool]:
    return lambda _request, response: isinstance(response[field], Mapping)


_RULES: Mapping[str, Callable[[Request, Response], bool]] = {
    "put_item": _names_table,
    "delete_item": _names_table,
    "update_item": _updated,
    "get_item": _got,
    "query": _paged,
    "scan": _paged,
    "batch_write_item": _batch_written,
    "batch_get_item": _batch_got,
    "transact_write_items": _transacted,
    "execute_transaction": _executed,
    "batch_execute_statement": _each_executed,
    "describe_table": _described,
    "describe_time_to_live": _has("TimeToLiveDescription"),
    "describe_continuous_backups": _has("ContinuousBackupsDescription"),
}
