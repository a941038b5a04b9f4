"""A region of the service as clients call it: through its balancer, by `ledger.http.client`."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import partial
from hashlib import sha256
from uuid import UUID

import httpx

from lab.faults.calls import Call, CallResult, make
from lab.soak.balancer import Balancer
from ledger.core import ids
from ledger.core.errors import NotSent, ReadTooSlow, StoreError, Unreachable
from ledger.core.values import Entry
from ledger.http.client import Ledger
from ledger.http.client.record_calls import unknown
from ledger.http.client.requests import Request, counter_path, named
from ledger.http.wire import schemas
from ledger.reads.total import Total
from ledger.runtime.clock import Clock
from ledger.writes.entry_plan import Change

UNREAD = (StoreError, ReadTooSlow, NotSent)
"""What a read may end with while something is wrong."""
CALL_SECONDS_MAX = 10.0
"""How long a call goes on trying; below the retry horizon, so that most end with an answer."""
URL = "http://127.0.0.1"
_UUID_VERSION = 7


class KeyedLedger(Ledger):
    """A ledger whose keyed changes go as plain HTTP has them: an `Idempotency-Key`, a UUIDv7."""

    async def record(
        self,
        counter: str,
        change: int | Decimal,
        *,
        note: str | None = None,
        effective: date | None = None,
        key: str | None = None,
        at: datetime | None = None,
        metadata: Mapping[str, str] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 (as the client has it)
    ) -> Entry:
        """Add to a counter.

        Raises:
            As `ledger.http.client.Ledger.record`.
        """
        if key is None or at is None:
            return await super().record(
                *(counter, change),
                note=note,
                effective=effective,
                metadata=metadata,
                timeout=timeout,
            )
        uuid = uuid_of(key, at)
        asked = named(
            Change(counter, change, note, effective, uuid, None, None, metadata), now=at, bits=0
        )
        body = {name: asked.fields[name] for name in asked.fields if name not in {"counter", "key"}}
        request = Request(
            "POST",
            counter_path(counter, "entries"),
            schemas.EntryModel,
            body=body,
            headers={"Idempotency-Key": uuid},
        )
        status, entry = await self._opening.here().write(
            request, end=self._end(timeout), unknown=partial(unknown, [asked])
        )
        return entry.to_value(repeated=status == httpx.codes.OK)


class Service:
    """Makes the calls of a run in one region, and reads its totals."""

    def __init__(self, balancer: Balancer, token: str, *, horizon: float, clock: Clock) -> None:
        self.balancer = balancer
        self.token = token
        self.ledger = KeyedLedger(
            URL, token=token, timeout=CALL_SECONDS_MAX, transport=balancer, clock=clock
        )
        self._horizon = horizon
        self._clock = clock

    async def call(self, call: Call) -> CallResult | None:
        """Make a call; None if past the retry horizon nothing was answered.

        One that became too late while it was repeated is unknown: an earlier try may have been
        carried out, which a client cannot tell any more.
        """
        _, at = call.oldest
        was_late = self._is_late(at)
        result = await make(self.ledger, call)
        if result.outcome == "late" and not was_late:
            return replace(result, outcome="unknown")
        if result.outcome == "unknown" and not result.error and self._is_late(at):
            return None
        return result

    def _is_late(self, at: datetime | None) -> bool:
        return at is not None and (self._clock.now() - at).total_seconds() > self._horizon

    async def total(self, counter: str, *, max_age: float) -> Total:
        """Return a total that is at most so old.

        Raises:
            StoreError, ReadTooSlow: it cannot be read.
        """
        try:
            return await self.ledger.total(counter, max_age=max_age)
        except NotSent as error:  # of a service that shuts down
            raise Unreachable(str(error)) from error


def uuid_of(key: str, at: datetime) -> str:
    """Return a UUIDv7 of a time, the same for the same key."""
    milliseconds = (at - ids.EPOCH) // timedelta(milliseconds=1)
    rest = int.from_bytes(sha256(key.encode()).digest()[:10])
    value = milliseconds << 80 | rest
    value &= ~(0xF << 76) & ~(0x3 << 62)
    return str(UUID(int=value | _UUID_VERSION << 76 | 0x2 << 62))
