"""Async objects called from any thread: one event loop in a thread of its own, behind a portal."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    ExitStack,
    contextmanager,
)
from functools import partial, wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from anyio.from_thread import BlockingPortal, start_blocking_portal

from ledger.core.errors import LedgerError

P = ParamSpec("P")
Result = TypeVar("Result")
Behind = TypeVar("Behind")
Behind_co = TypeVar("Behind_co", covariant=True)
Openable = TypeVar("Openable", bound=AbstractAsyncContextManager[Any])

_END = object()


class Loop:
    """The event loop in its thread; there is none before opening and after closing."""

    def __init__(self) -> None:
        self._portal: BlockingPortal | None = None

    @property
    def portal(self) -> BlockingPortal:
        """The way into the loop.

        Raises:
            LedgerError: there is no loop.
        """
        if self._portal is None:
            raise LedgerError("not open: use it inside `with`")
        return self._portal

    @contextmanager
    def run(self, behind: AbstractAsyncContextManager[Any]) -> Iterator[None]:
        """Run the loop, with `behind` entered in it."""
        if self._portal is not None:
            raise LedgerError("already open")
        with start_blocking_portal() as portal, portal.wrap_async_context_manager(behind):
            self._portal = portal
            try:
                yield
            finally:
                self._portal = None


class Sync(Generic[Behind_co]):
    """An async object whose methods are called from any thread."""

    def __init__(self, behind: Behind_co, loop: Loop) -> None:
        self._behind = behind
        self._loop = loop


class Opened(Sync[Openable]):
    """An async object that is opened by `with`, in a loop of its own."""

    def __init__(self, behind: Openable, loop: Loop | None = None) -> None:
        super().__init__(behind, loop or Loop())
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self._loop.run(self._behind))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections and end the thread; it may be repeated."""
        self._stack.close()


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
        items = method(self._behind, *args, **kwargs)

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
        return self._loop.portal.wrap_async_context_manager(method(self._behind, *args, **kwargs))

    return call
