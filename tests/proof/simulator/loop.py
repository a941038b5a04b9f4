"""An event loop on virtual time: it never waits, time jumps to the next timer.

A whole run is a function of its inputs: callbacks run in the order in which they were scheduled,
timers in the order of their times, and tasks hash by their number, so that a set of tasks (anyio
keeps several) is iterated in the same order every time.
"""

import asyncio
import heapq
import itertools
import math
from asyncio import base_events
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any, TypeVar, TypeVarTuple, Unpack, cast

import anyio

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

TURNS_PER_MOMENT_MAX = 100_000
"""Turns of the loop at one moment after which it counts as spinning."""


class Stuck(RuntimeError):
    """Nothing can happen any more, or the same moment never ends."""


class _NumberedTask(asyncio.Task[Any]):
    """A task that hashes by its number, not by its address in memory."""

    def __init__(self, *args: Any, number: int, **options: Any) -> None:
        self._number = number
        super().__init__(*args, **options)

    def __hash__(self) -> int:
        return self._number

    def __repr__(self) -> str:
        return f"<task {self._number}>"


class _Call(asyncio.TimerHandle):
    """A callback that will run, or has been cancelled; lighter than those of asyncio."""

    __slots__ = ("args", "callback", "context", "is_cancelled")

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
        when: float = 0.0,
    ) -> None:
        self.callback = callback
        self.args = args
        self.context = copy_context() if context is None else context
        self.is_cancelled = False
        self._when = when

    def __repr__(self) -> str:
        return f"<{'cancelled' if self.is_cancelled else 'call'} at {self._when:.3f} s>"

    def cancel(self) -> None:
        self.is_cancelled = True
        self.args = ()

    def cancelled(self) -> bool:
        return self.is_cancelled


class VirtualLoop(base_events.BaseEventLoop):
    """An asyncio loop without sockets, threads or waiting; its time begins at zero.

    Timers of the same moment fire in the order in which they were set. What a callback raises ends
    the run.
    """

    _ready: "deque[asyncio.Handle]"
    _stopping: bool

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._turns = 0
        self._timers: list[tuple[float, int, _Call]] = []
        self._numbers = itertools.count()
        self.set_task_factory(cast("Any", self._make_task))

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self._now

    def call_soon(
        self,
        callback: Callable[[Unpack[Arguments]], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """Call back at this moment, after what is to be called already."""
        call = _Call(callback, args, context)
        self._ready.append(call)
        return call

    def call_soon_threadsafe(
        self,
        callback: Callable[[Unpack[Arguments]], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """Call back soon; there are no other threads, but Ctrl-C wakes a loop this way."""
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Arguments]], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call back after some seconds."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Arguments]], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call back at a moment; an infinite wait sets no timer, so time does not run on for it."""
        call = _Call(callback, args, context, when)
        if when < math.inf:
            heapq.heappush(self._timers, (when, next(self._numbers), call))
        return call

    def _run_once(self) -> None:
        """Run what is ready; if nothing is, jump to the next timer."""
        ready = cast("deque[_Call]", self._ready)
        if not ready and not self._stopping:
            self._jump()
        self._turns += 1
        if self._turns > TURNS_PER_MOMENT_MAX:
            self._turns = 0  # tasks still have to unwind
            raise Stuck(f"at {self._now:.3f} s the loop spins")
        for _ in range(len(ready)):
            call = ready.popleft()
            if not call.is_cancelled:
                call.context.run(call.callback, *call.args)

    def _jump(self) -> None:
        """Move time on to the next timer and make it ready."""
        timers = self._timers
        while timers:
            when, _, call = heapq.heappop(timers)
            if call.is_cancelled:
                continue
            if when > self._now:
                self._now, self._turns = when, 0
            self._ready.append(call)
            return
        raise Stuck(f"at {self._now:.3f} s every task waits for ever")

    def _make_task(
        self,
        loop: asyncio.AbstractEventLoop,
        coroutine: Coroutine[Any, Any, Any],
        context: Context | None = None,
        **options: Any,
    ) -> _NumberedTask:
        number = next(self._numbers)
        return _NumberedTask(coroutine, number=number, loop=loop, context=context, **options)

    def _write_to_self(self) -> None:
        """Do nothing: the loop never waits, so it need not be woken."""


def run(main: Callable[[], Awaitable[Result]]) -> Result:
    """Run to the end on virtual time, which takes only as long as the computation.

    Raises:
        Stuck: everything waits for ever, or one moment never ends.
    """
    return anyio.run(main, backend_options={"loop_factory": VirtualLoop})
