"""Events of Kinesis Data Streams and of DynamoDB Streams, as AWS Lambda delivers them.

A lane is a shard: its name is the stream's, from the ARN, and the shard's. A position is the
sequence number, padded with zeroes to the longest that the service uses.

Kinesis names the shard in each record's `eventID`. DynamoDB Streams names it only where the event
source mapping has a tumbling window, then as `shardId` beside the records; a window's answer has to
hold its `state` as well. Without the shard there is no lane: sequence numbers of different shards
say nothing about which record came first, so what has been committed could not be determined.

A record of DynamoDB Streams is the item's new image, as JSON. An item that was deleted is not a
version of a record, so it takes nothing out of the totals: `pipeline.deletes` says whether it is
refused, and so becomes a dead letter, or ignored.

Pure: no clock, no randomness, no I/O.
"""

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from ledger.core.errors import InvalidInput, SettingsError
from ledger.pipeline.core.records import Delivery

KINESIS_DIGITS = 129
"""Digits of a sequence number, by the pattern in the API reference; some 56 are usual."""
DYNAMODB_DIGITS = 40
DELETED = (
    "the item was deleted from its table: no version of a record, and pipeline.deletes refuses"
)
AGGREGATED = "aggregated by the Kinesis Producer Library: switch its aggregation off"
_AGGREGATED_BEGINNING = b"\xf3\x89\x9a\xc2"
_WINDOW = ("window", "isFinalInvokeForWindow")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", flags=re.ASCII)

Deletes = Literal["refuse", "ignore"]
Event = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Some records of one lane, in order; `identifiers` are their sequence numbers, as they came.

    Records that are ignored are left out.
    """

    region: str
    lane: str
    deliveries: Sequence[Delivery]
    identifiers: Sequence[str]
    is_kinesis: bool = True

    def first_after(self, position: str) -> int | None:
        """Return the place of the first record after a position, if there is one."""
        places = (
            place for place, delivery in enumerate(self.deliveries) if delivery.position > position
        )
        return next(places, None)


def read_event(event: Event, *, deletes: Deletes, table: str) -> EventBatch | None:
    """Read an event; None if it brings no record, as at the end of a window.

    `table` is the ledger's own, whose stream must not be read: the pipeline writes to it.

    Raises:
        SettingsError: the mapping lacks what is needed, or reads the ledger's own table.
        InvalidInput: it is not such an event.
    """
    records = event.get("Records")
    if not isinstance(records, list):
        raise InvalidInput("the event has no Records: Kinesis or DynamoDB Streams must send it")
    if not records:
        return None
    try:
        source = records[0]["eventSource"]
        if source == "aws:kinesis":
            return _kinesis(records)
        if source == "aws:dynamodb":
            return _dynamodb(event, records, deletes, table)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"the event is not of the form that Lambda sends: {error!r}") from error
    raise InvalidInput(f"records of {source!r}: only Kinesis and DynamoDB Streams have lanes")


def response(event: Event, failed: Sequence[str] = ()) -> dict[str, Any]:
    """Return the answer to an event: from the first of these sequence numbers on it comes again."""
    failures = [{"itemIdentifier": position} for position in failed]
    window = {"state": event.get("state") or {}} if any(name in event for name in _WINDOW) else {}
    return {**window, "batchItemFailures": failures}


def _kinesis(records: Sequence[Event]) -> EventBatch:
    region, path = _place(records)
    name = path.removeprefix("stream/").partition("/consumer/")[0]
    shards = {record["eventID"].rpartition(":")[0] for record in records}
    if len(shards) != 1 or not all(shards):
        raise InvalidInput("the event's records are not of one shard")
    return EventBatch(
        region,
        f"{name}/{shards.pop()}",
        [_of_kinesis(record["kinesis"]) for record in records],
        [record["kinesis"]["sequenceNumber"] for record in records],
    )


def _of_kinesis(fields: Event) -> Delivery:
    raw = base64.b64decode(fields["data"], validate=True)
    return Delivery(
        _position(fields["sequenceNumber"], KINESIS_DIGITS),
        raw,
        _moment(fields.get("approximateArrivalTimestamp")),
        AGGREGATED if raw.startswith(_AGGREGATED_BEGINNING) else "",
    )


def delivery_of_kinesis(record: Mapping[str, Any]) -> Delivery:
    """Return a record of GetRecords, at the position that Lambda's event of it has.

    Raises:
        InvalidInput: it has an invalid sequence number.
    """
    raw = record["Data"]
    return Delivery(
        _position(record["SequenceNumber"], KINESIS_DIGITS),
        raw,
        record.get("ApproximateArrivalTimestamp"),
        AGGREGATED if raw.startswith(_AGGREGATED_BEGINNING) else "",
    )


def _dynamodb(event: Event, records: Sequence[Event], deletes: Deletes, table: str) -> EventBatch:
    region, path = _place(records)
    source, _, label = path.removeprefix("table/").partition("/stream/")
    if source == table:
        raise SettingsError(
            f"the stream is that of the ledger's own table {table}, to which the pipeline writes:"
            " records come from another table"
        )
    shard = event.get("shardId")
    if not isinstance(shard, str) or not shard:
        raise SettingsError(
            "the event does not name its shard: set TumblingWindowInSeconds of the event source"
            " mapping (900, say): only then does Lambda name it for DynamoDB Streams"
        )
    kept = [record for record in records if record["eventName"] != "REMOVE" or deletes == "refuse"]
    return EventBatch(
        region,
        f"{source}/{label}/{shard}",
        [_of_dynamodb(record) for record in kept],
        [record["dynamodb"]["SequenceNumber"] for record in kept],
        is_kinesis=False,
    )


def _of_dynamodb(record: Event) -> Delivery:
    fields = record["dynamodb"]
    position = _position(fields["SequenceNumber"], DYNAMODB_DIGITS)
    at = _moment(fields.get("ApproximateCreationDateTime"))
    if record["eventName"] == "REMOVE":
        return Delivery(position, json.dumps(fields).encode(), at, DELETED)
    if "NewImage" not in fields:
        raise SettingsError(
            "the stream has no new images: set StreamViewType of the source table to NEW_IMAGE, or"
            " NEW_AND_OLD_IMAGES"
        )
    return Delivery(position, _as_json({"M": fields["NewImage"]}).encode(), at)


def _place(records: Sequence[Event]) -> tuple[str, str]:
    """Return the region, and the stream's name within its service, from the ARN."""
    (arn,) = {record["eventSourceARN"] for record in records}
    _, _, _, region, _, path = arn.split(":", 5)
    return region, path


def _position(number: str, digits: int) -> str:
    if not (number.isascii() and number.isdigit() and len(number) <= digits):
        raise InvalidInput(f"sequence number {number[:60]!r} is not one of up to {digits} digits")
    return number.zfill(digits)


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def _as_json(value: Mapping[str, Any]) -> str:
    """Write an attribute value as JSON, a number with exactly its digits."""
    ((kind, content),) = value.items()
    match kind:
        case "M":
            return f"{{{','.join(_members(content))}}}"
        case "L":
            return f"[{','.join(map(_as_json, content))}]"
        case "N" if _NUMBER.fullmatch(content):
            return str(content)
        case "NULL":
            return "null"
    return json.dumps(content)


def _members(content: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    return (f"{json.dumps(name)}:{_as_json(value)}" for name, value in content.items())
