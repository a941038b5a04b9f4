"""The end of one call that its caller bounds by `timeout`: a time of the event loop."""

import math
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from ledger.core.errors import InvalidInput, LedgerError, NotSent, ReadTooSlow

Result = TypeVar("Result")

NEVER = math.inf
TIMEOUT = "the call's timeout ended"


def end_of(timeout: float | None) -> float:
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
    return NotSent(f"{TIMEOUT} before anything was sent: it is not written")


def not_read() -> ReadTooSlow:
    """Return the error of a read that did not finish by the end."""
    return ReadTooSlow(f"{TIMEOUT} before it was read")
