"""A context that stays open between calls, held by a supervisor: a task of its own.

A task group or a cancel scope must be left by the task that entered it, in reverse order of all
that this task entered. So a context made of them is entered and left by a task that does nothing
else; opening and closing it are messages, which any task of the event loop may send::

    open ────> supervisor enters the context, waits, ────────> leaves it, ends
                          └──> open returns      ^                      └──> close returns
    close ───────────────────────────────────────┘

- Only one opening is active at a time; after closing it can be opened again.
- If the opening task is cancelled, the cancellation is raised once everything opened so far is
  closed. If the closing task is cancelled, closing is cut short, and the cancellation is raised
  once everything is closed.
- An error of a background task closes it: later uses fail with that error as their cause, and
  closing raises the error itself.
- It belongs to one event loop of one process. A fork cannot use it, but can open it again.

Objects that a process opened and a fork inherits, without the threads and loops behind them.
"""

import asyncio
import logging
import os
from asyncio import _get_running_loop
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Generic, TypeVar

import anyio

from ledger.core.errors import LedgerError
from ledger.runtime.loops import running_loop
from ledger.runtime.tasks import first_error_alone, is_cancelled

_inherited: list[object] = []


class ForkOwner:
    """The process that created this."""

    def __init__(self) -> None:
        self._pid = os.getpid()

    @property
    def is_another(self) -> bool:
        """Whether this process is a fork of the owner."""
        return os.getpid() != self._pid

    def check(self) -> None:
        """Refuse use in another process.

        Raises:
            LedgerError: a fork inherited it.
        """
        if self.is_another:
            raise LedgerError(
                f"opened in process {self._pid}, and process {os.getpid()} is a fork of it: open"
                " it after the fork, in each process"
            )


def keep_inherited(thing: object) -> None:
    """Keep what the parent opened, unused, until this process ends.

    Its sockets and selectors are shared with the parent: finalizing it could close them there.
    """
    _inherited.append(thing)


Resource = TypeVar("Resource")
MakeContext = Callable[[], AbstractAsyncContextManager[Resource]]

CUT_OFF_SECONDS_MAX = 10.0
"""How long a cancelled task waits for the end of what was cut off; it ends by itself, too."""
log = logging.getLogger(__name__)
_supervisors: set[asyncio.Task[None]] = set()
"""An event loop keeps no reference to a task: an unclosed one is closed by `asyncio.run`."""


class Supervised(Generic[Resource]):
    """A context that any task of one event loop may open, use and close."""

    def __init__(self, context: MakeContext[Resource]) -> None:
        """Take the factory of the context, called at each opening."""
        self._context = context
        self._held: _Held[Resource] | None = None

    async def open(self) -> Resource:
        """Enter the context and return its resource.

        Raises:
            LedgerError: it is open already, or closed before it was open; or the event loop is not
                asyncio's.
            And as entering.
        """
        if (before := self._held) is not None:
            if not before.has_ended and not before.is_lost:
                raise LedgerError("already open: close it first, or create another one")
            self._forget(before)
        held = self._held = _Held(running_loop())
        return await held.open(self._context)

    async def close(self) -> None:
        """Leave the context and wait until it is left; idempotent.

        Raises:
            LedgerError: it was opened in another event loop, which still exists.
            And the error of a background task, or of leaving; once.
        """
        held = self._held
        if held is None:
            return
        if not held.has_ended and not held.is_lost:
            held.check_loop()
            await held.close()
        self._forget(held)
        held.raise_error()

    @property
    def resource(self) -> Resource:
        """The resource, for use outside of a task: it must be open.

        Raises:
            LedgerError: it is not open.
        """
        if self._held is None or not self._held.is_open:
            raise self._not_open()
        return self._held.resource

    def here(self) -> Resource:
        """Return the resource for a call from a task of its event loop.

        Raises:
            LedgerError: it is not open, or in another event loop or process.
        """
        held = self._held
        if held is None or not held.is_open:
            raise self._not_open()
        if _get_running_loop() is not held.loop:  # this call is very cheap
            held.check_loop()
        return held.resource

    def _not_open(self) -> LedgerError:
        error = LedgerError("not open: use it inside `async with`")
        cause = None if self._held is None else self._held.error
        if cause is not None:
            error = LedgerError(f"closed by an error in the background: {cause!r}")
            error.__cause__ = cause
        return error

    def _forget(self, held: "_Held[Resource]") -> None:
        if self._held is held:
            self._held = None
        if held.owner.is_another:
            keep_inherited(held)


