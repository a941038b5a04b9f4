"""A store on the wire: a real transport, and a server on 127.0.0.1 that answers by a script.

The server counts the requests: no transport may ever repeat one by itself.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from support.ledgers import HOME, make_settings, sample, seeded
from support.scripted import (
    Scripted,
    Step,
    close_connection,
    done,
    fault,
    half_an_answer,
    of_a_gateway,
    ok,
    page_of_a_proxy,
    reset_connection,
    scripted,
    text_as_json,
    with_checksum,
)
from support.tiers import with_slow

from ledger.core.entry import Item
from ledger.core.errors import (
    AccessDenied,
    RequestRefused,
    StoreError,
    TableMissing,
    TokenReused,
)
from ledger.runtime.metrics import Metrics
from ledger.store.conditions import Absent
from ledger.store.connections import open_store
from ledger.store.port import Store
from ledger.store.reads import Get, Query, Scan
from ledger.store.retry import Backoff
from ledger.store.writes import Delete, Put, Update
from ledger.testing.clock import ManualClock

TRANSPORTS = ("aiobotocore", "lean")
TRIES_MAX = Backoff().tries_max
THROTTLED_TRIES_MAX = Backoff().throttled_tries_max
ITEM: Item = {"pk": {"S": "c"}, "sk": {"S": "s"}, "change": {"N": "1"}}
PUTS = [Put({**ITEM, "sk": {"S": f"s{n}"}}) for n in range(6)]
EMPTY_PAGE = done()

Call = Callable[[Store], Awaitable[object]]
SINGLE: dict[str, Call] = {
    "put": lambda store: store.write(Put(ITEM, Absent())),
    "delete": lambda store: store.write(Delete(("c", "s"))),
    "update": lambda store: store.write(Update(("c", "s"), add={"n": {"N": "1"}})),
    "transaction": lambda store: store.transact(PUTS, token="t"),
}
WRITES: dict[str, Call] = {**SINGLE, "batch": lambda store: store.write_batch(PUTS)}
READS: dict[str, Call] = {
    "get": lambda store: store.get(Get(("c", "s"))),
    "get each": lambda store: store.get_each([Get(("c", "s")), Get(("c", "t"))]),
    "query": lambda store: store.query(Query("c")),
    "scan": lambda store: store.scan(Scan()),
}
OTHER_ANSWER = {
    "ConsumedCapacity": {"TableName": "other", "CapacityUnits": 1.0},
    "Attributes": {"pk": {"S": "other"}, "sk": {"S": "other"}},
    "Item": {"pk": {"S": "other"}, "sk": {"S": "other"}},
    "Items": [],
    "Count": 0,
    "UnprocessedItems": {"other": []},
    "Responses": [{"TableName": "other"}],
}
"""What a server of another table might say to any request."""
NO_ANSWER: dict[str, Step] = {
    "500": fault("InternalServerError", status=500),
    "503": fault("ServiceUnavailable", status=503),
    "500 without a body": ok(status=500),
    "502 of a proxy": page_of_a_proxy(502),
    "200 of a proxy": page_of_a_proxy(200),
    "closed": close_connection(),
    "reset": reset_connection(),
    "half": half_an_answer(),
    "damaged": with_checksum({"Items": [], "Count": 0}, off_by=1),
    "damaged error": with_checksum({"__type": "ThrottlingException"}, status=400, off_by=1),
    "no JSON": text_as_json("welcome"),
    "JSON cut short": text_as_json('{"Items": ['),
    "nothing": text_as_json(""),
    "a list": text_as_json("[]"),
    "{}": ok(),
    "{} of a gateway": of_a_gateway({}),
    "a list of a gateway": of_a_gateway([]),
    "refused by a gateway": of_a_gateway({"message": "Forbidden"}, 403),
    "a list refused": text_as_json("[]", 400),
    "403 of a proxy": page_of_a_proxy(403),
    "of another table": ok(OTHER_ANSWER),
    "of another service": ok({"Account": "1", "Arn": "a", "Status": "blocked"}),
}
SLOW_DOWN: dict[str, Step] = {
    "throughput": fault("ProvisionedThroughputExceededException"),
    "throttling": fault("ThrottlingException"),
    "limit": fault("RequestLimitExceeded"),
    "conflict": fault("TransactionConflictException"),
    "in progress": fault("TransactionInProgressException"),
    "replicated": fault("ReplicatedWriteConflictException"),
}
REFUSED: dict[str, tuple[Step, type[StoreError]]] = {
    "denied": (fault("AccessDeniedException"), AccessDenied),
    "expired": (fault("ExpiredTokenException"), AccessDenied),
    "missing": (fault("ResourceNotFoundException"), TableMissing),
    "invalid": (fault("ValidationException"), RequestRefused),
    "token": (fault("IdempotentParameterMismatchException"), TokenReused),
    "unknown": (fault("SomethingNewException"), RequestRefused),
}


@dataclass
class Wire:
    """An open store and the server that it talks to."""

    server: Scripted
    store: Store
    metrics: Metrics
    clock: ManualClock
    before: float = 0.0

    def retries(self) -> float:
        """Return how often something was tried again in this test."""
        return sample(self.metrics, "ledger_retries_total", region=HOME) - self.before


@asynccontextmanager
async def open_wire(
    transport: str = "aiobotocore", *, request_timeout: float = 30
) -> AsyncIterator[Wire]:
    """Open a store as entry points do, in an environment that asks the SDK for retries."""
    metrics, clock = Metrics(), ManualClock(instant=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_MAX_ATTEMPTS", "5")
        patch.setenv("AWS_RETRY_MODE", "standard")
        async with scripted() as server:
            settings = make_settings(
                regions={HOME: {"endpoint": server.endpoint}},
                request_timeout=request_timeout,
                transport=transport,
            )
            opening = open_store(settings, HOME, metrics=metrics, clock=clock, randomness=seeded())
            async with opening as store:
                yield Wire(server, store, metrics, clock)


def calls(cases: Mapping[str, Call], *, fast: Collection[str] = ()) -> pytest.MarkDecorator:
    """Run a test for each of these calls; where `fast` names some, the others are slow."""
    slow = [call for name, call in cases.items() if fast and name not in fast]
    return pytest.mark.parametrize("call", with_slow(cases.values(), slow=slow), ids=cases.keys())


def steps(cases: Mapping[str, Any]) -> pytest.MarkDecorator:
    """Run a test for each of these answers."""
    return pytest.mark.parametrize("step", cases.values(), ids=cases.keys())
