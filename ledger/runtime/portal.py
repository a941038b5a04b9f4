"""Async objects called from any thread: one event loop in a thread of its own, behind a portal."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from functools import partial, wraps
from threading import Thread
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar
from warnings import warn
from weakref import finalize

import anyio
from anyio.from_thread import BlockingPortal

from ledger.core.errors import LedgerError
from ledger.runtime.supervisor import ForkOwner, keep_inherited

P = ParamSpec("P")
Result = TypeVar("Result")
Behind = TypeVar("Behind")
Behind_co = TypeVar("Behind_co", covariant=True)
Openable = TypeVar("Openable", bound=AbstractAsyncContextManager[Any])

_END = object()
_NOT_OPEN = "not open: use it inside `with`"
_CLOSED = "not open any more: its table or ledger was closed; create it again from an open one"


class HasPortal(Protocol):
    """An object with access to an event loop."""

    @property
    def portal(self) -> BlockingPortal:
        """The portal to the loop."""


class Opening:
    """An event loop in a thread of its own, with an async object entered in it.

    Dropped without `leave`, by the last object that uses it, it is closed all the same: what is
    under way is cancelled, and a `ResourceWarning` says so.
    """

    def __init__(self) -> None:
        self._owner = ForkOwner()
        self._thread = _LoopThread()
        self._entered: AbstractContextManager[Any] | None = None
        self._on_drop = finalize(self, _end_dropped, self._owner, self._thread)
        self._on_drop.atexit = False  # the thread ends with the process

    @property
    def is_inherited(self) -> bool:
        """Whether this process is a fork, without the thread."""
        return self._owner.is_another

    @property
    def portal(self) -> BlockingPortal:
        """The portal to the loop.

        Raises:
            LedgerError: it is closed, or was opened before a fork.
        """
        self._owner.check()
        if self._entered is None:
            raise LedgerError(_CLOSED)
        return self._thread.portal

    def enter(self, behind: AbstractAsyncContextManager[Any]) -> None:
        """Enter the object; if that fails the thread has ended."""
        entered = self._thread.portal.wrap_async_context_manager(behind)
        try:
            entered.__enter__()
        except BaseException:
            self._on_drop.detach()
            self._thread.stop(cancel=True)
            raise
        self._entered = entered

    def leave(self) -> None:
        """Leave the object, and end the thread; no effect if that is done or under way."""
        entered, self._entered = self._entered, None
        if entered is not None:
            self._on_drop.detach()
            try:
                entered.__exit__(None, None, None)
            finally:
                self._thread.stop()


class _LoopThread:
    """A thread that runs an event loop until it is stopped.

    Not held by a generator, as with `start_blocking_portal`: at the end of a forked child it would
    be closed, and wait for a thread that does not exist there.
    """

    def __init__(self) -> None:
        self._started: Future[BlockingPortal] = Future()
        self._thread = Thread(target=self._run, name="ledger loop", daemon=True)
        self._thread.start()
        self.portal = self._started.result()

    def stop(self, *, cancel: bool = False) -> None:
        """End the loop, with or without waiting for the calls under way."""
        self.portal.call(self.portal.stop, cancel)
        self._thread.join()

    def stop_soon(self) -> None:
        """End the loop, and what runs in it, without waiting: from any thread, its own included."""
        with suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(self._dropped.set)

    def _run(self) -> None:
        try:
            anyio.run(self._serve)
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)  # no loop could be created: raised to the opener

    async def _serve(self) -> None:
        self._loop, self._dropped = asyncio.get_running_loop(), anyio.Event()
        async with BlockingPortal() as portal, anyio.create_task_group() as tasks:
            tasks.start_soon(self._until_dropped, portal)
            self._started.set_result(portal)
            await portal.sleep_until_stopped()
            tasks.cancel_scope.cancel()

    async def _until_dropped(self, portal: BlockingPortal) -> None:
        await self._dropped.wait()
        await portal.stop(cancel_remaining=True)


def _end_dropped(owner: ForkOwner, thread: _LoopThread) -> None:
    """End the thread of an opening that nothing refers to; a fork only forgets it."""
    if owner.is_another:
        keep_inherited(thread)
        return
    thread.stop_soon()
    warn(
        "a table or ledger of `ledger.sync` was dropped while it was open: use it in `with`, or"
        " close it",
        ResourceWarning,
        stacklevel=2,
    )


class Loop:
    """The loop of an object that can be opened; it exists only while the object is open.

    A child process can neither use what its parent opened before a fork, nor close it for the
    parent; it can open the object again.
    """

    def __init__(self) -> None:
        self._opening: Opening | None = None

    @property
    def portal(self) -> BlockingPortal:
        """The portal to the loop.

        Raises:
            LedgerError: it is not open, or was opened before a fork.
        """
        if self._opening is None:
            raise LedgerError(_NOT_OPEN)
        return self._opening.portal

    @property
    def current(self) -> HasPortal:
        """The loop of this opening, for objects created while it is open."""
        return self if self._opening is None else self._opening

    def open(self, behind: AbstractAsyncContextManager[Any]) -> None:
        """Start the loop, with `behind` entered in it.

        Raises:
            LedgerError: it is open already.
            And as entering.
        """
        if self._opening is not None and not self._opening.is_inherited:
            raise LedgerError("already open: close it first, or create another one")
        self.close()
        opening = Opening()
        opening.enter(behind)
        self._opening = opening

    def close(self) -> None:
        """Leave the object and end the thread; a fork only forgets them."""
        opening, self._opening = self._opening, None
        if opening is None:
            return
        if opening.is_inherited:
            keep_inherited(opening)
        else:
            opening.leave()


class Sync(Generic[Behind_co]):
    """An async object whose methods are called from any thread."""

    def __init__(self, behind: Behind_co, loop: HasPortal) -> None:
        self._behind = behind
        self._loop = loop


class Opened(Sync[Openable]):
    """An async object that is opened by `with`, in a loop of its own."""

    _loop: Loop

    def __init__(self, behind: Openable, loop: Loop | None = None) -> None:
        """Use the loop of another object, which opens and closes this one as well."""
        super().__init__(behind, loop or Loop())
        self._has_opened = False

    def __enter__(self) -> Self:
        self._loop.open(self._behind)
        self._has_opened = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections and end the thread, from any thread; idempotent.

        A part of another object is closed with it. In a forked child nothing of the parent's is
        closed.
        """
        if self._has_opened:
            self._has_opened = False
            self._loop.close()


