"""What moto gets wrong, and what no engine does by itself, shown not to reach users of ours."""

import asyncio
import re
from typing import Any

import anyio
import pytest
from botocore.exceptions import ClientError
from support.local_worlds import EAST, TABLE, WEST, World, code, item

pytestmark = pytest.mark.slow

COUNTERS = [f"counter{number}" for number in range(5)]


def add_action(pk: str, amount: int = 1) -> dict[str, Any]:
    """Give the action of a transaction that adds to an atomic counter."""
    return {
        "Update": {
            "TableName": TABLE,
            "Key": item(pk),
            "UpdateExpression": "ADD n :d",
            "ExpressionAttributeValues": {":d": {"N": str(amount)}},
        }
    }


def put_action(pk: str, sk: str = "x", **numbers: int) -> dict[str, Any]:
    """Give the action of a transaction that puts an item."""
    return {"Put": {"TableName": TABLE, "Item": item(pk, sk, **numbers)}}


async def refused(
    call: Any, kind: str = "ValidationException", match: str | None = None
) -> ClientError:
    """Check that a call is refused with this error, and give it."""
    with pytest.raises(ClientError, match=match) as caught:
        await call
    assert code(caught.value) == kind
    return caught.value


async def test_concurrent_transactions_count_exactly(world: World) -> None:
    """200 transactions at once that add 1 to each of five counters leave exactly 200 in each."""
    client = world.clients[EAST]
    calls = [
        client.transact_write_items(TransactItems=[add_action(pk) for pk in COUNTERS])
        for _ in range(200)
    ]
    await asyncio.gather(*calls)
    await world.table.wait_replicated()
    for counter in COUNTERS:
        assert await world.numbers(counter) == ["200"] * 3


async def test_transactional_reads_are_never_torn(world: World) -> None:
    """TransactGetItems during transactions shows all items of one transaction, or none."""
    client = world.clients[EAST]
    gets = [{"Get": {"TableName": TABLE, "Key": item(pk)}} for pk in COUNTERS]
    seen: set[str] = set()

    async def write() -> None:
        for value in range(30):
            actions = [put_action(pk, n=value) for pk in COUNTERS]
            await client.transact_write_items(TransactItems=actions)

    async def read() -> None:
        for _ in range(20):
            answer = await client.transact_get_items(TransactItems=gets)
            values = {str(found.get("Item", {}).get("n")) for found in answer["Responses"]}
            assert len(values) == 1, values
            seen.update(values)

    async with anyio.create_task_group() as group:
        group.start_soon(write)
        for _ in range(4):
            group.start_soon(read)
    assert len(seen) > 1, "the reads did not run beside the writes"


