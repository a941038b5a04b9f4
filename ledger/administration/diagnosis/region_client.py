"""Requests to one region: each look within its own time limit, with failures as values.

What answers reveal on the way is noted: the region's clock, and what was throttled.
"""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

import anyio
from botocore import exceptions

from ledger.administration.diagnosis.observations import Cause, CredentialsObservation, FailedLook
from ledger.administration.diagnosis.permission_trials import DENIED_CODES
from ledger.core.errors import (
    AccessDenied,
    LedgerError,
    SettingsError,
    StoreError,
    TableMissing,
    Throttled,
    Unreachable,
)
from ledger.reads.archive.places.s3 import s3_client
from ledger.runtime.clock import Clock
from ledger.runtime.foreign import FOREIGN, error_answer, error_code
from ledger.settings import Settings
from ledger.store.connections import open_transport
from ledger.store.dynamodb.clock_watch import ClockWatch
from ledger.store.dynamodb.errors import from_botocore
from ledger.store.dynamodb.requests import Request
from ledger.store.dynamodb.throttling import counters_in, exceeded_limits
from ledger.store.dynamodb.transport import Response, Transport

EXPIRED_CODES = frozenset({"ExpiredToken", "ExpiredTokenException"})
_NONE_FOUND = (exceptions.NoCredentialsError, exceptions.PartialCredentialsError)
_EXPIRED = (exceptions.UnauthorizedSSOTokenError, exceptions.SSOTokenLoadError)
OpenTransport = Callable[..., AbstractAsyncContextManager[Transport]]
"""As `ledger.store.connections.open_transport`."""
Identify = Callable[[Settings, str], Awaitable[CredentialsObservation | FailedLook]]
Result = TypeVar("Result")


@dataclass(slots=True)
class Notes:
    """What the answers of one region revealed; `hot` are counters at hot keys."""

    watch: ClockWatch
    requests: int = 0
    throttled: Counter[str] = field(default_factory=Counter)
    hot: dict[str, None] = field(default_factory=dict)


class NotingTransport:
    """A `Transport` that notes what answers reveal, and passes them on unchanged."""

    def __init__(self, inner: Transport, notes: Notes) -> None:
        self._inner = inner
        self._notes = notes

    async def send(self, operation: str, request: Request) -> Response:
        """Send one request, once; errors as the wrapped transport."""
        self._notes.requests += 1
        sent = self._notes.watch.now()
        try:
            response = await self._inner.send(operation, request)
        except FOREIGN as error:
            self._notes.watch.answered(sent, error_answer(error))
            self._note(error, request)
            raise
        self._notes.watch.answered(sent, response)
        return response

    def _note(self, error: Exception, request: Request) -> None:
        mapped = from_botocore(error, region="", table="")
        if isinstance(mapped, Throttled):
            limits = exceeded_limits(error_answer(error)) or (error_code(error),)
            self._notes.throttled.update(limits)
            self._notes.hot.update(dict.fromkeys(counters_in(request)))

    async def close(self) -> None:
        """Close the wrapped transport."""
        await self._inner.close()


@dataclass(frozen=True, slots=True)
class Looks:
    """How regions are asked: `seconds_max` bounds each look, `number` is drawn for each run.

    `identify` finds the identity behind a region's credentials, by default as the AWS SDK does;
    `objects` opens a client of S3.
    """

    clock: Clock
    number: int
    seconds_max: float
    opening: OpenTransport = open_transport
    identify: Identify | None = None
    objects: Callable[[], AbstractAsyncContextManager[Any]] = s3_client


class RegionClients:
    """Opens each region once, at its first look, and closes all of them in the end.

    It is given as the `opening` of `Looks`. A region that could not be opened is tried again.
    """

    def __init__(self, opening: OpenTransport = open_transport) -> None:
        self._opening = opening
        self._stack = AsyncExitStack()
        self._locks: dict[str, anyio.Lock] = {}
        self._open: dict[str, Transport] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._stack.aclose()

    @asynccontextmanager
    async def __call__(
        self, settings: Settings, region: str, *, clock: Clock
    ) -> AsyncIterator[Transport]:
        """Open a region, unless it is open; it stays open."""
        async with self._locks.setdefault(region, anyio.Lock()):
            if region not in self._open:
                opening = self._opening(settings, region, clock=clock)
                self._open[region] = await self._stack.enter_async_context(opening)
        yield self._open[region]


@asynccontextmanager
async def ask_region(
    settings: Settings, region: str, notes: Notes, looks: Looks
) -> AsyncIterator[NotingTransport]:
    """Open a region for looks that are noted.

    Raises:
        Unreachable: the search for credentials takes longer than a look may.
        SettingsError: the SDK's configuration names an invalid endpoint or certificates that cannot
            be read.
        And botocore's own, as `open_transport`: the profile does not exist.
    """
    async with AsyncExitStack() as stack:
        transport: Transport | None = None
        with anyio.move_on_after(looks.seconds_max):
            opening = looks.opening(settings, region, clock=looks.clock)
            transport = await stack.enter_async_context(opening)
        if transport is None:
            raise Unreachable(
                f"{region}, table {settings.table}: no credentials within {looks.seconds_max:g} s"
            )
        yield NotingTransport(transport, notes)


async def look_within(
    look: Callable[[], Awaitable[Result]], *, region: str, table: str, seconds_max: float
) -> Result | FailedLook:
    """Return the result of a look, or why it failed; it ends within its time.

    An answer of another server is not an answer.
    """
    with anyio.move_on_after(seconds_max):
        try:
            return await look()
        except (*FOREIGN, LedgerError) as error:
            return failed(error, region=region, table=table)
    return FailedLook(Cause.UNANSWERED, f"no answer within {seconds_max:g} s")


def failed(error: Exception, *, region: str, table: str) -> FailedLook:
    """Return why a look failed, in one line."""
    mapped = (
        error
        if isinstance(error, LedgerError)
        else from_botocore(error, region=region, table=table)
    )
    return FailedLook(_cause(error, mapped), str(mapped))


def _cause(error: Exception, mapped: LedgerError) -> Cause:  # noqa: PLR0911 (one a cause)
    code = error_code(error)
    if code in EXPIRED_CODES or isinstance(error, _EXPIRED):
        return Cause.EXPIRED
    if code in DENIED_CODES:
        return Cause.DENIED
    match mapped:
        case AccessDenied() if isinstance(error, _NONE_FOUND):
            return Cause.NO_CREDENTIALS
        case AccessDenied():
            return Cause.BAD_CREDENTIALS
        case TableMissing():
            return Cause.MISSING
        case Throttled():
            return Cause.THROTTLED
        case Unreachable():
            return Cause.UNANSWERED
        case SettingsError():
            return Cause.SETTINGS
        case StoreError() | LedgerError():
            return Cause.REFUSED
