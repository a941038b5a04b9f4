"""The event loop of commands at a high rate: uvloop where it is installed."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


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