async def test_a_failed_transaction_changes_nothing(world: World) -> None:
    """One false condition cancels all actions, names the one that failed, and shows its item."""
    await world.put(EAST, "there", n=7)
    guarded = put_action("there", n=8)
    guarded["Put"] |= {
        "ConditionExpression": "attribute_not_exists(pk)",
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    actions = [put_action("new", n=1), guarded, add_action("there2")]
    error = await refused(
        world.clients[EAST].transact_write_items(TransactItems=actions),
        "TransactionCanceledException",
        re.escape("[None, ConditionalCheckFailed, None]"),
    )
    reasons: Any = error.response["CancellationReasons"]
    assert [reason["Code"] for reason in reasons] == ["None", "ConditionalCheckFailed", "None"]
    assert reasons[1]["Item"] == item("there", n=7)
    assert await world.get(EAST, "new") is None
    assert await world.get(EAST, "there2") is None
    assert await world.number(EAST, "there") == "7"


async def test_a_client_token_is_applied_once(world: World) -> None:
    """The same transaction again is a success without effect; another with its token an error."""
    client = world.clients[EAST]
    token = {"ClientRequestToken": "token-1"}
    for _ in range(3):
        await client.transact_write_items(TransactItems=[add_action("counter")], **token)
    assert await world.number(EAST, "counter") == "1"
    other = client.transact_write_items(TransactItems=[add_action("counter", 2)], **token)
    await refused(other, "IdempotentParameterMismatchException")
    assert await world.number(EAST, "counter") == "1"


async def test_a_cancelled_transaction_may_be_tried_again_with_its_token(world: World) -> None:
    """Only success is remembered: what was cancelled takes effect when its condition holds."""
    client = world.clients[EAST]
    action = add_action("counter")
    action["Update"]["ConditionExpression"] = "attribute_exists(pk)"
    call = {"TransactItems": [action], "ClientRequestToken": "token-2"}
    await refused(client.transact_write_items(**call), "TransactionCanceledException")
    await world.put(EAST, "counter", n=5)
    await client.transact_write_items(**call)
    assert await world.number(EAST, "counter") == "6"


async def test_a_batch_of_26_writes_is_refused(world: World) -> None:
    """A batch over 25 writes is refused whole."""
    requests = [{"PutRequest": {"Item": item("a", str(number))}} for number in range(26)]
    await refused(world.clients[EAST].batch_write_item(RequestItems={TABLE: requests}))
    assert await world.everything(EAST) == []


async def test_a_batch_that_names_an_item_twice_is_refused(world: World) -> None:
    """Put and delete of one item in one batch are refused, whatever the other attributes."""
    requests = [{"PutRequest": {"Item": item("a", n=1)}}, {"DeleteRequest": {"Key": item("a")}}]
    call = world.clients[EAST].batch_write_item(RequestItems={TABLE: requests})
    await refused(call, match="duplicates")
    assert await world.everything(EAST) == []


async def test_transactions_over_100_actions_are_refused(world: World) -> None:
    """101 actions are refused, 100 are carried out."""
    client = world.clients[EAST]
    actions = [put_action("a", f"{number:03}") for number in range(101)]
    await refused(client.transact_write_items(TransactItems=actions))
    await client.transact_write_items(TransactItems=actions[:100])
    assert len(await world.everything(EAST)) == 100


async def test_a_transaction_that_names_an_item_twice_is_refused(world: World) -> None:
    """Two actions on one item are refused."""
    call = world.clients[EAST].transact_write_items(
        TransactItems=[put_action("a"), add_action("a")]
    )
    await refused(call, match="multiple operations on one item")


async def test_numbers_of_39_digits_are_refused_everywhere(world: World) -> None:
    """Neither a put, a batch, a transaction nor the result of ADD may have 39 digits."""
    client = world.clients[EAST]
    long = {**item("a"), "n": {"N": "1" * 39}}
    await refused(client.put_item(TableName=TABLE, Item=long), match="38 significant digits")
    batch = {TABLE: [{"PutRequest": {"Item": long}}]}
    await refused(client.batch_write_item(RequestItems=batch), match="38 significant digits")
    actions = [{"Put": {"TableName": TABLE, "Item": long}}]
    await refused(client.transact_write_items(TransactItems=actions))
    await client.put_item(TableName=TABLE, Item={**item("a"), "n": {"N": "9" * 38}})
    add = client.update_item(
        TableName=TABLE,
        Key=item("a"),
        UpdateExpression="ADD n :d",
        ExpressionAttributeValues={":d": {"N": "0.5"}},
    )
    await refused(add, match="38 significant digits")
    assert await world.number(EAST, "a") == "9" * 38


@pytest.mark.parametrize(
    ("before", "add", "after"),
    [
        ("1" * 37, "0.1", "1" * 37 + ".1"),
        ("12345678901234567890123456789", "1", "12345678901234567890123456790"),
        ("0.1", "0.2", "0.3"),
        ("1E2", "1", "101"),
        ("2.50", "-2.5", "0"),
    ],
)
async def test_adding_is_exact(world: World, before: str, add: str, after: str) -> None:
    """ADD keeps all 38 digits, where moto rounds to 28, and takes every way of writing numbers."""
    client = world.clients[EAST]
    await client.put_item(TableName=TABLE, Item={**item("a"), "n": {"N": before}})
    await client.update_item(
        TableName=TABLE,
        Key=item("a"),
        UpdateExpression="ADD n :d",
        ExpressionAttributeValues={":d": {"N": add}},
    )
    assert await world.number(EAST, "a") == after


@pytest.mark.parametrize("operation", ["put_item", "update_item", "delete_item"])
async def test_a_failed_condition_returns_the_item_if_asked(world: World, operation: str) -> None:
    """ReturnValuesOnConditionCheckFailure gives the item as it is; without it nothing."""
    await world.put(EAST, "a", n=7)
    what = {"Item" if operation == "put_item" else "Key": item("a")}
    call = getattr(world.clients[EAST], operation)
    condition = {"TableName": TABLE, "ConditionExpression": "attribute_not_exists(pk)", **what}
    failed = "ConditionalCheckFailedException"
    shown = await refused(call(**condition, ReturnValuesOnConditionCheckFailure="ALL_OLD"), failed)
    assert shown.response["Item"] == item("a", n=7)  # type: ignore[typeddict-item]
    hidden = await refused(call(**condition), failed)
    assert "Item" not in hidden.response


async def test_items_over_400_kb_are_refused(world: World) -> None:
    """A put and an update that would pass 400 KB are refused, and change nothing."""
    client = world.clients[EAST]
    blob = {":b": {"S": "x" * 409_600}}
    await refused(
        client.put_item(TableName=TABLE, Item={**item("a"), "b": blob[":b"]}), match="size"
    )
    await world.put(EAST, "a", n=1)
    update = client.update_item(
        TableName=TABLE,
        Key=item("a"),
        UpdateExpression="SET b = :b",
        ExpressionAttributeValues=blob,
    )
    await refused(update, match="size")
    assert await world.get(EAST, "a") == item("a", n=1)


async def test_a_page_that_reaches_its_limit_has_a_last_key(world: World) -> None:
    """LastEvaluatedKey is there when Limit is reached exactly, and gone after it."""
    for number in range(3):
        await world.put(EAST, "a", str(number))
    query = {
        "TableName": TABLE,
        "KeyConditionExpression": "pk = :p",
        "ExpressionAttributeValues": {":p": {"S": "a"}},
        "Limit": 3,
    }
    client = world.clients[EAST]
    full = await client.query(**query)
    assert (full["Count"], full["LastEvaluatedKey"]) == (3, item("a", "2"))
    empty = await client.query(**query, ExclusiveStartKey=full["LastEvaluatedKey"])
    assert empty["Count"] == 0
    assert "LastEvaluatedKey" not in empty


async def test_pages_end_at_1_mb(world: World) -> None:
    """Query and Scan give pages of at most 1 MB, and all items over their pages."""
    client = world.clients[EAST]
    for number in range(8):
        big = {**item("a", str(number)), "b": {"S": "x" * 300_000}}
        await client.put_item(TableName=TABLE, Item=big)
    query = {
        "KeyConditionExpression": "pk = :p",
        "ExpressionAttributeValues": {":p": {"S": "a"}},
    }
    for call, request in ((client.query, query), (client.scan, {})):
        pages: list[int] = []
        start: dict[str, Any] = {}
        while True:
            page = await call(TableName=TABLE, **request, **start)
            pages.append(page["Count"])
            if "LastEvaluatedKey" not in page:
                break
            start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}
        assert pages == [3, 3, 2]


