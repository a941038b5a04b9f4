"""Faults that DynamoDB shows in real life, injected on request.

A fault is chosen for each request: by a function that a test hands in, or by rules with a
probability each, drawn from a seeded generator so that a run can be repeated.
"""

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ledger.local.engines.port import ApiError

SLOW_SECONDS_MAX = 1.5


class Fault(StrEnum):
    """The failure of one request.

    `error_500`: an internal error, nothing applied. `lost_answer`: applied, then the connection is
    closed without an answer. `throttle`: ProvisionedThroughputExceededException. `unprocessed`:
    half of a batch comes back as unprocessed, or of its statements as throttled. `conflict`:
    another transaction was in the way; of a batch of statements, in that of its second half.
    `hang`: nothing applied and no answer until the client gives up. `slow`: applied and answered
    up to `SLOW_SECONDS_MAX` later, whether or not the client still waits. `denied`: what a policy
    does not allow, AccessDeniedException. `gateway`: nothing applied, and another server than
    DynamoDB answers, with status 200 and `{}`.
    """

    ERROR_500 = "error_500"
    LOST_ANSWER = "lost_answer"
    THROTTLE = "throttle"
    UNPROCESSED = "unprocessed"
    CONFLICT = "conflict"
    HANG = "hang"
    SLOW = "slow"
    DENIED = "denied"
    GATEWAY = "gateway"


PASSING = tuple(kind for kind in Fault if kind not in {Fault.DENIED, Fault.GATEWAY})
"""DynamoDB's own transient faults: a policy stays as it is, and so does a gateway."""


HALF_REFUSED = {Fault.UNPROCESSED: "ThrottlingError", Fault.CONFLICT: "TransactionConflict"}
"""Codes with which the second half of a batch of statements is refused; a lone one is not."""

FaultHook = Callable[[str, str, Mapping[str, Any]], Fault | None]
"""Chooses the fault of a request from its region, operation and body."""


@dataclass(frozen=True, slots=True)
class FaultRule:
    """A fault injected into some requests: of these operations and regions, or all if empty."""

    kind: Fault
    probability: float
    operations: frozenset[str] = frozenset()
    regions: frozenset[str] = frozenset()

    def covers(self, region: str, operation: str) -> bool:
        """Return whether the rule covers such a request."""
        return (not self.regions or region in self.regions) and (
            not self.operations or operation in self.operations
        )

    def describe(self) -> dict[str, Any]:
        """Return the rule as the control port takes it."""
        return {
            "kind": self.kind,
            "probability": self.probability,
            "operations": sorted(self.operations),
            "regions": sorted(self.regions),
        }


class Faults:
    """Chooses a fault, or none, for each request."""

    def __init__(self, *, seed: int, hook: FaultHook | None = None) -> None:
        self.rules: Sequence[FaultRule] = ()
        self.injected: Counter[Fault] = Counter()
        self._hook = hook
        self._random = random.Random(seed)  # noqa: S311 (chances, not secrets)

    def choose(self, region: str, operation: str, body: Mapping[str, Any]) -> Fault | None:
        """Return the fault of this request, if any."""
        fault = self._hook(region, operation, body) if self._hook else None
        for rule in self.rules:
            if fault is None and rule.covers(region, operation):
                fault = rule.kind if self._random.random() < rule.probability else None
        if fault is not None:
            self.injected[fault] += 1
        return fault

    def slow_seconds(self) -> float:
        """Return how long a slow request waits for its turn."""
        return self._random.uniform(0.0, SLOW_SECONDS_MAX)


def refusal(fault: Fault, operation: str, body: Mapping[str, Any]) -> ApiError | None:
    """Return the error that stands for a fault which keeps the request from being carried out."""
    if fault is Fault.ERROR_500:
        return ApiError("InternalServerError", "Internal server error", status=500)
    if fault is Fault.THROTTLE:
        return ApiError(
            "ProvisionedThroughputExceededException",
            "The level of configured provisioned throughput for the table was exceeded.",
        )
    if fault is Fault.DENIED:
        who = "User: arn:aws:iam::000000000000:user/local"
        message = f"{who} is not authorized to perform: dynamodb:{operation}"
        return ApiError("AccessDeniedException", message)
    if fault is Fault.CONFLICT:
        return _conflict(operation, body)
    return None


def _conflict(operation: str, body: Mapping[str, Any]) -> ApiError | None:
    message = "Transaction is ongoing for the item"
    if operation in ("ExecuteTransaction", "TransactWriteItems", "TransactGetItems"):
        parts = body.get("TransactStatements") or body["TransactItems"]
        reasons: list[dict[str, Any]] = [{"Code": "None"} for _ in parts]
        reasons[0] = {"Code": "TransactionConflict", "Message": message}
        codes = ", ".join(reason["Code"] for reason in reasons)
        return ApiError(
            "TransactionCanceledException",
            "Transaction cancelled, please refer cancellation reasons for specific reasons "
            f"[{codes}]",
            extra={"CancellationReasons": reasons},
        )
    if operation in ("PutItem", "UpdateItem", "DeleteItem"):
        return ApiError("TransactionConflictException", message)
    return None


def halve(
    operation: str, body: Mapping[str, Any]
) -> tuple[dict[str, Any], str, dict[str, Any]] | None:
    """Split a batch: the request for its first half, and the rest by its field in the answer.

    None unless the request is a batch of two or more.
    """
    if operation not in ("BatchWriteItem", "BatchGetItem"):
        return None
    is_write = operation == "BatchWriteItem"
    flat = [
        (table, part)
        for table, content in body["RequestItems"].items()
        for part in (content if is_write else content["Keys"])
    ]
    if len(flat) < 2:  # noqa: PLR2004 (two halves)
        return None
    middle = (len(flat) + 1) // 2
    first = _requests(body, flat[:middle], is_write=is_write)
    rest = _requests(body, flat[middle:], is_write=is_write)
    field = "UnprocessedItems" if is_write else "UnprocessedKeys"
    return {**body, "RequestItems": first}, field, rest


def _requests(
    body: Mapping[str, Any], parts: Sequence[tuple[str, Any]], *, is_write: bool
) -> dict[str, Any]:
    requests: dict[str, Any] = {}
    for table, part in parts:
        if is_write:
            requests.setdefault(table, []).append(part)
        else:
            empty = {**body["RequestItems"][table], "Keys": []}
            requests.setdefault(table, empty)["Keys"].append(part)
    return requests
