import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from support.pipelines import message, pipeline_settings
from support.stream_events import event_of, kinesis_records, recorded

from ledger.core.errors import InvalidInput, SettingsError
from ledger.pipeline.aws.stream_events import (
    AGGREGATED,
    DELETED,
    DYNAMODB_DIGITS,
    KINESIS_DIGITS,
    Deletes,
    EventBatch,
    read_event,
    response,
)
from ledger.pipeline.core.records import Poison, Record, RecordForm

FORM = RecordForm(pipeline_settings())


def read(
    event: dict[str, Any], *, deletes: Deletes = "refuse", table: str = "ledger"
) -> EventBatch:
    """Return the batch of an event that brings one."""
    batch = read_event(event, deletes=deletes, table=table)
    assert batch is not None
    return batch


def test_a_kinesis_event_is_a_batch_of_its_shard() -> None:
    """Lane, positions, arrival and records are those of the shard, in its order."""
    batch = read(recorded("kinesis"))
    assert (batch.region, batch.lane) == ("us-east-1", "records/shardId-000000000006")
    first, second = batch.deliveries
    assert first.position.lstrip("0") == batch.identifiers[0]
    assert len(first.position) == len(second.position) == KINESIS_DIGITS
    assert first.position < second.position
    assert first.at == datetime(2018, 12, 17, 22, 10, 50, 987000, UTC)
    taken = [FORM.take(delivery) for delivery in batch.deliveries]
    assert [record.value for record in taken if isinstance(record, Record)] == [
        Decimal(10),
        Decimal("12.5"),
    ]


def test_a_window_or_a_consumer_of_its_own_makes_no_other_lane() -> None:
    """However a shard is read, it is the same lane with the same positions."""
    event = recorded("kinesis")
    for record in event["Records"]:
        record["eventSourceARN"] += "/consumer/ledger:1545084000"
    assert read(event) == read(recorded("kinesis_window")) == read(recorded("kinesis"))


def test_positions_of_any_length_keep_their_order() -> None:
    """A sequence number with more digits comes later, and none is cut."""
    numbers = ["9", "10", "9" * 56, "1" + "0" * 56, "9" * KINESIS_DIGITS]
    records = kinesis_records([b"{}"] * len(numbers))
    for record, number in zip(records, numbers, strict=True):
        record["kinesis"]["sequenceNumber"] = number
    positions = [delivery.position for delivery in read(event_of(records)).deliveries]
    assert positions == sorted(positions)
    assert len(set(positions)) == len(numbers)


def test_a_table_event_is_a_batch_of_new_images() -> None:
    """Each new image is a record, a number with its very digits; lanes tell table and shard."""
    batch = read(recorded("dynamodb_window"))
    assert batch.region == "us-east-1"
    assert batch.lane == ("records/2026-11-21T06:30:00.525/shardId-00000001763707000000-1a2b3c4d")
    assert {len(delivery.position) for delivery in batch.deliveries} == {DYNAMODB_DIGITS}
    assert b'"Value":12.50' in batch.deliveries[1].raw
    taken = FORM.take(batch.deliveries[1])
    assert isinstance(taken, Record)
    assert (taken.id, taken.version, taken.value) == ("T1", 2, Decimal("12.5"))
    assert taken.categories == ("desk/EMEA/A", "risk/Delta")


def test_a_delete_is_refused_or_ignored() -> None:
    """By default a deleted item is a dead letter with what it was; ignored, it is not there."""
    refused = read(recorded("dynamodb_window")).deliveries[-1]
    assert FORM.take(refused) == Poison(DELETED)
    assert json.loads(refused.raw)["OldImage"]["TradeID"] == {"S": "T1"}
    ignored = read(recorded("dynamodb_window"), deletes="ignore")
    assert len(ignored.deliveries) == len(ignored.identifiers) == 2


def test_a_table_event_without_a_shard_says_what_to_set() -> None:
    """Positions of unknown shards would mix: the mapping's missing setting is named."""
    with pytest.raises(SettingsError, match="TumblingWindowInSeconds"):
        read(recorded("dynamodb"))


