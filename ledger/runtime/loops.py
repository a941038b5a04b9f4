"""The event loop: the caller's, of asyncio; in processes of our own uvloop, if it is installed."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from ledger.core.errors import LedgerError
from ledger.runtime.gc import is_gc_tuned, tune_gc

Result = TypeVar("Result")


def running_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of this task.

    Raises:
        LedgerError: there is none of asyncio's.
    """
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise LedgerError(
            "needs asyncio: open and use it in a task of an asyncio event loop (not of trio), or"
            " take `ledger.sync`"
        ) from None


def loop_name() -> str:
    """Return which loop `run_on_loop` takes."""
    try:
        import uvloop  # noqa: F401, PLC0415 (optional)
    except ModuleNotFoundError:
        return "asyncio"
    return "uvloop"


def run_on_loop(work: Coroutine[Any, Any, Result], *, loop: str | None = None) -> Result:
    """Run to the end on this loop, "uvloop" or "asyncio"; the faster one installed by default."""
    if (loop or loop_name()) == "uvloop":
        import uvloop  # noqa: PLC0415 (optional)

        return uvloop.run(work)
    return asyncio.run(work)


def new_runner() -> asyncio.Runner:
    """Return a runner on the faster loop, for a process that runs one task after another."""
    if loop_name() == "uvloop":
        import uvloop  # noqa: PLC0415 (optional)

        return asyncio.Runner(loop_factory=uvloop.new_event_loop)
    return asyncio.Runner()


def run_tuned(work: Coroutine[Any, Any, Result]) -> Result:
    """Run to the end on the faster loop, with garbage collected rarely from now on.

    For commands and functions that work at a high rate, in a process that is the ledger's own.
    """
    if not is_gc_tuned():
        tune_gc()
    return run_on_loop(work)
