"""The bounds of expressions in the local table's front are those of AWS's own engine."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from botocore.exceptions import ClientError
from support.depths import REFUSED, TAKEN
from support.engines import empty_table

from ledger.settings import Settings
from ledger.store.connections import open_store
from ledger.store.dynamodb.client import TableClient

TABLE = "depths"
pytestmark = pytest.mark.engines("dynamodb_local")


@pytest.fixture(scope="module")
async def client(dynamodb_local_settings: Settings) -> AsyncIterator[TableClient]:
    """Yield a client of DynamoDB Local with an empty table."""
    async with open_store(dynamodb_local_settings, dynamodb_local_settings.home) as store:
        await empty_table(store, TABLE)
        yield store._inner._client  # type: ignore[attr-defined]


async def refusal(client: TableClient, condition: str) -> tuple[str, str]:
    """Put an item under this condition, and return kind and message of the error, if any."""
    request: dict[str, Any] = {
        "TableName": TABLE,
        "Item": {"pk": {"S": "a"}, "sk": {"S": "b"}},
        "ConditionExpression": condition,
        "ReturnConsumedCapacity": "TOTAL",
    }
    if ":v" in condition:
        request["ExpressionAttributeValues"] = {":v": {"S": "x"}}
    try:
        await client.transport.send("put_item", request)
    except ClientError as error:
        return error.response["Error"]["Code"], error.response["Error"]["Message"]
    return "", ""


@pytest.mark.parametrize("condition", TAKEN)
async def test_what_the_front_lets_through_is_carried_out(
    client: TableClient, condition: str
) -> None:
    """The condition is true or false, not refused."""
    kind, message = await refusal(client, condition)
    assert kind in ("", "ConditionalCheckFailedException"), message


@pytest.mark.parametrize(("condition", "fault"), REFUSED)
async def test_what_the_front_refuses_is_refused(
    client: TableClient, condition: str, fault: str
) -> None:
    """In the same words, but for parentheses so many that their kind of error does not matter."""
    kind, message = await refusal(client, condition)
    assert kind == "ValidationException"
    assert fault in message or fault.startswith("Syntax error")
