"""Several writes in one request: what each answer, whole or in part, says of each of them."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from ledger.core.errors import AccessDenied, RequestRefused, Throttled
from ledger.store.conditions import Absent, Equals
from ledger.store.dynamodb.client import TableClient
from ledger.store.dynamodb.clock_watch import ClockWatch
from ledger.store.dynamodb.store import DynamoStore
from ledger.store.dynamodb.throttling import HOT_KEY
from ledger.store.retrier import Retrier
from ledger.store.retry import RetryBudget
from ledger.store.writes import Applied, Put, Rejected, Unknown, Update, Write
from ledger.testing.clock import ManualClock

ITEM = {"pk": {"S": "c"}, "sk": {"S": "a"}, "v": {"N": "1"}}


class Scripted:
    """A transport that answers as it was told, and keeps what it was sent."""

    def __init__(self, *answers: Sequence[Mapping[str, Any]] | Exception) -> None:
        self.answers = list(answers)
        self.sent: list[tuple[str, Mapping[str, Any]]] = []

    async def send(self, operation: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Answer the next request."""
        self.sent.append((operation, request))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        units = [{"TableName": "t", "CapacityUnits": float(len(answer))}]
        return {"Responses": answer, "ConsumedCapacity": units}

    async def close(self) -> None:
        """Close nothing."""


def store_over(transport: Scripted, retries: list[tuple[str, str]] | None = None) -> DynamoStore:
    """Return a store whose requests the transport answers; what it repeats is added to a list."""
    told = [] if retries is None else retries
    clock = ManualClock(instant=True)
    retrier = Retrier(
        clock=clock,
        randomness=Random(1),  # noqa: S311 (waits)
        budget=RetryBudget(),
        on_retry=lambda operation, cause: told.append((operation, cause)),
    )
    watch = ClockWatch(clock)
    return DynamoStore(
        TableClient(
            transport=transport, region="eu-west-1", table="t", retrier=retrier, watch=watch
        )
    )


def puts(count: int) -> list[Write]:
    """Return puts of different items."""
    return [Put({**ITEM, "sk": {"S": str(place)}}, Absent()) for place in range(count)]


def error(code: str, **more: object) -> dict[str, Any]:
    """Return the answer of a statement that failed."""
    return {"Error": {"Code": code, "Message": "as AWS says it", **more}}


async def test_each_answer_is_its_own() -> None:
    """Each statement of a batch has its outcome, and the item where AWS hands it back."""
    transport = Scripted(
        [
            {"TableName": "t"},
            error("DuplicateItem"),
            error("ConditionalCheckFailed", Item=ITEM),
            error("ConditionalCheckFailed"),
            error("InternalServerError"),
        ]
    )
    answer = await store_over(transport).write_each(puts(5))
    assert answer.outcomes[:4] == (
        Applied(),
        Rejected(found={}),
        Rejected(found={0: ITEM}),
        Rejected(found={0: None}),
    )
    assert isinstance(answer.outcomes[4], Unknown)
    assert answer.write_units == 5
    assert len(transport.sent) == 1


async def test_what_is_denied_as_statements_goes_by_itself() -> None:
    """Under a policy without PartiQL each write takes a request, and hands back what it found."""
    refused = ClientError(
        {"Error": {"Code": "ConditionalCheckFailedException", "Message": ""}, "Item": ITEM},  # type: ignore[typeddict-unknown-key]
        "PutItem",
    )
    transport = Scripted([{}, error("AccessDenied"), error("AccessDenied")], [], refused)
    answer = await store_over(transport).write_each(puts(3))
    assert answer.outcomes == (Applied(), Applied(), Rejected(found={0: ITEM}))
    assert [name for name, _ in transport.sent[1:]] == ["put_item", "put_item"]


def inserts(count: int) -> list[Write]:
    """Return puts of different items that are to be sent as statements."""
    return [
        Put({**ITEM, "sk": {"S": str(place)}}, Absent(), as_statement=True)
        for place in range(count)
    ]


async def test_a_put_as_a_statement_goes_in_no_other_way() -> None:
    """What is denied stays denied; of a request refused as a whole each goes as a statement."""
    transport = Scripted([{}, error("AccessDenied")])
    answer = await store_over(transport).write_each(inserts(2))
    assert [type(outcome) for outcome in answer.outcomes] == [Applied, AccessDenied]
    wrong = {"Error": {"Code": "ValidationException", "Message": "a number of 39 digits"}}
    refused = ClientError(wrong, "BatchExecuteStatement")  # type: ignore[arg-type]
    several = Scripted(refused, [{}], refused, [error("DuplicateItem")])
    answer = await store_over(several).write_each(inserts(3))
    assert [type(outcome) for outcome in answer.outcomes] == [Applied, RequestRefused, Rejected]
    assert {name for name, _ in (*transport.sent, *several.sent)} == {"batch_execute_statement"}
    assert answer.write_units == 1 + 1


async def test_a_lone_put_as_a_statement_is_one() -> None:
    """It takes no PutItem; what is denied is raised, and what is in its way is not told."""
    [insert] = inserts(1)
    transport = Scripted([{}], [error("DuplicateItem")], [error("AccessDenied")])
    store = store_over(transport)
    assert await store.write(insert) == Applied()
    assert await store.write(insert) == Rejected(found={0: None})
    with pytest.raises(AccessDenied):
        await store.write(insert)
    assert {name for name, _ in transport.sent} == {"batch_execute_statement"}


