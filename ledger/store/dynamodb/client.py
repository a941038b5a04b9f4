"""Sends requests to one region's table until their outcome is known, over any transport.

- known not to have been applied (throttled, conflict, connection never made): sent again, within
  the bounds and the budget of the `Retrier`;
- outcome unknown (connection lost, time-out, 5xx): a read is sent again, a write is `Unknown`;
- refused (credentials, table, request): raised at once.

One limit for many waits, by one timer: nearly all end in time, and setting a timer costs more.

::

    waits    |--- a ---|
                |-------- b ---------x         b takes longer than the limit, and is ended
                   |- c -|
    timer    |----- limit ----->|--->|         set for the oldest remaining wait, if any
"""

import asyncio
import math
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType
from typing import Self

from botocore.exceptions import BotoCoreError, ClientError, ReadTimeoutError

from ledger.store.dynamodb import signature_age
from ledger.store.dynamodb.clock_watch import ClockWatch
from ledger.store.dynamodb.failures import Failure, classify_failure, rejection
from ledger.store.dynamodb.requests import Request, tables_of
from ledger.store.dynamodb.transport import Response, Transport
from ledger.store.retrier import Retrier, Tries
from ledger.store.retry import SUCCESS_TOKENS
from ledger.store.writes import Outcome, Unknown


class TimeLimit:
    """Ends waits of one event loop that take longer than `seconds`, as `asyncio.timeout` would."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waits: dict[LimitedWait, None] = {}
        self._is_timed = math.isinf(seconds)  # without a limit no timer is ever set

    def begin(self) -> "LimitedWait":
        """Return the block of one wait, which begins now: ``with limit.begin(): await ...``.

        The block raises `TimeoutError` once it took too long.
        """
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        if task is None:
            raise RuntimeError("only a task can be limited")
        due = loop.time() + self.seconds
        wait = LimitedWait(self, task, due)
        self._waits[wait] = None
        if not self._is_timed:
            self._is_timed = True
            loop.call_at(due, self._look, loop)
        return wait

    def end(self, wait: "LimitedWait") -> None:
        """Stop watching a wait."""
        self._waits.pop(wait, None)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """End the waits that are overdue, oldest first."""
        now = loop.time()
        while self._waits:
            oldest = next(iter(self._waits))
            if oldest.due > now:
                loop.call_at(oldest.due, self._look, loop)
                return
            del self._waits[oldest]
            oldest.expire()
        self._is_timed = False


class LimitedWait:
    """One wait of a task; made by `TimeLimit.begin`."""

    __slots__ = ("_cancelling", "_limit", "_task", "due", "expired")

    def __init__(self, limit: TimeLimit, task: "asyncio.Task[object]", due: float) -> None:
        self.due = due
        self.expired = False
        self._limit = limit
        self._task = task
        self._cancelling = task.cancelling()

    def expire(self) -> None:
        """End the wait."""
        self.expired = True
        self._task.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self.expired:
            self._limit.end(self)
            return
        # Others may have cancelled the task as well: their cancellation is left to them.
        if self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error


@dataclass(frozen=True, slots=True, kw_only=True)
class TableClient:
    """Sends requests to one region's table; `request_seconds_max` bounds each as a whole.

    `watch` measures this machine's clock on every answer.
    """

    transport: Transport
    region: str
    table: str
    retrier: Retrier
    watch: ClockWatch
    request_seconds_max: float = math.inf
    _limit: TimeLimit = field(init=False)

    def __post_init__(self) -> None:
        """Make the limit that all requests share."""
        object.__setattr__(self, "_limit", TimeLimit(self.request_seconds_max))

    async def write(
        self, operation: str, request: Request, latest: datetime | None
    ) -> Response | Outcome:
        """Send a write until its outcome is known or unknowable; sign none later than `latest`.

        Raises:
            StoreError: nothing was written.
        """
        tries = self.retrier.begin(operation)
        answer = await self.write_part(operation, request, latest, tries)
        if not isinstance(answer, Unknown):
            tries.succeeded()
        return answer

    async def write_part(
        self, operation: str, request: Request, latest: datetime | None, tries: Tries
    ) -> Response | Outcome:
        """Send a write as `write` does, as a part of a call whose tries it shares.

        Raises:
            StoreError: nothing of this part was written.
        """
        while True:
            try:
                with signature_age.not_after(latest):
                    return await self._send(operation, request)
            except ClientError as error:
                rejected = rejection(error)
                if rejected is not None:
                    return rejected
                failure = self._judge(error, request)
            except BotoCoreError as error:
                failure = self._judge(error, request)
            if failure.applied_maybe:
                return Unknown(str(failure.error), requests=tries.requests + 1)
            await self._wait_or_raise(failure, tries)

    async def read(self, operation: str, request: Request) -> Response:
        """Send a read until it is answered, within the bounds.

        Raises:
            StoreError: it was refused, or not answered.
        """
        try:
            response = await self._send(operation, request)
        except (BotoCoreError, ClientError) as error:
            failure = self._judge(error, request)
        else:
            self.retrier.budget.give(SUCCESS_TOKENS)
            return response
        tries = self.retrier.begin(operation)
        await self._wait_or_raise(failure, tries)
        response = await self.read_part(operation, request, tries)
        tries.succeeded()
        return response

    async def read_part(self, operation: str, request: Request, tries: Tries) -> Response:
        """Send a read as `read` does, as a part of a call whose tries it shares.

        Raises:
            StoreError: it was refused, or not answered.
        """
        while True:
            try:
                return await self._send(operation, request)
            except (BotoCoreError, ClientError) as error:
                failure = self._judge(error, request)
            await self._wait_or_raise(failure, tries)

    async def _send(self, operation: str, request: Request) -> Response:
        sent = self.watch.now()
        # Time-outs of a transport are per connection and per read: a slow trickle of bytes has no
        # end.
        wait = self._limit.begin()
        try:
            with wait:
                response = await self.transport.send(operation, request)
        except ClientError as error:
            self.watch.answered(sent, error.response)
            raise
        except TimeoutError:
            if not wait.expired:
                raise
            raise ReadTimeoutError(endpoint_url=f"{self.region}, {operation}") from None
        self.watch.answered(sent, response)
        return response

    def _judge(self, error: BotoCoreError | ClientError, request: Request) -> Failure:
        table = tables_of(request, self.table)
        return classify_failure(error, region=self.region, table=table, request=request)

    @staticmethod
    async def _wait_or_raise(failure: Failure, tries: Tries) -> None:
        """Wait until the request may be sent again.

        Raises:
            StoreError: it must not.
        """
        error = failure.error
        if not (failure.passing or failure.applied_maybe):
            raise error
        if not await tries.again(
            failure.cause,
            throttled=failure.throttled,
            retry_after_seconds=failure.retry_after_seconds,
        ):
            error.requests = tries.requests
            raise error
