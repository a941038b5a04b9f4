"""Calls that may hang, as looks at files do on a mount that has gone: each on a thread, bounded.

A call on the event loop that hangs stops everything; one in a pool of threads takes a place there
for ever, and the end of the process waits for it. So each has a thread of its own, for which nobody
waits at the end. A thread cannot be stopped: while one hangs, no second one is begun for the call.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import Generic, TypeVar

from ledger.core.errors import LedgerError

SECONDS_MAX = 10.0
"""How long a look at a file is waited for."""
Result = TypeVar("Result")


class ThreadedCall(Generic[Result]):
    """A call that is made again and again, one at a time; `what` names it in errors."""

    def __init__(
        self, call: Callable[[], Result], *, what: str, seconds_max: float = SECONDS_MAX
    ) -> None:
        self._call = call
        self._what = what
        self._seconds_max = seconds_max
        self._running: Future[Result] | None = None

    async def result(self) -> Result:
        """Return the result of the call that is under way, or of a new one.

        Raises:
            LedgerError: it has not ended within its bound, or no thread can be begun.
            And as the call.
        """
        if self._running is None or self._running.done():
            self._running = self._begun()
        waiting = asyncio.wrap_future(self._running)
        try:
            ended, _ = await asyncio.wait([waiting], timeout=self._seconds_max)
        finally:
            waiting.cancel()  # the wait, if it has not ended; the call goes on
        if not ended:
            raise LedgerError(f"{self._what} has not ended within {self._seconds_max:g} s")
        return waiting.result()

    def _begun(self) -> "Future[Result]":
        future = Future[Result]()
        future.set_running_or_notify_cancel()
        thread = Thread(target=self._run, args=(future,), name=self._what, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            raise LedgerError(f"{self._what}: {error}") from None
        return future

    def _run(self, future: "Future[Result]") -> None:
        try:
            future.set_result(self._call())
        except BaseException as error:  # noqa: BLE001 (whoever waits raises it)
            future.set_exception(error)
