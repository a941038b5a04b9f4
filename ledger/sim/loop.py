"""An event loop on virtual time: nobody ever waits, time jumps to the next timer.

A whole run is a function of its inputs: callbacks run in the order in which they were scheduled,
timers in the order of their times, and tasks hash by their number, so that a set of tasks (anyio
keeps several) is iterated in the same order every time.
"""

import asyncio
import math
from asyncio import base_events
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar, TypeVarTuple, Unpack, cast

import anyio

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

TURNS_PER_MOMENT_MAX = 100_000
"""So many turns of the loop without any time passing are a loop that spins."""

_CLOCK_RESOLUTION_SECONDS = 1e-9


class Stuck(RuntimeError):
    """Nothing can happen any more, or the same moment never ends."""


class _NumberedTask(asyncio.Task[Any]):
    """A task that hashes by its number, not by where it lies in memory."""

    def __init__(self, *args: Any, number: int, **options: Any) -> None:
        self._number = number
        super().__init__(*args, **options)

    def __hash__(self) -> int:
        return self._number


class _Jump:
    """Stands where a loop waits for sockets: instead of waiting, time moves on."""

    def __init__(self) -> None:
        self.now = 0.0
        self._turns = 0

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise Stuck(f"at {self.now:.3f} s every task waits for something that never comes")
        self._turns = 0 if timeout > 0 else self._turns + 1
        if self._turns > TURNS_PER_MOMENT_MAX:
            self._turns = 0  # tasks still have to unwind
            raise Stuck(f"at {self.now:.3f} s the loop turns without end")
        self.now += timeout
        return []


class VirtualLoop(base_events.BaseEventLoop):
    """An asyncio loop without sockets, threads or waiting; its time begins at zero."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = _Jump()
        self._clock_resolution = _CLOCK_RESOLUTION_SECONDS
        self._tasks_made = 0
        self.set_task_factory(cast("Any", self._make_task))

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self._selector.now

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Arguments]], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call back at a moment; what waits for ever has no timer, or time would run on for it."""
        if math.isinf(when):
            return asyncio.TimerHandle(when, callback, args, self, context)
        return super().call_at(when, callback, *args, context=context)

    def _make_task(
        self,
        loop: asyncio.AbstractEventLoop,
        coroutine: Coroutine[Any, Any, Any],
        context: Context | None = None,
        **options: Any,
    ) -> _NumberedTask:
        self._tasks_made += 1
        return _NumberedTask(
            coroutine, number=self._tasks_made, loop=loop, context=context, **options
        )

    def _process_events(self, events: list[Any]) -> None:
        """There are no sockets, so there are no events."""

    def _write_to_self(self) -> None:
        """Nobody waits, so nobody has to be woken."""


def run(main: Callable[[], Awaitable[Result]]) -> Result:
    """Run to the end on virtual time, which takes no longer than the computing.

    Raises:
        Stuck: everything waits for ever, or one moment never ends.
    """
    return anyio.run(main, backend_options={"loop_factory": VirtualLoop})
