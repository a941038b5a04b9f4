"""Sends requests to one region's table until their outcome is known, over any transport.

- known not to have been applied (throttled, conflict, connection never made): sent again, within
  the bounds and the budget of the `Retrier`;
- outcome unknown (connection lost, time-out, 5xx): a read is sent again, a write is `Unknown`;
- refused (credentials, table, request): raised at once.
"""

import math
from dataclasses import dataclass, field
from datetime import datetime

from botocore.exceptions import BotoCoreError, ClientError, ReadTimeoutError

from ledger.runtime.time_limit import TimeLimit
from ledger.store.dynamodb import signing
from ledger.store.dynamodb.clock_watch import ClockWatch
from ledger.store.dynamodb.judging import Failure, judge, rejection
from ledger.store.dynamodb.requests import Request, tables_of
from ledger.store.dynamodb.transport import Response, Transport
from ledger.store.retrier import Retrier, Tries
from ledger.store.retry import SUCCESS_TOKENS
from ledger.store.writes import Outcome, Unknown


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
                with signing.not_after(latest):
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
        return judge(error, region=self.region, table=table, request=request)

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
