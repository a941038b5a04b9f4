"""Whether Lambda hands a stream's records over as the pipeline needs them; asked of Lambda itself.

What undermines exactness is in the event source mapping, which no event shows: more than one batch
of a shard at a time, failures that are not reported, records that are filtered out, a second
mapping to the same function. So a function checks the mappings of its stream when it begins, and
now and then; if it may not, it logs that and continues, since each of them is also detected by its
effect: a gap by the lane's mark, skipped records by a dead letter.

Source: Lambda API reference, ListEventSourceMappings; Developer Guide, "Process Amazon Kinesis Data
Streams records with Lambda" (without ReportBatchItemFailures the answer is not looked at).
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

from ledger.core.errors import SettingsError
from ledger.pipeline.aws.clients import open_client
from ledger.runtime.clock import Clock
from ledger.runtime.foreign import FOREIGN

AGAIN_SECONDS = 600.0
"""The time between two checks of one environment."""
PAGES_MAX = 100
SDK_TRIES_MAX = 2
REPORTED = "ReportBatchItemFailures"
_AT_REST = frozenset({"Disabled", "Disabling", "Deleting"})

Found = Mapping[str, Any]
Ask = Callable[[str], Awaitable[Sequence[Found]]]
"""Returns the mappings of an event source, by its ARN."""

log = logging.getLogger(__name__)


class LambdaClient(Protocol):
    """The part of aiobotocore's Lambda client that is used."""

    async def list_event_source_mappings(self, **request: Any) -> Found:
        """Return a page of mappings."""


class MappingCheck:
    """Looks at the mappings of a function's streams, at the first event and then now and then."""

    def __init__(self, ask: Ask, clock: Clock) -> None:
        self._ask = ask
        self._clock = clock
        self._looked: dict[str, float] = {}

    async def check(self, event: Mapping[str, Any], function_name: str) -> None:
        """Check the mappings of an event's stream, if that is due.

        Raises:
            SettingsError: they would lose records, or count what others have not brought in.
        """
        records = event.get("Records")
        source = records[0].get("eventSourceARN") if isinstance(records, list) and records else None
        if not isinstance(source, str):
            return  # the reader of events reports what is wrong with it
        now = self._clock.monotonic()
        if now - self._looked.get(source, float("-inf")) < AGAIN_SECONDS:
            return
        try:
            found = await self._ask(source)
        except FOREIGN as error:
            log.warning("the event source mappings of %s were not checked: %s", source, error)
            found = ()
        if wrong := list(problems(found, source, function_name)):
            raise SettingsError("; ".join(wrong))
        self._looked[source] = now


def problems(found: Sequence[Found], source: str, function_name: str) -> Iterator[str]:
    """Yield what is wrong with the mappings of a source to a function, if it is one of ours."""
    own = [mapping for mapping in found if _is_of(mapping, function_name)]
    if len(own) > 1:
        identifiers = ", ".join(str(mapping.get("UUID")) for mapping in own)
        yield (
            f"{source} has {len(own)} event source mappings to {function_name} ({identifiers}):"
            " each delivers all records at its own pace; delete all but one"
        )
    for mapping in own:
        name = f"the event source mapping {mapping.get('UUID')} of {source}"
        if (factor := mapping.get("ParallelizationFactor") or 1) > 1:
            yield (
                f"{name} has a parallelization factor of {factor}: set it to 1, since a shard is a"
                " lane, and of two of its batches at once one would pass over the other"
            )
        if REPORTED not in (mapping.get("FunctionResponseTypes") or ()):
            yield f"{name} does not report what must come again: set {REPORTED}"
        if (mapping.get("FilterCriteria") or {}).get("Filters"):
            yield f"{name} has a filter: remove it, since a record taken once must come again"


def _is_of(one: Found, function_name: str) -> bool:
    """Return whether a mapping is in use, and leads to a function or a version or alias of it."""
    parts = str(one.get("FunctionArn", "")).split(":")
    return one.get("State") not in _AT_REST and parts[6:7] == [function_name]


async def mappings_of(client: LambdaClient, source: str) -> list[Found]:
    """Return all mappings of an event source; the caller handles the SDK's errors."""
    found: list[Found] = []
    request: dict[str, Any] = {"EventSourceArn": source}
    for _page in range(PAGES_MAX):
        answer = await client.list_event_source_mappings(**request)
        found += answer["EventSourceMappings"]
        if not (marker := answer.get("NextMarker")):
            break
        request["Marker"] = marker
    return found


@asynccontextmanager
async def open_lambda(*, region: str, request_timeout: float) -> AsyncIterator[LambdaClient]:
    """Open a client; credentials and endpoint are found as the SDK finds them.

    Raises:
        LedgerError: the SDK's configuration cannot be read, or names something that does not exist.
    """
    opening = open_client(
        "lambda", region=region, request_timeout=request_timeout, tries_max=SDK_TRIES_MAX
    )
    async with opening as client:
        yield client
