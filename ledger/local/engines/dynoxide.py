"""The engine over the wire: one dynoxide process per region, asked through HTTP.

dynoxide carries out every operation; here each write is framed by reads that show what it changed.
The front lets one write at a time into a region, so the frame sees no other write.

It is held to what the ledger sends (`tests/conformance`), and not to any request: requests of other
programs it may answer otherwise than DynamoDB, without an error. The memory engine is held to them.
The kinds that are known are in `tests/conformance/README.md`.
"""

import asyncio
import json
import os
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from ledger.core.errors import LocalTableError
from ledger.local.engines import guard, parallel_scan, values
from ledger.local.engines.port import (
    ApiError,
    EngineAnswer,
    Image,
    ItemChange,
    KeyToken,
    TableKey,
    invalid,
)

START_SECONDS_MAX = 10.0
STOP_SECONDS_MAX = 5.0
CALL_SECONDS_MAX = 60.0
BATCH_WRITE_MAX = 25
BATCH_GET_MAX = 100
INSTALL = "npm i --prefix .engines @dynoxide/linux-x64@1.2.1"
_IN_NODE_MODULES = Path(".engines/node_modules/@dynoxide/linux-x64/dynoxide")
_HEADERS = {
    "Content-Type": "application/x-amz-json-1.0",
    "Authorization": "AWS4-HMAC-SHA256 Credential=local/20260101/local/dynamodb/aws4_request, "
    "SignedHeaders=host, Signature=0",
    "X-Amz-Date": "20260101T000000Z",
}

Pairs = dict[tuple[str, KeyToken], Image]


def find_binary() -> Path:
    """Return where dynoxide is: LEDGER_DYNOXIDE, else PATH, else .engines below this directory.

    Raises:
        LocalTableError: it is in none of these places.
    """
    named = os.environ.get("LEDGER_DYNOXIDE")
    if named is not None:
        if os.access(named, os.X_OK):
            return Path(named)
        raise LocalTableError(f"LEDGER_DYNOXIDE must name a program, got {named!r}")
    on_path = shutil.which("dynoxide")
    if on_path:
        return Path(on_path)
    if os.access(_IN_NODE_MODULES, os.X_OK):
        return _IN_NODE_MODULES.resolve()
    raise LocalTableError(
        f"the dynoxide program was not found: run `{INSTALL}`, or name it with LEDGER_DYNOXIDE"
    )


