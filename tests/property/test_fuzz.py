"""Items as foreign writers and accidents leave them: a clear error, or exactly what they say.

A damaged item names itself and its counter in a `DamagedItem`, or counts as a foreign entry where
the design says so. Net changes: `test_fuzz_nets.py`.
"""

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import anyio
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st
from support.damage import (
    COUNTER,
    assert_named,
    attribute_values,
    damaged,
    mutated,
    number_in,
    odd_numbers,
    short_texts,
)
from support.ledgers import make_settings, seeded
from support.strategies import entry_ids, money

from compactor.discovery.scan import Finder, load_cursor
from compactor.pass_terms import rules_of
from ledger.core import amounts, ids, keys
from ledger.core.capacity import item_size
from ledger.core.entry import Item, entry_item, entry_of
from ledger.core.errors import AmountOverflow, DamagedItem, StoreError
from ledger.core.fold import collect
from ledger.core.ids import EntryId
from ledger.core.values import Entry
from ledger.primitives.leases.lease_rules import LeaseRecord, record_item, record_of
from ledger.store.dynamodb.client import TableClient
from ledger.store.dynamodb.clock_watch import ClockWatch
from ledger.store.dynamodb.store import DynamoStore
from ledger.store.memory import MemoryStore
from ledger.store.reads import Query
from ledger.store.retrier import Retrier
from ledger.store.retry import Backoff, RetryBudget
from ledger.store.transports.sdk import SdkTransport
from ledger.store.writes import Applied, Outcome, Put, Rejected, Unknown
from ledger.testing.clock import START, ManualClock
from ledger.writes.imports.batches import NUMBER_DIGITS, batch_number

COUNTED_KEYS = st.one_of(
    short_texts().filter(lambda key: key != "" and not key.startswith(keys.NET_PREFIX)),
    entry_ids().map(str),
)


# Items of foreign writers.


LEGAL_CHANGES = st.fixed_dictionaries({"N": money().map(amounts.to_text)})
CHANGES = st.one_of(
    LEGAL_CHANGES, LEGAL_CHANGES, LEGAL_CHANGES, st.none(), attribute_values(), odd_numbers()
)
ATTRIBUTES = st.dictionaries(
    st.one_of(st.sampled_from(["note", "region", "effective"]), short_texts()),
    attribute_values(),
    max_size=2,
)


def _foreign_item(
    sort_key: str, attributes: Mapping[str, Any], change: Mapping[str, Any] | None
) -> dict[str, Any]:
    item = {**attributes, "pk": {"S": COUNTER}, "sk": {"S": sort_key}}
    item.pop("change", None)
    return item if change is None else {**item, "change": change}


def foreign_items() -> st.SearchStrategy[list[dict[str, Any]]]:
    """Items under any key with any attributes; some have a `change`, of any kind."""
    one = st.builds(_foreign_item, COUNTED_KEYS, ATTRIBUTES, CHANGES)
    return st.lists(one, max_size=4, unique_by=lambda item: str(item["sk"]["S"]))


@given(foreign_items())
def test_a_foreign_item_is_counted_or_named(items: list[Item]) -> None:
    """The total is the sum of every `change` there is, or one that cannot be counted is named."""
    counted = [item for item in items if "change" in item or ids.parse(item["sk"]["S"]) is not None]
    numbers = [number_in(item, "change") for item in counted]
    try:
        total = collect(items).total()
    except DamagedItem as error:
        bad = [item for item, number in zip(counted, numbers, strict=True) if number is None]
        assert_named(error, bad[0])
    except AmountOverflow:
        assert None not in numbers
    else:
        assert Fraction(total) == sum(filter(None, numbers), Fraction(0))
        assert None not in numbers


@given(foreign_items())
def test_a_foreign_item_is_an_entry_of_the_history_or_named(items: list[Item]) -> None:
    """Read as an entry, any item gives its own change, or an error that names it."""
    for item in items:
        try:
            entry = entry_of(item)
        except DamagedItem as error:
            assert_named(error, item)
        else:
            assert Fraction(entry.change) == number_in(item, "change")
            assert (entry.counter, entry.id) == (COUNTER, item["sk"]["S"])


