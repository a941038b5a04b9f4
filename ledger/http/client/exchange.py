"""Requests sent and repeated until the outcome of each part is known, or the call's end.

::

    connection never made, 503, 429 ──> again, by `ledger.store.retry`'s counts, waits and budget
    no answer, 500, 502, outcome-unknown
        a read ──────────────────────> the same
        a write, always under a name ─> again under it, until the call's end; then `OutcomeUnknown`
    refused by another server
        a read ──────────────────────> an error
        a write ─────────────────────> `OutcomeUnknown`

A write's name is its key, token or entry: the service carries it out once however often it comes,
and past the retry horizon it refuses, so no repeat can count twice. Once a try was unanswered, only
an answer about the change itself ends the doubt: that a later try was throttled says nothing of it.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Generic, TypeVar

import anyio
import httpx
import orjson

from ledger.core.errors import InvalidInput, LedgerError, NotSent, Throttled, Unreachable
from ledger.http.client.answers import Failed, Judged, Unanswered, is_definite, is_unknown, judged
from ledger.http.client.requests import Answer, Request
from ledger.runtime.call_deadlines import TIMEOUT, not_read, not_sent
from ledger.runtime.clock import Clock
from ledger.store.retrier import DEADLINE_BACKOFF, Retrier, Tries
from ledger.store.retry import RetryBudget

CONNECT_SECONDS_MAX = 5.0
"""How long a connection may take to be made."""
WAIT_SECONDS_MAX = 60
"""The longest deadline that the service takes."""
CLOSED = "the ledger was closed"
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_UNANSWERED = (httpx.TransportError, anyio.ClosedResourceError, anyio.BrokenResourceError)

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Done(Generic[Value]):
    """A part of a call that is done."""

    value: Value


@dataclass(frozen=True, slots=True)
class InDoubt:
    """A part of a call that may have been carried out or not."""

    cause: str


Outcome = Done[Value] | Failed | Unanswered
Final = Done[Value] | LedgerError | InDoubt
Ask = Callable[[Sequence[int]], Awaitable[Sequence[Outcome[Value]]]]
"""Asks once for the parts at these places; returns an outcome for each."""


class Exchange:
    """Sends requests of one client."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        *,
        token: Callable[[], str | None],
        clock: Clock,
        randomness: Random,
    ) -> None:
        self.clock = clock
        self._http = http
        self._token = token
        self._retrier = Retrier(
            clock=clock, randomness=randomness, budget=RetryBudget(), backoff=DEADLINE_BACKOFF
        )
        self._under_way: set[anyio.CancelScope] = set()
        self._is_closed = False

    def close(self) -> None:
        """End what is under way: of writes the outcome is then unknown."""
        self._is_closed = True
        for scope in self._under_way:
            scope.cancel()

    def begin(self, operation: str, end: float) -> Tries:
        """Begin to try something until a moment of the clock's monotonic time."""
        return self._retrier.begin(operation, deadline=end)

    async def read(self, request: Request[Answer], *, end: float) -> Answer:
        """Send a request that changes nothing, and return the answer.

        Raises:
            ReadTooSlow: the end came before an answer.
            LedgerError: as the service says.
        """

        async def ask(_: Sequence[int]) -> Sequence[Outcome[Answer]]:
            outcome = await self.once(request, end)
            if isinstance(outcome, Unanswered) and outcome.error is not None:
                outcome = Failed(outcome.error, outcome.retry_after_seconds)
            if isinstance(outcome, Unanswered):
                is_late = self.clock.monotonic() >= end or outcome.cause == TIMEOUT
                return [Failed(not_read() if is_late else Unreachable(outcome.cause))]
            if isinstance(outcome, Failed):
                outcome.error.outcome = "not_applied"  # a defect says otherwise
                return [outcome]
            return [Done(outcome.answer)]

        (final,) = await self.outcomes(1, ask, operation="read", end=end)
        return _value(final, Unreachable)

    async def write(
        self, request: Request[Answer], *, end: float, unknown: Callable[[str], LedgerError]
    ) -> tuple[int, Answer]:
        """Send a request that may be repeated, with one outcome; return the answer and its status.

        Raises:
            LedgerError: as the service says; `unknown` of the cause, if that is all that is known.
        """

        async def ask(_: Sequence[int]) -> Sequence[Outcome[tuple[int, Answer]]]:
            outcome = await self.once(request, end)
            if isinstance(outcome, Failed | Unanswered):
                return [outcome]
            return [Done((outcome.status, outcome.answer))]

        (final,) = await self.outcomes(1, ask, operation="write", end=end)
        return _value(final, unknown)

    async def outcomes(
        self, count: int, ask: Ask[Value], *, operation: str, end: float
    ) -> list[Final[Value]]:
        """Ask until the outcome of every part is known, or as long as may be; see the module."""
        finals: dict[int, Final[Value]] = {}
        doubts: dict[int, str] = {}
        tries = self.begin(operation, end)
        left: Sequence[int] = range(count)
        while left:
            latest: dict[int, Failed | Unanswered] = {}
            for place, outcome in zip(left, await ask(left), strict=True):
                if isinstance(outcome, Done):
                    finals[place] = outcome
                else:
                    latest[place] = outcome
                    _judge(place, outcome, finals, doubts)
            left = [place for place in latest if place not in finals]
            if not left:
                tries.succeeded()
            elif not await self._again(tries, [latest[place] for place in left], doubts):
                finals.update(
                    (place, _given_up(latest[place], doubts.get(place))) for place in left
                )
                break
        return [finals[place] for place in range(count)]

    async def _again(
        self, tries: Tries, failed: Sequence[Failed | Unanswered], doubts: dict[int, str]
    ) -> bool:
        """Wait for the next try; return False if there is to be none."""
        failures = [attempt for attempt in failed if isinstance(attempt, Failed)]
        throttled = any(isinstance(failure.error, Throttled) for failure in failures)
        backoff = self._retrier.backoff
        if self._is_closed:
            return False
        if not doubts and not backoff.allows(tries.requests + 1, throttled=throttled):
            return False
        seconds = max((attempt.retry_after_seconds for attempt in failed), default=0.0)
        return await tries.again(
            "throttled" if throttled else "unanswered",
            throttled=throttled,
            retry_after_seconds=seconds,
        )

    async def once(self, request: Request[Answer], end: float) -> Judged[Answer]:
        """Send a request once, and judge what came of it by the end."""
        left = end - self.clock.monotonic()
        if self._is_closed:
            return Failed(NotSent(f"{CLOSED} before it was sent"))
        if left <= 0:
            return Failed(not_sent())
        with anyio.move_on_after(left) as scope:
            self._under_way.add(scope)
            try:
                return await self._sent(request, self._rendered(request, left))
            finally:
                self._under_way.discard(scope)
        return Unanswered(CLOSED if self._is_closed else TIMEOUT)

    async def _sent(self, asked: Request[Answer], request: httpx.Request) -> Judged[Answer]:
        try:
            answer = await self._http.send(request)
        except _NOT_SENT as error:
            return Failed(Unreachable(f"no connection to {self._http.base_url}: {_text(error)}"))
        except (httpx.UnsupportedProtocol, httpx.LocalProtocolError) as error:
            raise InvalidInput(f"the request cannot be sent: {error}") from None
        except _UNANSWERED as error:
            return Unanswered(_text(error))
        now = self.clock.now()
        return judged(asked, answer.status_code, answer.headers, answer.content, now=now)

    def stream_request(self, request: Request[Answer]) -> httpx.Request:
        """Return a request whose answer goes on for ever."""
        return self._rendered(request, None)

    async def streamed(self, request: httpx.Request) -> httpx.Response:
        """Send a request, and return its answer, whose body is not read yet."""
        return await self._http.send(request, stream=True)

    def _rendered(self, request: Request[Answer], seconds: float | None) -> httpx.Request:
        headers = {**request.headers, "Accept": "application/json, application/problem+json"}
        if (token := self._token()) is not None:
            headers["Authorization"] = f"Bearer {token}"
        timeout = httpx.Timeout(seconds, connect=CONNECT_SECONDS_MAX)
        if seconds is not None:
            # A second is left for the way, so that what the service knows by then arrives.
            wait = max(1, min(WAIT_SECONDS_MAX, int(seconds) - 1))
            headers["Prefer"] = f"wait={wait}"
        content = None
        if request.body is not None:
            content = orjson.dumps(request.body)
            headers["Content-Type"] = "application/json"
        return self._http.build_request(
            request.method,
            request.path,
            params=list(request.params) or None,
            content=content,
            headers=headers,
            timeout=timeout,
        )


def _judge(
    place: int,
    outcome: Failed | Unanswered,
    finals: dict[int, Final[Value]],
    doubts: dict[int, str],
) -> None:
    """Take in what one try came to: the end of a part, a doubt, or neither."""
    if isinstance(outcome, Unanswered):
        doubts[place] = outcome.cause
        if outcome.error is not None and not outcome.error.retryable:
            finals[place] = InDoubt(outcome.cause)
        return
    error = outcome.error
    if is_definite(error):
        finals[place] = error
        doubts.pop(place, None)
    elif is_unknown(error):
        doubts[place] = str(error)
    elif not error.retryable:
        finals[place] = _given_up(outcome, doubts.pop(place, None))


def _given_up(outcome: Failed | Unanswered, doubt: str | None) -> LedgerError | InDoubt:
    if isinstance(outcome, Unanswered):
        return InDoubt(outcome.cause)
    if doubt is None:
        return outcome.error
    said = str(outcome.error)
    return InDoubt(doubt if said == doubt else f"{doubt}; then {said}")


def _value(final: Final[Value], unknown: Callable[[str], LedgerError]) -> Value:
    if isinstance(final, Done):
        return final.value
    raise unknown(final.cause) if isinstance(final, InDoubt) else final


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__
