"""One span for each call of an object's public methods.

The methods are replaced only in the traced object, once, so other objects pay nothing. A method
that calls another method of the same object makes no second span.
"""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from functools import wraps
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import Span

from ledger.runtime.tracing.spans import COUNTERS, OUTCOME, REGION, Tracing, Value

COUNTERS_MAX = 100
"""The maximum number of counters in a span."""
_call: ContextVar[Span | None] = ContextVar("ledger_call", default=None)
"""The span of the call under way."""

CountersOf = Callable[[Mapping[str, Any]], Iterable[str]]


def trace_calls(
    target: object,
    methods: Iterable[str],
    tracing: Tracing,
    *,
    region: str,
    writes: Iterable[str] = (),
    counters_of: CountersOf = lambda _given: (),
) -> None:
    """Make a span of each call of these methods of an object, async ones or async generators.

    `writes` are those that return once the change is durable. `counters_of` finds the counters in
    the arguments, by name, of a call.
    """
    applied = frozenset(writes)
    for name in methods:
        method = getattr(target, name)
        outcome = "applied" if name in applied else None
        begin = _Begin(tracing, f"{type(target).__name__}.{name}", region, method, counters_of)
        is_generator = inspect.isasyncgenfunction(method)
        setattr(target, name, _each(begin) if is_generator else _one(begin, outcome))


class _Begin:
    """Begins the span of a call of one method."""

    def __init__(
        self,
        tracing: Tracing,
        name: str,
        region: str,
        method: Callable[..., Any],
        counters_of: CountersOf,
    ) -> None:
        self.tracing = tracing
        self.method = method
        self._name = name
        self._region = region
        self._signature = inspect.signature(method)
        self._counters_of = counters_of

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Span | None:
        """Return the span of a call; None if it is part of another one."""
        within = trace.get_current_span()
        if within is _call.get() and within.is_recording():
            return None
        attributes: dict[str, Value] = {REGION: self._region}
        if self.tracing.names_counters:
            attributes[COUNTERS] = self._counters(args, kwargs)
        return self.tracing.start(self._name, attributes)

    def _counters(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
        try:
            given = self._signature.bind(*args, **kwargs).arguments
            named = [str(counter) for counter in self._counters_of(given)]
        except Exception:  # noqa: BLE001 (the call itself reports what is wrong with them)
            return []
        return named[:COUNTERS_MAX]


def _one(begin: _Begin, outcome: str | None) -> Callable[..., Awaitable[Any]]:
    @wraps(begin.method)
    async def call(*args: Any, **kwargs: Any) -> Any:
        span = begin(args, kwargs)
        if span is None:
            return await begin.method(*args, **kwargs)
        within = _call.set(span)
        try:
            with begin.tracing.begun(span, ends=True):
                found = await begin.method(*args, **kwargs)
                if outcome is not None:
                    span.set_attribute(OUTCOME, outcome)
                return found
        finally:
            _call.reset(within)

    return call


def _each(begin: _Begin) -> Callable[..., AsyncIterator[Any]]:
    @wraps(begin.method)
    async def call(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        span = begin(args, kwargs)
        items = begin.method(*args, **kwargs)
        if span is None:
            async for item in items:
                yield item
            return
        try:
            while True:
                # Between two items the caller's own span is the current one.
                within = _call.set(span)
                try:
                    with begin.tracing.begun(span):
                        item = await anext(items, _END)
                finally:
                    _call.reset(within)
                if item is _END:
                    return
                yield item
        finally:
            span.end()
            await items.aclose()

    return call


_END = object()