@given(foreign_items())
def test_every_item_has_a_size(items: list[Item]) -> None:
    """The size of an item of any attributes is known, so that its cost can be told."""
    assert all(item_size(item) > 0 for item in items)


# Ids.


@given(entry_ids(), st.data())
def test_a_damaged_sort_key_is_another_id_or_none(entry: EntryId, data: st.DataObject) -> None:
    """A sort key changed anywhere is foreign, or is the id whose sort key it is, to the letter."""
    broken = data.draw(mutated(str(entry).encode())).decode(errors="replace")
    found = ids.parse(broken)
    assert found is None or str(found) == broken


# Leases, cursors and markers.

RECORD = LeaseRecord("compactor", "someone", "rvn1", 30.0, 7, "us-east-1")


@given(st.data())
def test_a_damaged_lease_is_named_or_a_lease(data: st.DataObject) -> None:
    """One attribute lost or replaced: the item is named, or it is a lease of just these values."""
    name, broken = data.draw(damaged(record_item(RECORD)))
    try:
        record = record_of(broken)
    except DamagedItem as error:
        assert_named(error, broken)
        return
    assert name in broken
    assert (record.owner, record.rvn, record.home) == tuple(
        broken[text]["S"] for text in ("owner", "rvn", "home")
    )
    assert record.rvn
    assert record.epoch == number_in(broken, "epoch")
    assert record.epoch >= 1
    assert 0 < record.lease_seconds <= 86_400


@st.composite
def cursors(draw: st.DrawFn) -> dict[str, Any]:
    """Cursors of a search as they could be and as they could not."""
    key = st.builds(lambda parts: {"L": [{"S": part} for part in parts]}, st.lists(short_texts()))
    place = st.one_of(st.just({"NULL": True}), key, attribute_values())
    segment = st.one_of(st.integers(-1, 5).map(str), short_texts())
    places = st.builds(lambda found: {"M": found}, st.dictionaries(segment, place, max_size=5))
    segments = st.builds(lambda count: {"N": str(count)}, st.integers(-1, 5))
    item: dict[str, Any] = {"pk": {"S": keys.SCAN_PARTITION}, "sk": {"S": "compactor"}}
    for name, content in (("segments", segments), ("places", places)):
        drawn = draw(st.one_of(content, content, content, attribute_values(), st.none()))
        if drawn is not None:
            item[name] = drawn
    return item


@given(cursors())
async def test_a_damaged_cursor_never_stops_the_search(item: dict[str, Any]) -> None:
    """Whatever stands for a cursor, within two runs every collection is found, and a round ends."""
    store = MemoryStore("us-east-1", page_items_max=2)
    settings_ = make_settings(settle=1_000)
    for number in range(6):
        entry = Entry(f"counter{number}", str(EntryId(1 + number, 1)), Decimal(1))
        await store.write(Put(entry_item(entry)))
    await store.write(Put(item))
    found, cursor = set(), await load_cursor(store, "compactor")
    for _run in range(2):
        finder = Finder(
            store,
            rules=rules_of(settings_),
            now=START,
            segments=4,
            pages_max=1_000,
            stop=anyio.Event(),
        )
        run = await finder.find(cursor)
        found |= set(run.due)
        cursor = run.cursor
        assert cursor.is_finished
    assert found == {f"counter{number}" for number in range(6)}


@given(st.one_of(short_texts(), st.from_regex(r"[0-9a-f]{4}#[0-9 _x]{1,10}", fullmatch=True)))
def test_a_damaged_marker_stands_for_no_batch(sort_key: str) -> None:
    """A marker's key is that of one batch, to the letter, or named as damaged."""
    marker = {"pk": {"S": keys.IMPORT_PARTITION}, "sk": {"S": sort_key}}
    try:
        number = batch_number(marker)
    except DamagedItem as error:
        assert_named(error, marker)
        return
    assert sort_key.endswith(f"#{number:0{NUMBER_DIGITS}d}")


# Answers of the store.