class DynoxideEngine:
    """An engine of the local global table on the dynoxide program; see `Engine`."""

    name = "dynoxide"

    def __init__(self, *, call_seconds_max: float = CALL_SECONDS_MAX) -> None:
        self._call_seconds_max = call_seconds_max
        self._hung: set[str] = set()
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._urls: dict[str, str] = {}
        self._keys: dict[tuple[str, str], TableKey] = {}
        self._session: aiohttp.ClientSession | None = None
        self._drains: list[asyncio.Task[None]] = []

    async def start(self, regions: Sequence[str]) -> None:
        """Start a process per region.

        Raises:
            LocalTableError: the program is missing, or does not start.
        """
        binary = find_binary()
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=self._call_seconds_max),
            connector=aiohttp.TCPConnector(limit=0),
        )
        for region in regions:
            await self._start_region(region, binary)

    async def _start_region(self, region: str, binary: Path) -> None:
        port = _free_port()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", guard.__file__, str(os.getpid())),
            *(str(binary), "serve", "--host", "127.0.0.1", "--port", str(port)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for us: we still need it while we stop
        )
        self._processes[region] = process
        try:
            async with asyncio.timeout(START_SECONDS_MAX):
                await _until_ready(process)
        except TimeoutError:
            raise LocalTableError(
                f"dynoxide for {region} did not start within {START_SECONDS_MAX:g} s"
            ) from None
        self._urls[region] = f"http://127.0.0.1:{port}"
        self._drains.append(asyncio.create_task(_drain(process)))

    async def until_gone(self, region: str) -> str:
        """Wait until a region's process has ended, and return the reason."""
        status = await self._processes[region].wait()
        if region in self._hung:
            return f"its process did not answer for {self._call_seconds_max:g} s"
        return f"its process ended with status {status}"

    async def restart(self, region: str) -> None:
        """Start a region's process again, without tables; end the one that may be left.

        Raises:
            LocalTableError: it does not start.
        """
        self._end(region)
        await self._processes[region].wait()
        self._hung.discard(region)
        await self._start_region(region, find_binary())

    def _end(self, region: str) -> None:
        process = self._processes[region]
        if process.returncode is None:
            process.kill()  # its tables are in memory: there is nothing to save

    def url(self, region: str) -> str:
        """Return where a region's process itself answers, with no front before it."""
        return self._urls[region]

    async def close(self) -> None:
        """Stop the processes and wait for them."""
        if self._session is not None:
            await self._session.close()
        for region in self._processes:
            self._end(region)
        for process in self._processes.values():
            async with asyncio.timeout(STOP_SECONDS_MAX):
                await process.wait()
        await asyncio.gather(*self._drains)
        self._processes.clear()
        self._drains.clear()

    async def create(self, region: str, table: str, key: TableKey) -> None:
        """Make an empty table."""
        self._keys[region, table] = key
        roles = ("HASH", "RANGE")
        await self._ask(
            region,
            "CreateTable",
            {
                "TableName": table,
                "BillingMode": "PAY_PER_REQUEST",
                "KeySchema": [
                    {"AttributeName": name, "KeyType": role}
                    for name, role in zip(key.names, roles, strict=False)
                ],
                "AttributeDefinitions": [
                    {"AttributeName": name, "AttributeType": kind}
                    for name, kind in zip(key.names, key.kinds, strict=True)
                ],
            },
        )

    async def drop(self, region: str, table: str) -> None:
        """Remove a table with its items."""
        await self._ask(region, "DeleteTable", {"TableName": table})

    async def count(self, region: str, table: str) -> int:
        """Return how many items dynoxide says that the table holds."""
        described = await self._ask(region, "DescribeTable", {"TableName": table})
        return int(described["Table"]["ItemCount"])

    async def call(self, region: str, operation: str, body: dict[str, Any]) -> EngineAnswer:
        """Carry out one item operation and find out what it changed.

        Raises:
            ApiError: refused; nothing was changed.
        """
        match operation:
            case "PutItem" | "DeleteItem":
                return await self._single(region, operation, body)
            case "UpdateItem" | "BatchWriteItem" | "TransactWriteItems":
                return await self._framed(region, operation, body)
            case "Scan" if parallel_scan.is_parallel(body):
                name = self._keys[region, body["TableName"]].names[0]
                answer = await self._ask(region, operation, parallel_scan.whole(body, name))
                return EngineAnswer(parallel_scan.part(answer, body, name))
            case _:
                return EngineAnswer(await self._ask(region, operation, body))

    async def _single(self, region: str, operation: str, body: dict[str, Any]) -> EngineAnswer:
        """Put or delete: the old item comes with the answer, so one request is enough."""
        if body.get("ReturnValues", "NONE") not in ("NONE", "ALL_OLD"):
            return EngineAnswer(await self._ask(region, operation, body))  # dynoxide refuses it
        answer = await self._ask(region, operation, {**body, "ReturnValues": "ALL_OLD"})
        old = answer.get("Attributes")
        if body.get("ReturnValues", "NONE") == "NONE":
            answer.pop("Attributes", None)
        table = body["TableName"]
        image = body.get("Item")
        changes: tuple[ItemChange, ...] = ()
        if _differ(old, image):
            key = self._key(region, table, image if image is not None else body["Key"])
            changes = (ItemChange(table, key, image),)
        return EngineAnswer(answer, changes)

    async def _framed(self, region: str, operation: str, body: dict[str, Any]) -> EngineAnswer:
        written = self._written(region, operation, body)
        before = await self._read(region, written)
        answer = await self._ask(region, operation, body)
        after = await self._read(region, written)
        changes = tuple(
            ItemChange(table, key, after.get((table, token)))
            for (table, token), key in written.items()
            if _differ(before.get((table, token)), after.get((table, token)))
        )
        return EngineAnswer(answer, changes)

    def _written(self, region: str, operation: str, body: Mapping[str, Any]) -> Pairs:
        """Return the keys of every item that the request writes."""
        match operation:
            case "UpdateItem":
                pairs = [(body["TableName"], body["Key"])]
            case "BatchWriteItem":
                pairs = [
                    (table, part.get("Item") or part["Key"])
                    for table, requests in body["RequestItems"].items()
                    for request in requests
                    for part in request.values()
                ]
            case _:
                pairs = [
                    (part["TableName"], part.get("Item") or part["Key"])
                    for action in body["TransactItems"]
                    for kind, part in action.items()
                    if kind != "ConditionCheck"
                ]
        return {
            (table, self._token(region, table, item)): self._key(region, table, item)
            for table, item in pairs
        }

    def _key(self, region: str, table: str, item: Mapping[str, Any]) -> Image:
        """Return the key of an item, its numbers in one form."""
        try:
            key = self._keys[region, table].of(item)
        except KeyError:
            raise invalid("The provided key element does not match the schema") from None
        return {
            name: {"N": values.number(value["N"])} if "N" in value else value
            for name, value in key.items()
        }

    def _token(self, region: str, table: str, item: Mapping[str, Any]) -> KeyToken:
        return self._keys[region, table].token(self._key(region, table, item))

    async def _read(self, region: str, wanted: Pairs) -> Pairs:
        found: Pairs = {}
        places = list(wanted.items())
        for start in range(0, len(places), BATCH_GET_MAX):
            requests: dict[str, Any] = {}
            for (table, _), key in places[start : start + BATCH_GET_MAX]:
                requests.setdefault(table, {"ConsistentRead": True, "Keys": []})["Keys"].append(key)
            while requests:
                answer = await self._ask(region, "BatchGetItem", {"RequestItems": requests})
                for table, items in answer["Responses"].items():
                    found.update(
                        {(table, self._token(region, table, item)): item for item in items}
                    )
                requests = answer.get("UnprocessedKeys") or {}
        return found

    async def apply(self, region: str, changes: Sequence[ItemChange]) -> None:
        """Write replicated images as they are."""
        for start in range(0, len(changes), BATCH_WRITE_MAX):
            requests: dict[str, Any] = {}
            for change in changes[start : start + BATCH_WRITE_MAX]:
                requests.setdefault(change.table, []).append(
                    {"DeleteRequest": {"Key": change.key}}
                    if change.image is None
                    else {"PutRequest": {"Item": change.image}}
                )
            while requests:
                answer = await self._ask(region, "BatchWriteItem", {"RequestItems": requests})
                requests = answer.get("UnprocessedItems") or {}

    def held(self, wire: Image) -> Image:
        """Return an item unchanged: dynoxide accepts the wire format."""
        return wire

    async def dump(self, region: str, table: str) -> Sequence[ItemChange]:
        """Return every item of a table."""
        changes: list[ItemChange] = []
        request: dict[str, Any] = {"TableName": table, "ConsistentRead": True}
        while True:
            page = await self._ask(region, "Scan", request)
            changes += [
                ItemChange(table, self._key(region, table, item), item) for item in page["Items"]
            ]
            if "LastEvaluatedKey" not in page:
                return changes
            request["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    async def _ask(self, region: str, operation: str, body: Mapping[str, Any]) -> dict[str, Any]:
        assert self._session is not None, "start() comes before any request"  # noqa: S101 (narrowing)
        headers = {**_HEADERS, "X-Amz-Target": f"DynamoDB_20120810.{operation}"}
        try:
            async with self._session.post(
                self._urls[region], data=json.dumps(body), headers=headers
            ) as response:
                answer: dict[str, Any] = json.loads(await response.read() or b"{}")
                status = response.status
        except TimeoutError:
            # What it did is unknown for good, so that it cannot be replicated: it starts again.
            self._hung.add(region)
            self._end(region)
            raise ApiError(
                "InternalServerError", f"dynoxide for {region} did not answer", status=500
            ) from None
        except aiohttp.ClientError as error:
            raise ApiError(
                "InternalServerError", f"dynoxide for {region}: {error}", status=500
            ) from None
        if status == 200:  # noqa: PLR2004 (HTTP's own)
            return answer
        kind = str(answer.pop("__type", "InternalServerError")).rpartition("#")[2]
        message = str(answer.pop("message", answer.pop("Message", "")))
        raise ApiError(kind, message, status=status, extra=answer)


def _differ(before: Image | None, after: Image | None) -> bool:
    if before is None or after is None:
        return before is not after
    return values.item(before) != values.item(after)


def _free_port() -> int:
    # dynoxide takes port 0 but does not say which port it got. If another program takes this
    # one in between, dynoxide ends at once with an error.
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def _until_ready(process: asyncio.subprocess.Process) -> None:
    assert process.stderr is not None, "opened as a pipe above"  # noqa: S101 (narrowing)
    said: list[str] = []
    async for line in process.stderr:
        said.append(line.decode(errors="replace").strip())
        if "listening on" in said[-1]:
            return
    raise LocalTableError(f"dynoxide ended at once: {' '.join(said)[:200] or 'it wrote nothing'}")


async def _drain(process: asyncio.subprocess.Process) -> None:
    """Read what it writes, so that a full pipe never stops it."""
    assert process.stderr is not None, "opened as a pipe above"  # noqa: S101 (narrowing)
    async for _ in process.stderr:
        pass


@asynccontextmanager
async def lone_table(region: str, table: str) -> AsyncIterator[str]:
    """Run dynoxide with one empty table, nothing before it; gives its address."""
    engine = DynoxideEngine()
    try:
        await engine.start([region])
        await engine.create(region, table, TableKey(("pk", "sk"), ("S", "S")))
        yield engine.url(region)
    finally:
        await engine.close()
