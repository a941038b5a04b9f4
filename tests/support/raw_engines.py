"""Engines asked by raw requests, which no SDK has checked first."""

import http.client
import json
import socket
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from ledger.local.engines import values
from ledger.local.engines.memory.engine import MemoryEngine
from ledger.local.engines.port import ApiError
from ledger.local.front.catalog import Catalog
from ledger.local.front.control_plane import ControlPlane
from ledger.local.front.dispatch import Front
from ledger.local.front.endpoints import _dump
from ledger.local.front.faults import Faults
from ledger.local.front.streams import Streams
from ledger.local.replication.regions import Regions
from ledger.local.replication.replicator import LinkDelays, Replicator

REGION = "us-east-1"
TABLE = "expressions"
KEY = {"pk": {"S": "a"}, "sk": {"S": "b"}}
CREATE = {
    "TableName": TABLE,
    "BillingMode": "PAY_PER_REQUEST",
    "KeySchema": [
        {"AttributeName": "pk", "KeyType": "HASH"},
        {"AttributeName": "sk", "KeyType": "RANGE"},
    ],
    "AttributeDefinitions": [
        {"AttributeName": "pk", "AttributeType": "S"},
        {"AttributeName": "sk", "AttributeType": "S"},
    ],
}
_HEADERS = {
    "Content-Type": "application/x-amz-json-1.0",
    "Authorization": "AWS4-HMAC-SHA256 Credential=local/20260101/local/dynamodb/aws4_request, "
    "SignedHeaders=host, Signature=0",
    "X-Amz-Date": "20260101T000000Z",
}


class Refused(Exception):
    """An error answer; `kind` is its type, `body` the rest of it."""

    def __init__(self, kind: str, body: Mapping[str, Any]) -> None:
        super().__init__(f"{kind}: {dict(body)}")
        self.kind = kind
        self.body = dict(body)


Ask = Callable[[str, Mapping[str, Any]], dict[str, Any]]
"""Asks for one operation; raises `Refused`."""


def memory_engine() -> Ask:
    """Return the memory engine behind the local table's front, in this thread, without HTTP."""
    tables, engine = Catalog([REGION]), MemoryEngine()
    replicator = Replicator([REGION], engine, tables=tables, delays=LinkDelays.seeded(0, 0, 1))
    parts, regions = (tables, engine, replicator), Regions([REGION])
    streams = Streams(tables)
    control_plane = ControlPlane(*parts, regions, streams, replica_seconds=0)
    front = Front(*parts, control_plane, Faults(seed=1), regions, streams)
    _at_once(engine.start([REGION]))

    def ask(operation: str, body: Mapping[str, Any]) -> dict[str, Any]:
        sent = json.loads(json.dumps(body))
        try:
            answer = json.loads(_dump(_at_once(front.call(REGION, operation, sent))))
            return dict(plain(answer))
        except ApiError as error:
            extra = plain(json.loads(_dump(error.extra)))
            raise Refused(error.kind, {"message": error.message, **extra}) from None

    return ask


def _at_once(work: Coroutine[Any, Any, Any]) -> Any:
    """Carry out what waits for nothing, without an event loop."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("the memory engine waited for something")


@contextmanager
def over_http(endpoint: str) -> Iterator[Ask]:
    """Ask the engine that answers at this address, over one connection."""
    address = urlsplit(endpoint)
    assert address.hostname is not None
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(operation: str, body: Mapping[str, Any]) -> dict[str, Any]:
        headers = {**_HEADERS, "X-Amz-Target": f"DynamoDB_20120810.{operation}"}
        connection.request("POST", "/", body=json.dumps(body), headers=headers)
        response = connection.getresponse()
        answer: dict[str, Any] = json.loads(response.read() or b"{}")
        if response.status == 200:
            return dict(plain(answer))
        kind = str(answer.pop("__type", "")).rpartition("#")[2]
        raise Refused(kind, plain(answer))

    try:
        yield ask
    finally:
        connection.close()


def plain(body: Any) -> Any:
    """Return an answer with sets in order and numbers in one form: equal ones compare as equal.

    DynamoDB Local does not trim the zeros of sums.
    """
    match body:
        case {"N": str() as number}:
            return {"N": values.number(number)}
        case {"SS": list() as members} | {"NS": list() as members} | {"BS": list() as members}:
            return {next(iter(body)): sorted(members)}
        case dict():
            return {name: plain(body[name]) for name in sorted(body)}
        case list():
            return [plain(content) for content in body]
        case _:
            return body