CODES = st.one_of(
    st.sampled_from(
        [
            "ConditionalCheckFailedException",
            "TransactionCanceledException",
            "TransactionConflictException",
            "ProvisionedThroughputExceededException",
            "ResourceNotFoundException",
            "InternalServerError",
            "ValidationException",
        ]
    ),
    short_texts(),
)
REASONS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "Code": st.one_of(
                st.sampled_from(["None", "ConditionalCheckFailed", "TransactionConflict"]),
                short_texts(),
            ),
            "Message": short_texts(),
            "Item": st.dictionaries(short_texts(), attribute_values(), max_size=2),
        },
    ),
    max_size=3,
)


def error_answers() -> st.SearchStrategy[dict[str, Any]]:
    """What botocore makes of any error answer, and of what is none."""
    return st.fixed_dictionaries(
        {},
        optional={
            "Error": st.fixed_dictionaries({}, optional={"Code": CODES, "Message": short_texts()}),
            "ResponseMetadata": st.fixed_dictionaries(
                {}, optional={"HTTPStatusCode": st.integers(100, 599)}
            ),
            "CancellationReasons": REASONS,
            "Item": st.dictionaries(short_texts(), attribute_values(), max_size=2),
        },
    )


class AnsweringClient:
    """A client whose every call ends in the same way."""

    def __init__(self, answer: Mapping[str, Any], *, is_error: bool) -> None:
        self._answer = dict(answer)
        self._is_error = is_error

    def __getattr__(self, operation: str) -> Any:
        """Return the call of any operation."""

        async def call(**_request: Any) -> Mapping[str, Any]:
            if self._is_error:
                raise ClientError(self._answer, operation)  # type: ignore[arg-type]
            return self._answer

        return call


def store_of(client: AnsweringClient) -> DynamoStore:
    """Return the store over such a client; it tries twice."""
    return DynamoStore(
        TableClient(
            transport=SdkTransport(client),
            region="us-east-1",
            table="ledger",
            retrier=Retrier(
                clock=ManualClock(instant=True),
                randomness=seeded(),
                budget=RetryBudget(),
                backoff=Backoff(tries_max=2),
            ),
            watch=ClockWatch(ManualClock()),
        )
    )


PUT = Put(entry_item(Entry(COUNTER, str(EntryId(1, 1)), Decimal(1))))


async def outcome_of(client: AnsweringClient) -> Outcome | StoreError:
    """Return how a transaction of one put ends."""
    try:
        return await store_of(client).transact([PUT])
    except StoreError as error:
        return error


@given(error_answers())
async def test_any_error_answer_is_an_outcome_or_an_error_of_ours(answer: dict[str, Any]) -> None:
    """No error answer passes for applied, and none of a server's faults for not applied."""
    outcome = await outcome_of(AnsweringClient(answer, is_error=True))
    assert not isinstance(outcome, Applied)
    failed = [
        reason
        for reason in answer.get("CancellationReasons", [])
        if reason.get("Code") == "ConditionalCheckFailed"
    ]
    code = answer.get("Error", {}).get("Code", "")
    if failed or code == "ConditionalCheckFailedException":
        assert isinstance(outcome, Rejected)
    elif code == "InternalServerError":
        assert isinstance(outcome, Unknown | StoreError)
        assert isinstance(outcome, Unknown) or _is_passing(answer)


def _is_passing(answer: Mapping[str, Any]) -> bool:
    reasons = answer.get("CancellationReasons", [])
    return any(reason.get("Code", "None") != "None" for reason in reasons)


ANSWERS = st.dictionaries(
    st.sampled_from(["Items", "LastEvaluatedKey", "ConsumedCapacity", "Count"]),
    st.one_of(
        st.dictionaries(st.sampled_from(["pk", "sk", "CapacityUnits"]), attribute_values()),
        st.lists(st.dictionaries(short_texts(), attribute_values(), max_size=2), max_size=2),
        st.floats(0, 100),
    ),
)


@given(ANSWERS)
async def test_an_answer_that_is_no_page_is_an_error_of_ours(answer: dict[str, Any]) -> None:
    """A read answered by something else than DynamoDB is a page of items or a StoreError."""
    try:
        page = await store_of(AnsweringClient(answer, is_error=False)).query(Query(COUNTER))
    except StoreError:
        return
    assert page.items == [*answer["Items"]]
    assert (page.after is None) == (not answer.get("LastEvaluatedKey"))