@pytest.mark.parametrize("name", ["it's", 'a "b"'])
async def test_a_put_that_no_statement_can_say_is_refused(name: str) -> None:
    """Nothing is sent, alone, among several or together: a name with quotes is no parameter."""
    odd = Put({**ITEM, "sk": {"S": "odd"}, name: {"S": "x"}}, Absent(), as_statement=True)
    transport = Scripted([{}])
    store = store_over(transport)
    answer = await store.write_each([odd, *inserts(1)])
    assert [type(outcome) for outcome in answer.outcomes] == [RequestRefused, Applied]
    with pytest.raises(RequestRefused, match="no INSERT has the effect of"):
        await store.transact([odd])
    assert len(transport.sent) == 1


async def test_credentials_without_any_right_are_asked_for_one_write_alone() -> None:
    """Where the item operation is denied as well, each write has that error after two requests."""
    denied = ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "PutItem")
    transport = Scripted(denied, denied)
    answer = await store_over(transport).write_each(puts(25))
    assert {type(outcome) for outcome in answer.outcomes} == {AccessDenied}
    assert len(transport.sent) == 2


async def test_one_write_that_is_wrong_stops_no_other() -> None:
    """Where the whole request is refused each write goes by itself, and has its own answer."""
    wrong = {"Error": {"Code": "ValidationException", "Message": "a number of 39 digits"}}
    refused = ClientError(wrong, "BatchExecuteStatement")  # type: ignore[arg-type]
    transport = Scripted(refused, [], ClientError(wrong, "PutItem"), [])  # type: ignore[arg-type]
    answer = await store_over(transport).write_each(puts(3))
    assert [type(outcome) for outcome in answer.outcomes] == [Applied, RequestRefused, Applied]


async def test_what_was_throttled_is_sent_again_alone() -> None:
    """Statements that were throttled or in conflict go again; settled ones do not."""
    transport = Scripted(
        [{}, error("ThrottlingError"), error("TransactionConflict"), error("DuplicateItem")],
        [{}, error("DuplicateItem")],
    )
    answer = await store_over(transport).write_each(puts(4))
    assert answer.outcomes == (Applied(), Applied(), Rejected(found={}), Rejected(found={}))
    again = transport.sent[1][1]["Statements"]
    assert [one["Parameters"][1]["S"] for one in again] == ["1", "2"]


async def test_what_stays_throttled_is_not_written() -> None:
    """After every try what is still throttled has an error, and the rest its outcome."""
    retries: list[tuple[str, str]] = []
    transport = Scripted([{}, error("ThrottlingError")], *[[error("ThrottlingError")]] * 20)
    answer = await store_over(transport, retries).write_each(puts(2))
    assert answer.outcomes[0] == Applied()
    late = answer.outcomes[1]
    assert isinstance(late, Throttled)
    assert (late.counters, late.requests) == (("c",), 4)
    assert "still throttled, or in conflict, after every try (ThrottlingError) at 'c'" in str(late)
    assert retries == [("batch_execute_statement", "throttled")] * 3


async def test_a_hot_key_of_a_statement_names_its_counter() -> None:
    """What an update or a put of several met is told by the reason in its message."""
    hot = error("ThrottlingError")
    hot["Error"]["Message"] = "slow down: TableWriteKeyRangeThroughputExceeded"
    retries: list[tuple[str, str]] = []
    transport = Scripted([{}, hot, hot], *[[hot, hot]] * 20)
    same = Equals("v?", {"N": "1"})
    update = Update(("d", "1"), set={"what?": {"N": "2"}}, condition=same)
    answer = await store_over(transport, retries).write_each([*puts(2), update])
    for outcome, counter in zip(answer.outcomes[1:], "cd", strict=True):
        assert isinstance(outcome, Throttled)
        assert (outcome.limits, outcome.counters) == ((HOT_KEY,), (counter,))
        assert f"at '{counter}': one partition key takes at most" in str(outcome)
    assert {cause for _, cause in retries} == {"hot_key"}


async def test_a_whole_batch_of_statements_names_its_counters() -> None:
    """Where DynamoDB throttles the request, the hot key is one of those in it."""
    response: Any = {
        "Error": {"Code": "ThrottlingException", "Message": "slow down"},
        "throttlingReasons": [{"reason": "TableWriteKeyRangeThroughputExceeded"}],
    }
    transport = Scripted(*[ClientError(response, "BatchExecuteStatement")] * 20)
    answer = await store_over(transport).write_each(puts(2))
    assert [outcome.counters for outcome in answer.outcomes if isinstance(outcome, Throttled)] == [
        ("c",),
        ("c",),
    ]


async def test_no_answer_leaves_each_unknown() -> None:
    """Without an answer all that was sent may have been written; what was settled stays so."""
    lost = ReadTimeoutError(endpoint_url="there")
    transport = Scripted([{}, error("ThrottlingError")], lost)
    answer = await store_over(transport).write_each(puts(2))
    assert answer.outcomes[0] == Applied()
    assert isinstance(answer.outcomes[1], Unknown)


async def test_an_update_may_only_change_an_item_that_is_there() -> None:
    """An update that could make its item, and one that adds, go by requests of their own."""
    transport = Scripted([{}, {}], [{}, {}], [{}, {}])
    same = Equals("v", {"N": "1"})
    await store_over(transport).write_each(
        [
            Update(("c", "1"), set={"v": {"N": "2"}}, condition=same),
            Update(("c", "2"), set={"v": {"N": "2"}}, condition=same),
            Update(("c", "3"), set={"v": {"N": "2"}}),
            Update(("c", "4"), add={"v": {"N": "2"}}, condition=same),
        ]
    )
    operations = sorted(operation for operation, _ in transport.sent)
    assert operations == ["batch_execute_statement", "update_item", "update_item"]
