"""Events as AWS Lambda delivers them from Kinesis Data Streams and from DynamoDB Streams."""

import base64
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

EVENTS = Path(__file__).parents[1] / "unit" / "pipeline" / "events"
STREAM = "arn:aws:kinesis:us-east-1:111122223333:stream/records"
SHARD = "shardId-000000000006"
LANE = f"records/{SHARD}"
FIRST_NUMBER = 49590338271490256608559692538361571095921575989136588898
ARRIVED = 1545084650.0

Event = dict[str, Any]


def recorded(name: str) -> Event:
    """Return an event of the form that AWS documents, with values of our own."""
    event: Event = json.loads((EVENTS / f"{name}.json").read_text(encoding="utf-8"))
    return event


def number(place: int) -> str:
    """Return the sequence number of the record at a place of the shard; there are gaps between."""
    return str(FIRST_NUMBER + 1_000 * place)


def kinesis_records(
    raws: Iterable[bytes], *, stream: str = STREAM, shard: str = SHARD, first: int = 0
) -> list[Event]:
    """Return records of one shard, in order."""
    return [
        kinesis_record(raw, number(place), stream=stream, shard=shard)
        for place, raw in enumerate(raws, first)
    ]


def kinesis_record(raw: bytes, sequence: str, *, stream: str = STREAM, shard: str = SHARD) -> Event:
    """Return one record as Lambda delivers it."""
    return {
        "kinesis": {
            "kinesisSchemaVersion": "1.0",
            "partitionKey": "1",
            "sequenceNumber": sequence,
            "data": base64.b64encode(raw).decode(),
            "approximateArrivalTimestamp": ARRIVED,
        },
        "eventSource": "aws:kinesis",
        "eventVersion": "1.0",
        "eventID": f"{shard}:{sequence}",
        "eventName": "aws:kinesis:record",
        "invokeIdentityArn": "arn:aws:iam::111122223333:role/ledger-pipeline",
        "awsRegion": stream.split(":")[3],
        "eventSourceARN": stream,
    }


def event_of(records: Sequence[Event]) -> Event:
    """Return the event of some records."""
    return {"Records": list(records)}
