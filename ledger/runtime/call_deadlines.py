"""One public call to what a `Table` opens: its end, and what it has sent to the table by then.

A call of several requests cannot be cut off from outside: only the call itself knows which request
was under way, and under which number or token. So the store that a table hands out asks the call
before each request (`ledger.store.wrappers.call_store`), and ends the one under way::

    call      |--- read ---|--- write ------------x   its end: the write is Unknown
    or        |--- read --------------------------x   its end: the read is refused, as Unreachable
    then                                          |   each later request is refused at once

A call handles that unknown write, or refused request, as it does any other, so its result is true.
Waits in between are cut short by `until_end`.

A write that was left without an answer may be applied, and may still be. Its repeat can be refused
because of that, and what the call does next can fail: no such error says that nothing was written::

    call      |--- write ── no answer ── again: refused ──| in doubt
              |--- read ── throttled                      Throttled, with the outcome "unknown"

The end of one call that its caller bounds by `timeout`: a time of the event loop.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Self, TypeVar

import anyio

from ledger.core.errors import (
    InvalidInput,
    LedgerError,
    NotSent,
    OutcomeUnknown,
    ReadTooSlow,
    StoreError,
    Unreachable,
)

Result = TypeVar("Result")

NEVER = math.inf
LATE_AT_ONCE = 32
"""Waits that are over which end in one round of the event loop: each tells its caller."""
TIMEOUT = "the call's timeout ended"


def deadline_of(timeout: float | None) -> float:
    """Return when a call ends that begins now and may take `timeout` seconds; None for no limit.

    Raises:
        InvalidInput: it is not a number above 0.
    """
    return NEVER if timeout is None else anyio.current_time() + check_timeout(timeout)


def check_timeout(timeout: float) -> float:
    """Return how long a call may take.

    Raises:
        InvalidInput: it is not a number above 0.
    """
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not (is_number and timeout > 0):
        raise InvalidInput(f"timeout must be a number of seconds above 0, got {timeout!r}")
    return timeout


def has_come(end: float) -> bool:
    """Return whether an end has come."""
    return end < NEVER and anyio.current_time() >= end


def left_until(end: float, late: Callable[[], LedgerError]) -> float:
    """Return how many seconds a part of a call has until the call's end.

    Raises:
        LedgerError: `late`: the end has come.
    """
    left = end - anyio.current_time()
    if left <= 0:
        raise late()
    return left


async def bounded(end: float, call: Awaitable[Result], late: Callable[[], LedgerError]) -> Result:
    """Await a call; at the end it is cancelled, and `late` is raised.

    Raises:
        LedgerError: `late`.
        And as the call.
    """
    if end == NEVER:
        return await call
    with anyio.CancelScope(deadline=end):
        return await call
    raise late()


def not_sent() -> NotSent:
    """Return the error of a change that was not sent by the end."""
    return NotSent(f"{TIMEOUT} before anything was sent: it wrote nothing")


def not_read() -> ReadTooSlow:
    """Return the error of a read that did not finish by the end."""
    return ReadTooSlow(f"{TIMEOUT} before it was read")


class Call:
    """A call under way; `end` is a time of the event loop.

    `has_asked` is whether any request was sent, `has_written` whether a write was, and `is_cut`
    whether the end has kept one from being answered, or sent. `in_doubt` is whether a write was
    left without an answer.
    """

    __slots__ = ("end", "has_asked", "has_written", "in_doubt", "is_cut", "is_over")

    def __init__(self, end: float) -> None:
        self.end = end
        self.has_asked = self.has_written = self.in_doubt = False
        self.is_cut = self.is_over = False

    def cut(self) -> Unreachable:
        """Return the error of a request that the end kept from being answered, or sent."""
        self.is_cut = True
        return Unreachable(TIMEOUT)

    def check(self) -> None:
        """Return if the end has not come.

        Raises:
            Unreachable: it has.
        """
        if has_come(self.end):
            raise self.cut()


_current: ContextVar[Call | None] = ContextVar("the public call under way", default=None)


def current_call() -> Call | None:
    """Return the call that this task works for; None if there is none, or if it has ended."""
    call = _current.get()
    return None if call is None or call.is_over else call


def note_doubt() -> None:
    """Note that a write of the call under way was left without an answer."""
    call = current_call()
    if call is not None:
        call.in_doubt = True


def has_ended() -> bool:
    """Return whether the end of the call under way has come."""
    call = current_call()
    return call is not None and has_come(call.end)


def seconds_left() -> float:
    """Return how long the call under way may take."""
    call = current_call()
    return NEVER if call is None or call.end == NEVER else call.end - anyio.current_time()


async def until_end(wait: Awaitable[object]) -> None:
    """Wait, no longer than the call under way may take."""
    call = current_call()
    if call is None or call.end == NEVER:
        await wait
        return
    with anyio.CancelScope(deadline=call.end):
        await wait


async def unless_ended(work: Awaitable[Result]) -> Result:
    """Await work that is not a request, and may be cancelled, for at most the call's time.

    Raises:
        Unreachable: the end has come.
        And as the work.
    """
    call = current_call()
    if call is None or call.end == NEVER:
        return await work
    with anyio.CancelScope(deadline=call.end):
        return await work
    raise call.cut()


class _InTime(ABC):
    """The block of a public call that may take `timeout` seconds; None for no limit.

    A call inside another one ends with it at the latest, and the outer one reports the outcome.
    """

    __slots__ = ("_before", "_call", "_outer", "_timeout")
    _call: Call

    def __init__(self, timeout: float | None) -> None:
        self._timeout = timeout

    def __enter__(self) -> Self:
        end = deadline_of(self._timeout)
        self._outer = current_call()
        if self._outer is not None:
            end = min(end, self._outer.end)
        self._call = Call(end)
        self._before = _current.set(self._call)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        _current.reset(self._before)
        call, outer = self._call, self._outer
        call.is_over = True
        if outer is not None:
            outer.has_asked |= call.has_asked
            outer.has_written |= call.has_written
            outer.in_doubt |= call.in_doubt
        if isinstance(error, LedgerError) and self.is_doubtful(error):
            error.outcome = "unknown"
        if call.is_cut and isinstance(error, StoreError):
            if outer is not None and has_come(outer.end):
                outer.is_cut = True
                return None
            raise self.late(call) from None
        return None

    def is_doubtful(self, error: LedgerError) -> bool:
        """Return whether an error of the call leaves open whether a write of it is applied."""
        del error
        return self._call.in_doubt

    @abstractmethod
    def late(self, call: Call) -> LedgerError:
        """Return the outcome of a call that its end has cut off."""


class reading(_InTime):  # noqa: N801 (used as a function is)
    """The block of a call that only reads.

    Raises:
        InvalidInput: the timeout is not a number above 0.
        ReadTooSlow: it has ended.
    """

    __slots__ = ()

    def late(self, call: Call) -> LedgerError:
        """Return the error: it was not read."""
        del call
        return not_read()


class changing(_InTime):  # noqa: N801 (used as a function is)
    """The block of a call that returns if it may have written, and raises if it has not.

    What it raises all the same once a write of it was left without an answer is of outcome unknown.
    Of a call that is bounded elsewhere, `changing(None)` notes that alone.

    Raises:
        InvalidInput: the timeout is not a number above 0.
        NotSent: it has ended, and the change is not written.
        OutcomeUnknown: it has ended, and the change may be written.
    """

    __slots__ = ()

    def late(self, call: Call) -> LedgerError:
        """Return the error: it was not sent, unless a write was left without an answer."""
        if not call.in_doubt:
            return not_sent()
        return unanswered("the change may be written", retryable=False)


class arranging(_InTime):  # noqa: N801 (used as a function is)
    """The block of a call of several writes; `advice` says what to do if some may be applied.

    Raises:
        InvalidInput: the timeout is not a number above 0.
        NotSent: it has ended before a write was sent.
        OutcomeUnknown: it has ended after that; `retryable` if the same call continues from there.
    """

    __slots__ = ("_advice", "_retryable")

    def __init__(self, timeout: float | None, advice: str, *, retryable: bool = True) -> None:
        super().__init__(timeout)
        self._advice = advice
        self._retryable = retryable

    def is_doubtful(self, error: LedgerError) -> bool:
        """Return whether it is so, or a request after a write was left without an answer."""
        return super().is_doubtful(error) or (
            isinstance(error, Unreachable) and self._call.has_written
        )

    def late(self, call: Call) -> LedgerError:
        """Return the error: it was not sent, or its outcome is unknown."""
        if not call.has_written:
            return not_sent()
        return unanswered(self._advice, retryable=self._retryable)


class interrupting(arranging):  # noqa: N801 (used as a function is)
    """The block of a long call that may be cut off anywhere, as by a crash: the next continues.

    Raises:
        As `arranging`.
    """

    __slots__ = ("_scope",)

    def __enter__(self) -> Self:
        super().__enter__()
        # The block is cut off as a whole, not request by request.
        self._scope = anyio.CancelScope(deadline=self._call.end)
        self._call.end = NEVER
        self._scope.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        is_handled = self._scope.__exit__(kind, error, traceback)
        super().__exit__(*(None, None, None) if is_handled else (kind, error, traceback))
        if self._scope.cancelled_caught:
            raise self.late(self._call)
        return is_handled


def unanswered(advice: str, *, retryable: bool = True) -> OutcomeUnknown:
    """Return the error of a call that ended when some of it may have been written."""
    return OutcomeUnknown(
        f"{TIMEOUT} before all was answered: {advice}", entries=(), retryable=retryable
    )


async def each_in_time(
    timeout: float | None, items: AsyncIterator[Result]
) -> AsyncIterator[Result]:
    """Yield what an iterator reads, with at most `timeout` seconds for each wait.

    Raises:
        InvalidInput: the timeout is not a number above 0.
        ReadTooSlow: it has ended.
        And as the iterator.
    """
    while True:
        with reading(timeout):
            try:
                item = await anext(items)
            except StopAsyncIteration:
                return
        yield item
