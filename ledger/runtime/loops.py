"""The event loop: the caller's asyncio loop; in our own processes uvloop, if it is installed."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from ledger.core.errors import LedgerError
from ledger.runtime.gc import is_gc_tuned, tune_gc

Result = TypeVar("Result")


def running_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of this task.

    Raises:
        LedgerError: there is none of asyncio.
    """
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise LedgerError(
            "needs asyncio: open and use it in a task of an asyncio event loop (not of trio), or"
            " use `ledger.sync`"
        ) from None


def loop_name() -> str:
    """Return the loop that `run_on_loop` uses."""
    try:
        import uvloop  # noqa: F401, PLC0415 (optional)
    except ModuleNotFoundError:
        return "asyncio"
    return "uvloop"


def run_on_loop(work: Coroutine[Any, Any, Result], *, loop: str | None = None) -> Result:
    """Run to completion on "uvloop" or "asyncio"; by default on the faster one installed."""
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
    """Run to completion on the faster loop, with rare garbage collection.

    For commands and functions with a high rate, in a process that belongs to the ledger.
    """
    if not is_gc_tuned():
        tune_gc()
    return run_on_loop(work)
