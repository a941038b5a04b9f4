"""Sending a request until its fate is known: the one loop of tries, over any transport.

- not applied for certain (throttled, conflict, connection never made): tried again with backoff;
- fate unknown (connection lost, time-out, 5xx): a read is tried again, a write is `Unknown`;
- refused (credentials, table, request): raised at once.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from random import Random

import anyio
from botocore.exceptions import BotoCoreError, ClientError, ReadTimeoutError

from ledger.runtime.clock import Clock
from ledger.store.dynamodb import signing
from ledger.store.dynamodb.judging import Failure, judge, rejection
from ledger.store.dynamodb.requests import Request
from ledger.store.dynamodb.transport import Response, Transport
from ledger.store.retry import Backoff
from ledger.store.writes import Outcome, Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts:
    """Tries of requests at one region's table.

    `attempt_seconds` bounds one try as a whole; `on_retry` is told the operation and the cause.
    """

    transport: Transport
    region: str
    table: str
    backoff: Backoff
    clock: Clock
    randomness: Random
    attempt_seconds: float = math.inf
    on_retry: Callable[[str, str], None] = lambda _operation, _cause: None

    async def write(
        self, operation: str, request: Request, latest: datetime | None
    ) -> Response | Outcome:
        """Send a write until its fate is known or unknowable; sign none later than `latest`.

        Raises:
            StoreError: nothing was written.
        """
        for tries in range(1, self.backoff.tries_max + 1):
            try:
                with signing.not_after(latest):
                    return await self._send(operation, request)
            except ClientError as error:
                rejected = rejection(error)
                if rejected is not None:
                    return rejected
                failure = self._judge(error)
            except BotoCoreError as error:
                failure = self._judge(error)
            if failure.applied_maybe:
                return Unknown(str(failure.error))
            await self._again_or_raise(operation, failure, tries)
        raise AssertionError("unreachable: the last try returns or raises")

    async def read(self, operation: str, request: Request) -> Response:
        """Send a read until it is answered, within the bound.

        Raises:
            StoreError: it was refused, or not answered in all tries.
        """
        for tries in range(1, self.backoff.tries_max + 1):
            try:
                return await self._send(operation, request)
            except (BotoCoreError, ClientError) as error:
                failure = self._judge(error)
            await self._again_or_raise(operation, failure, tries)
        raise AssertionError("unreachable: the last try returns or raises")

    async def wait(self, operation: str, cause: str, tries: int) -> None:
        """Wait before the next try, after this many."""
        self.on_retry(operation, cause)
        await self.clock.sleep(self.backoff.wait_seconds(tries, self.randomness))

    async def _send(self, operation: str, request: Request) -> Response:
        response: Response | None = None
        # Time-outs of a transport are per connection and per read: an answer that drips has no end.
        with anyio.move_on_after(self.attempt_seconds):
            response = await self.transport.send(operation, request)
        if response is None:
            raise ReadTimeoutError(endpoint_url=f"{self.region}, {operation}")
        return response

    def _judge(self, error: BotoCoreError | ClientError) -> Failure:
        return judge(error, region=self.region, table=self.table)

    async def _again_or_raise(self, operation: str, failure: Failure, tries: int) -> None:
        repeatable = failure.passing or failure.applied_maybe
        if not repeatable or tries >= self.backoff.tries_max:
            raise failure.error
        await self.wait(operation, type(failure.error).__name__.lower(), tries)