class Entered(AbstractContextManager[Result]):
    """An async context for `with`: entered and left by the loop; a fork only forgets it."""

    def __init__(self, loop: HasPortal, context: AbstractAsyncContextManager[Result]) -> None:
        self._owner = ForkOwner()
        self._loop = loop  # kept, or it would be closed when nothing else refers to it
        self._context = loop.portal.wrap_async_context_manager(context)

    def __enter__(self) -> Result:
        return self._context.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        if self._owner.is_another:
            keep_inherited(self._context)
            return None
        return self._context.__exit__(kind, error, traceback)


def plain(
    method: Callable[Concatenate[Behind, P], Awaitable[Result]],
) -> Callable[Concatenate[Sync[Behind], P], Result]:
    """Return the method that waits for an async one, with its signature and docstring."""

    @wraps(method)
    def call(self: Sync[Behind], /, *args: P.args, **kwargs: P.kwargs) -> Result:
        bound = getattr(self._behind, method.__name__)
        result: Result = self._loop.portal.call(partial(bound, *args, **kwargs))
        return result

    return call


def iterator(
    method: Callable[Concatenate[Behind, P], AsyncIterator[Result]],
) -> Callable[Concatenate[Sync[Behind], P], Iterator[Result]]:
    """Return the method that yields what an async one yields."""

    @wraps(method)
    def call(self: Sync[Behind], /, *args: P.args, **kwargs: P.kwargs) -> Iterator[Result]:
        items = getattr(self._behind, method.__name__)(*args, **kwargs)

        async def following() -> Any:
            return await anext(items, _END)

        while (item := self._loop.portal.call(following)) is not _END:
            yield item

    return call


def context(
    method: Callable[Concatenate[Behind, P], AbstractAsyncContextManager[Result]],
) -> Callable[Concatenate[Sync[Behind], P], AbstractContextManager[Result]]:
    """Return the method that opens an async context for `with`."""

    @wraps(method)
    def call(
        self: Sync[Behind], /, *args: P.args, **kwargs: P.kwargs
    ) -> AbstractContextManager[Result]:
        return Entered(self._loop, method(self._behind, *args, **kwargs))

    return call