async def test_segments_of_a_scan_part_the_table(world: World) -> None:
    """A scan in four segments sees each item once, and each collection in one segment only."""
    client = world.clients[EAST]
    for collection in range(12):
        requests = [
            {"PutRequest": {"Item": item(f"c{collection}", str(number))}} for number in range(5)
        ]
        await client.batch_write_item(RequestItems={TABLE: requests})
    seen: list[tuple[str, str]] = []
    homes: dict[str, int] = {}
    for segment in range(4):
        start: dict[str, Any] = {}
        while True:
            page = await client.scan(
                TableName=TABLE, Segment=segment, TotalSegments=4, Limit=3, **start
            )
            for found in page["Items"]:
                seen.append((found["pk"]["S"], found["sk"]["S"]))
                assert homes.setdefault(found["pk"]["S"], segment) == segment
            if "LastEvaluatedKey" not in page:
                break
            start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}
    assert len(seen) == len(set(seen)) == 60
    assert len(set(homes.values())) > 1


async def units(call: Any) -> float:
    """Give the capacity units that a call says it consumed."""
    capacity = (await call)["ConsumedCapacity"]
    if isinstance(capacity, list):
        return float(sum(part["CapacityUnits"] for part in capacity))
    return float(capacity["CapacityUnits"])


async def test_capacity_follows_the_documented_rules(world: World) -> None:
    """A unit is 1 KB written or 4 KB read, half for eventual reads, double in transactions."""
    client = world.clients[EAST]
    total = {"ReturnConsumedCapacity": "TOTAL"}
    on = {"TableName": TABLE, **total}
    big = {**item("big"), "b": {"S": "x" * 5000}}
    assert await units(client.put_item(Item=item("small"), **on)) == 1
    assert await units(client.put_item(Item=big, **on)) == 5
    assert await units(client.get_item(Key=item("big"), **on)) == 1
    assert await units(client.get_item(Key=item("big"), ConsistentRead=True, **on)) == 2
    assert await units(client.get_item(Key=item("small"), **on)) == 0.5
    query = {
        "KeyConditionExpression": "pk = :p",
        "ExpressionAttributeValues": {":p": {"S": "big"}},
    }
    assert await units(client.query(**query, **on)) == 1
    assert await units(client.query(**query, ConsistentRead=True, **on)) == 2
    transaction = [
        {"Put": {"TableName": TABLE, "Item": big}},
        {
            "ConditionCheck": {
                "TableName": TABLE,
                "Key": item("small"),
                "ConditionExpression": "attribute_exists(pk)",
            }
        },
    ]
    assert await units(client.transact_write_items(TransactItems=transaction, **total)) == 12
    gets = [{"Get": {"TableName": TABLE, "Key": item("big")}}]
    assert await units(client.transact_get_items(TransactItems=gets, **total)) == 4
    batch = {TABLE: [{"PutRequest": {"Item": big}}, {"DeleteRequest": {"Key": item("small")}}]}
    assert await units(client.batch_write_item(RequestItems=batch, **total)) == 6
    assert await units(client.delete_item(Key=item("big"), **on)) == 5


