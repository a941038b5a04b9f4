"""DynamoDB Streams of the local tables: what each region applied, in order, one shard a table.

The newest `RECORDS_MAX` records of a table in a region are kept, in memory: after a start, or once
a region was filled again, the stream is another one. Engines do not report the old image of an
item: a record has it if the record that brought it is still kept.
"""

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from ledger.local.engines.port import ApiError, Image, ItemChange, invalid
from ledger.local.front.catalog import Catalog, CatalogTable, table_name

OPERATIONS = frozenset({"DescribeStream", "GetRecords", "GetShardIterator", "ListStreams"})
RECORDS_MAX = 100_000
"""The most records of a table in a region; older ones are dropped."""
PAGE_MAX = 1_000
SHARD = "shardId-00000000000000000000-00000000"
_DIGITS = 21


@dataclass(frozen=True, slots=True)
class _Record:
    number: int
    at: float
    change: ItemChange
    is_new: bool
    before: Image | None = None


@dataclass(slots=True)
class _Log:
    """The records of one table in one region; `next` is the next free number."""

    label: str
    records: deque[_Record] = field(default_factory=deque)
    next: int = 1
    images: dict[str, Image] = field(default_factory=dict)
    """The newest image of each item, by its key, while its record is kept."""

    def add(self, change: ItemChange, *, is_new: bool) -> None:
        name, image = _name(change), change.image
        before = self.images.pop(name, None)
        record = _Record(self.next, time.time(), change, is_new, None if is_new else before)
        self.records.append(record)
        if image is not None:
            self.images[name] = image
        self.next += 1
        if len(self.records) > RECORDS_MAX:
            dropped = self.records.popleft().change
            if dropped.image is not None and self.images.get(_name(dropped)) is dropped.image:
                del self.images[_name(dropped)]

    @property
    def first(self) -> int:
        return self.next - len(self.records)


class Streams:
    """The streams of all regions."""

    def __init__(self, tables: Catalog) -> None:
        self._tables = tables
        self._logs: dict[tuple[str, str], _Log] = {}
        self._made = 0

    def changed(self, region: str, change: ItemChange, *, is_new: bool) -> None:
        """Record what a region applied."""
        if self._tables.find(region, change.table).stream is not None:
            self._log(region, change.table).add(change, is_new=is_new)

    def label(self, table: CatalogTable) -> str:
        """Return the label of a table's latest stream, by which its ARN ends."""
        return self._log(table.region, table.name).label

    def forgot(self, region: str, table: str) -> None:
        """End the stream of a table that is gone, is filled again, or begins another stream."""
        self._logs.pop((region, table), None)

    def call(self, region: str, operation: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out one request.

        Raises:
            ApiError: the answer is this error.
        """
        match operation:
            case "ListStreams":
                return self._list(region, body)
            case "DescribeStream":
                return self._describe(region, body)
            case "GetShardIterator":
                return self._iterator(region, body)
            case _:
                return self._records(region, body)

    def _log(self, region: str, table: str) -> _Log:
        log = self._logs.get((region, table))
        if log is None:
            self._made += 1
            # In the form of a label of AWS, and later than any before it.
            now = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
            log = self._logs[region, table] = _Log(f"{now}.{self._made:03d}")
        return log

    def _list(self, region: str, body: Mapping[str, Any]) -> dict[str, Any]:
        if "TableName" not in body:
            raise invalid("ListStreams: the local global table lists only those of a TableName")
        table = self._tables.find(region, table_name(body["TableName"]))
        if table.stream is None:
            return {"Streams": []}
        label = self.label(table)
        named = {"StreamArn": f"{table.arn}/stream/{label}", "TableName": table.name}
        return {"Streams": [{**named, "StreamLabel": label}]}

    def _named(self, region: str, arn: str) -> tuple[str, _Log]:
        """Return the table and the log of a stream's ARN."""
        path, _, label = arn.partition("/stream/")
        name = table_name(path)
        log = self._logs.get((region, name))
        if log is None or log.label != label:
            raise ApiError("ResourceNotFoundException", f"Requested resource not found: {arn}")
        return name, log

    def _describe(self, region: str, body: Mapping[str, Any]) -> dict[str, Any]:
        name, log = self._named(region, body["StreamArn"])
        table = self._tables.find(region, name)
        shard = {
            "ShardId": SHARD,
            "SequenceNumberRange": {"StartingSequenceNumber": _text(1)},
        }
        keys = zip(table.key.names, ("HASH", "RANGE"), strict=False)
        return {
            "StreamDescription": {
                "StreamArn": body["StreamArn"],
                "StreamLabel": log.label,
                "StreamStatus": "ENABLED",
                "StreamViewType": table.stream,
                "TableName": name,
                "KeySchema": [{"AttributeName": one, "KeyType": role} for one, role in keys],
                "Shards": [] if body.get("ExclusiveStartShardId") == SHARD else [shard],
            }
        }

    def _iterator(self, region: str, body: Mapping[str, Any]) -> dict[str, Any]:
        _, log = self._named(region, body["StreamArn"])
        if body["ShardId"] != SHARD:
            raise ApiError(
                "ResourceNotFoundException", f"Requested resource not found: {body['ShardId']}"
            )
        match body["ShardIteratorType"]:
            case "TRIM_HORIZON":
                number = log.first
            case "LATEST":
                number = log.next
            case "AT_SEQUENCE_NUMBER":
                number = int(body["SequenceNumber"])
            case "AFTER_SEQUENCE_NUMBER":
                number = int(body["SequenceNumber"]) + 1
            case other:
                raise invalid(f"ShardIteratorType {other} is none")
        if number > log.next:
            raise invalid(f"SequenceNumber {body['SequenceNumber']} is none of shard {SHARD}")
        _check_kept(log, number)
        return {"ShardIterator": f"{body['StreamArn']}|{number}"}

    def _records(self, region: str, body: Mapping[str, Any]) -> dict[str, Any]:
        arn, _, given = body["ShardIterator"].rpartition("|")
        _, log = self._named(region, arn)
        number, most = int(given), min(int(body.get("Limit", PAGE_MAX)), PAGE_MAX)
        _check_kept(log, number)
        start = number - log.first
        found = list(islice(log.records, start, start + most))
        records = [self._shown(region, record) for record in found]
        return {"Records": records, "NextShardIterator": f"{arn}|{number + len(found)}"}

    def _shown(self, region: str, record: _Record) -> dict[str, Any]:
        change = record.change
        written = "INSERT" if record.is_new else "MODIFY"
        fields = {
            "ApproximateCreationDateTime": float(int(record.at)),
            "Keys": change.key,
            "SequenceNumber": _text(record.number),
            "SizeBytes": 0,
            "StreamViewType": "NEW_AND_OLD_IMAGES",
            **({} if record.before is None else {"OldImage": record.before}),
            **({} if change.image is None else {"NewImage": change.image}),
        }
        return {
            "eventID": f"{record.number:032x}",
            "eventName": "REMOVE" if change.image is None else written,
            "eventVersion": "1.1",
            "eventSource": "aws:dynamodb",
            "awsRegion": region,
            "dynamodb": fields,
        }


def _name(change: ItemChange) -> str:
    return repr(sorted(change.key.items()))


def _check_kept(log: _Log, number: int) -> None:
    """Refuse a place before the oldest record.

    Raises:
        ApiError: TrimmedDataAccessException.
    """
    if number < log.first:
        raise ApiError(
            "TrimmedDataAccessException",
            "The operation attempted to read past the oldest stream record in a shard",
        )


def _text(number: int) -> str:
    return f"{number:0{_DIGITS}d}"
