"""The store of a table that is opened and closed, for objects that outlive an opening.

Counters, sequences, guards and leases hold it. It forwards to the current opening: while the table
is closed a call raises, and after it is opened again calls continue there. Each request belongs to
a public call (`ledger.runtime.call_deadlines`), and ends with it.
"""

from collections.abc import Awaitable, Callable, Sequence

import anyio

from ledger.core.errors import LedgerError, Unreachable
from ledger.runtime.call_deadlines import NEVER, TIMEOUT, Call, current_call
from ledger.store.port import Store
from ledger.store.wrappers.forwarder import Answer, ForwardingStore, Operation
from ledger.store.writes import (
    Action,
    BatchOutcome,
    BatchWrite,
    EachOutcome,
    Outcome,
    Unknown,
    Write,
)

UNANSWERED = f"{TIMEOUT} before the answer came"


class CallStore(ForwardingStore):
    """Forwards each request to the store that is open at the time.

    `current` returns it to a task of its event loop, or raises the `LedgerError` of a table that is
    not open there; `inner` is the one that is open when this is created. That error ends a call
    that has sent nothing; in the middle of a call, and for background work (heartbeats of a lease),
    it is raised as `Unreachable`, like an outage.
    """

    def __init__(self, inner: Store, current: Callable[[], Store]) -> None:
        super().__init__(inner)
        self._current = current

    async def write(self, write: Write) -> Outcome:
        """Do one conditional write; at the end of the call it is unknown."""
        return await self._sent(lambda: self._inner.write(write), Unknown(UNANSWERED))

    async def write_batch(self, writes: Sequence[BatchWrite]) -> BatchOutcome:
        """Do a batch of unconditional writes; at the end of the call each is unknown."""
        late = BatchOutcome(unknown=tuple(range(len(writes))), cause=UNANSWERED)
        return await self._sent(lambda: self._inner.write_batch(writes), late)

    async def write_each(self, writes: Sequence[Write]) -> EachOutcome:
        """Do several conditional writes; at the end of the call each is unknown."""
        late = EachOutcome((Unknown(UNANSWERED),) * len(writes))
        return await self._sent(lambda: self._inner.write_each(writes), late)

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Do a transaction; at the end of the call it is unknown."""
        send = lambda: self._inner.transact(actions, token=token)  # noqa: E731
        return await self._sent(send, Unknown(UNANSWERED))

    async def _sent(self, send: Callable[[], Awaitable[Answer]], late: Answer) -> Answer:
        call = self._begin()
        if call is not None:
            call.has_written = True
        if call is None or call.end == NEVER:
            return await send()
        with anyio.CancelScope(deadline=call.end):
            return await send()
        call.is_cut = True
        return late

    async def _carry(self, operation: Operation, send: Callable[[], Awaitable[Answer]]) -> Answer:
        del operation
        call = self._begin()
        if call is None or call.end == NEVER:
            return await send()
        with anyio.CancelScope(deadline=call.end):
            return await send()
        raise call.cut()

    def _begin(self) -> Call | None:
        """Take the open store; return the call that this request belongs to, if any."""
        call = current_call()
        try:
            self._inner = self._current()
        except LedgerError as error:
            if call is not None and not call.has_asked:
                raise
            raise Unreachable(str(error)) from error
        if call is not None:
            call.check()
            call.has_asked = True
        return call