@asynccontextmanager
async def supervised(context: AbstractAsyncContextManager[Resource]) -> AsyncIterator[Resource]:
    """Enter a context in a separate task, so that any task may leave it.

    An error of the body is not passed to it: it is left as at the end of the body.
    """
    held = Supervised(lambda: context)
    resource = await held.open()
    try:
        yield resource
    finally:
        await held.close()


class _Held(Generic[Resource]):
    """One opening, until everything is closed; `resource` is set while it is open."""

    resource: Resource

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.owner = ForkOwner()
        self.is_open = False
        self.error: BaseException | None = None
        self.has_ended = False
        self.loop = loop
        self._scope = anyio.CancelScope()
        self._answered = anyio.Event()
        self._closing = anyio.Event()
        self._ended = anyio.Event()

    @property
    def is_lost(self) -> bool:
        """Whether its process, or its event loop, no longer exists."""
        return self.owner.is_another or self.loop.is_closed()

    def check_loop(self) -> None:
        """Refuse use from another event loop.

        Raises:
            LedgerError: this is not the event loop in which it was opened.
        """
        if running_loop() is not self.loop:
            self.owner.check()
            raise LedgerError(
                "opened in another event loop: use and close it in the one that opened it, or"
                " use `ledger.sync` from any thread"
            )

    async def open(self, context: MakeContext[Resource]) -> Resource:
        """Begin, and wait until the context is entered."""
        task = self.loop.create_task(self._hold(context), name="ledger supervisor")
        _supervisors.add(task)
        task.add_done_callback(_supervisors.discard)
        try:
            await self._answered.wait()
        except BaseException:  # cancelled
            await self._cut_off()
            raise
        if not self.is_open:
            self.raise_error()
            raise LedgerError("closed before it was open")
        return self.resource

    async def close(self) -> None:
        """Leave the context and wait for the end."""
        self.is_open = False
        self._closing.set()
        if not self._answered.is_set():
            self._scope.cancel()
        # A task that is cancelled already would be cancelled again at each wait of its exits.
        if is_cancelled():
            await self._cut_off()
            return
        try:
            await self._ended.wait()
        except BaseException:  # cancelled
            await self._cut_off()
            raise

    def raise_error(self) -> None:
        """Raise the error that ended it, if any; once."""
        error, self.error = self.error, None
        if error is not None:
            raise error

    async def _cut_off(self) -> None:
        """Cancel everything in the context, and wait for the end.

        With a limit: the cancelled task may be one of the context itself, which waits for that
        task.
        """
        self.is_open = False
        self._scope.cancel()
        with anyio.move_on_after(CUT_OFF_SECONDS_MAX, shield=True):
            await self._ended.wait()

    async def _hold(self, context: MakeContext[Resource]) -> None:
        """Enter the context, wait, and leave it."""
        try:
            with first_error_alone(), self._scope:
                async with context() as resource:
                    self.resource, self.is_open = resource, True
                    self._answered.set()
                    await self._closing.wait()
        except Exception as error:  # noqa: BLE001 (raised to openers, users and closers)
            self._failed(error)
        finally:
            self.is_open, self.has_ended = False, True
            self._answered.set()
            self._ended.set()

    def _failed(self, error: Exception) -> None:
        self.error = error
        if self.is_open:
            log.error("closed by an error in the background", exc_info=error)
