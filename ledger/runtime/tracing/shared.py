"""Spans of work that several calls share: a batch of group commit, a read of the cache.

::

    call a ──────────────┐
       ▲  └── batch ─────┼────── PutItem         a child of the first call that is sampled,
    call b ·····link·····┘                       and linked to every call that shares it

The work is done in a task that one call started; its span is the current one there and may have
ended long ago. So each call is noted where it begins to wait.

Source: OpenTelemetry Specification, "Links between spans": batched work links to each cause.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext

from ledger.runtime.tracing.spans import Attributes, Tracing

LINKS_MAX = 128
"""Maximum links of a span: the SDK's default (OTEL_SPAN_LINK_COUNT_LIMIT)."""


class SharedSpans:
    """Makes spans of shared work; calls wait for objects that can be weakly referenced."""

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing
        self._callers: WeakKeyDictionary[object, list[SpanContext]] = WeakKeyDictionary()

    def waits(self, waiter: object) -> None:
        """Note that the current call waits for this."""
        caller = trace.get_current_span().get_span_context()
        if caller.is_valid:
            self._callers.setdefault(waiter, []).append(caller)

    @contextmanager
    def span(
        self, name: str, waiters: Sequence[object], *, attributes: Attributes | None = None
    ) -> Iterator[Span]:
        """Make a span of the work done for these."""
        callers = [context for waiter in waiters for context in self._callers.pop(waiter, ())]
        sampled = (caller for caller in callers if caller.trace_flags.sampled)
        first = next(sampled, callers[0] if callers else None)
        parent = Context()  # not the span of whichever call started this task
        if first is not None:
            parent = trace.set_span_in_context(NonRecordingSpan(first), parent)
        links = [Link(caller) for caller in callers[:LINKS_MAX]]
        with self._tracing.span(name, attributes=attributes, parent=parent, links=links) as span:
            yield span