async def test_what_is_too_deep_is_refused_and_ends_no_engine(world: World) -> None:
    """4,096 parentheses, of which dynoxide died, are refused, as are 33 levels of a document."""
    client = world.clients[EAST]
    deep: dict[str, Any] = {"S": "x"}
    for _ in range(32):
        deep = {"L": [deep]}
    put = {"TableName": TABLE, "Item": item("a")}
    await refused(client.put_item(**put, ConditionExpression="(" * 4096), match="Syntax error")
    await refused(
        client.put_item(**put, ConditionExpression="((attribute_exists(pk)))"),
        match="redundant parentheses",
    )
    await refused(
        client.put_item(TableName=TABLE, Item={**item("a"), "deep": deep}), match="Nesting Levels"
    )
    await client.put_item(TableName=TABLE, Item={**item("a"), "deep": deep["L"][0]})
    assert len(await world.everything(EAST)) == 1
    assert world.table.status()["restarts"] == {}


async def test_partiql_is_refused_in_one_sentence(world: World) -> None:
    """What would write past the replication is refused, not carried out unseen."""
    call = world.clients[EAST].execute_statement(Statement="SELECT * FROM ledger")
    await refused(call, match="PartiQL is not supported")


STATEMENTS = [
    """INSERT INTO "ledger" VALUE {'pk':?,'sk':?,'change':?}""",
    'UPDATE "ledger" SET "change"=? WHERE "pk"=? AND "sk"=? AND "change"=?',
]


async def test_statements_are_replicated(world: World) -> None:
    """What a batch of statements writes in one region comes to the others, and nothing else."""
    client = world.clients[EAST]
    await client.put_item(TableName=TABLE, Item=item("a", "a", change=1))
    insert, update = (text.replace('"ledger"', f'"{TABLE}"') for text in STATEMENTS)
    pk = item("a")["pk"]
    answer = await client.batch_execute_statement(
        Statements=[
            {"Statement": insert, "Parameters": [pk, {"S": "b"}, {"N": "7"}]},
            {"Statement": update, "Parameters": [{"N": "8"}, pk, {"S": "a"}, {"N": "1"}]},
            {"Statement": update, "Parameters": [{"N": "9"}, pk, {"S": "c"}, {"N": "1"}]},
            {"Statement": "DROP TABLE students", "Parameters": [pk]},
        ]
    )
    errors = [one.get("Error", {}).get("Code") for one in answer["Responses"]]
    assert errors == [None, None, "ConditionalCheckFailed", "ValidationError"]
    await world.table.wait_replicated()
    changes = {one["sk"]["S"]: one["change"]["N"] for one in await world.everything(WEST)}
    assert changes == {"a": "8", "b": "7"}


@pytest.mark.parametrize(
    "request_body",
    [
        b"",
        b"not json",
        b"[]",
        b"[" * 100_000,
        b'{"TableName": 7}',
        b'{"TableName": "ledger", "Key": "x"}',
    ],
)
async def test_malformed_requests_are_client_errors(world: World, request_body: bytes) -> None:
    """Whatever the body is, the answer is an error of the client's, with type and message."""
    import aiohttp  # noqa: PLC0415 (only here, where the SDK would refuse to send it)

    headers = {"X-Amz-Target": "DynamoDB_20120810.GetItem"}
    url = world.table.endpoints[WEST]
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, data=request_body, headers=headers) as answer,
    ):
        body = await answer.json(content_type=None)
        assert answer.status == 400
        assert body["__type"]
        assert body["message"]