def test_a_table_without_new_images_says_what_to_set() -> None:
    """A stream of keys alone is a mistake of the set-up, not a dead letter each."""
    event = recorded("dynamodb_window")
    del event["Records"][0]["dynamodb"]["NewImage"]
    with pytest.raises(SettingsError, match="StreamViewType"):
        read(event)


def test_the_ledgers_own_table_is_no_source() -> None:
    """The pipeline writes to its own table, so what it reads there would never end."""
    with pytest.raises(SettingsError, match="own table"):
        read(recorded("dynamodb_window"), table="records")


def test_images_become_json_of_the_same_meaning() -> None:
    """Every kind of attribute has its JSON; a number that JSON cannot write stays a text."""
    event = recorded("dynamodb_window")
    event["Records"] = event["Records"][:1]
    event["Records"][0]["dynamodb"]["NewImage"] = {
        "text": {"S": 'a "b" ü'},
        "numbers": {"L": [{"N": "-0.10"}, {"N": "1E+2"}, {"N": "007"}]},
        "none": {"NULL": True},
        "flag": {"BOOL": False},
        "set": {"SS": ["x", "y"]},
        "bytes": {"B": "AAE="},
        "empty": {"M": {}},
    }
    (delivery,) = read(event).deliveries
    assert json.loads(delivery.raw, parse_float=Decimal) == {
        "text": 'a "b" ü',
        "numbers": [Decimal("-0.10"), Decimal(100), "007"],
        "none": None,
        "flag": False,
        "set": ["x", "y"],
        "bytes": "AAE=",
        "empty": {},
    }


def test_aggregated_records_are_refused_by_name() -> None:
    """What the producer library packs together is several records under one position."""
    event = event_of(kinesis_records([b"\xf3\x89\x9a\xc2\x0a\x01", message("T1", 1, 1)]))
    packed, plain = read(event).deliveries
    assert FORM.take(packed) == Poison(AGGREGATED)
    assert isinstance(FORM.take(plain), Record)


@pytest.mark.parametrize("name", ["kinesis", "dynamodb"])
def test_an_event_without_records_brings_nothing(name: str) -> None:
    """The end of a window, or an event emptied by filters, is answered at once."""
    event = recorded("dynamodb_window_end") if name == "dynamodb" else event_of([])
    assert read_event(event, deletes="refuse", table="ledger") is None


def broken(place: tuple[Any, ...], value: object) -> dict[str, Any]:
    """Return a Kinesis event with one thing in it changed."""
    event = recorded("kinesis")
    *way, last = place
    found: Any = event
    for step in way:
        found = found[step]
    found[last] = value
    return event


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"Records": "none"},
        {"Records": [{}]},
        broken(("Records", 0, "eventSource"), "aws:sqs"),
        broken(("Records", 0, "eventID"), "shardId-000000000007:1"),
        broken(("Records", 1, "eventSourceARN"), "arn:aws:kinesis:eu-west-1:1:stream/other"),
        broken(("Records", 0, "kinesis", "data"), "no base64!"),
        broken(("Records", 0, "kinesis", "sequenceNumber"), "1e5"),
        broken(("Records", 0, "kinesis", "sequenceNumber"), "1" * (KINESIS_DIGITS + 1)),
        broken(("Records", 0, "kinesis", "sequenceNumber"), None),
    ],
)
def test_anything_else_is_refused(event: dict[str, Any]) -> None:
    """What Lambda never sends is an error, never a lane by accident."""
    with pytest.raises(InvalidInput):
        read(event)


def test_the_answer_names_what_comes_again() -> None:
    """Without a window there are failures alone; with one its state is handed on as well."""
    assert response(recorded("kinesis")) == {"batchItemFailures": []}
    assert response(recorded("kinesis"), ["7"]) == {"batchItemFailures": [{"itemIdentifier": "7"}]}
    assert response(recorded("kinesis_window"), ["7"]) == {
        "state": {"seen": 2},
        "batchItemFailures": [{"itemIdentifier": "7"}],
    }
    assert response(recorded("dynamodb_window")) == {"state": {}, "batchItemFailures": []}
    assert response(recorded("dynamodb_window_end")) == {
        "state": {"seen": 2},
        "batchItemFailures": [],
    }
