"""Spans, by the API of OpenTelemetry: the program brings the SDK and the exporter, or neither.

Errors are recorded by `error.type`, the name of the class, and the status. Their messages name
counters, which may be personal data, so a span has them only where counters may be named.

Source: OpenTelemetry Semantic Conventions, "Recording errors".
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, StatusCode

from ledger.core.errors import LedgerError

INSTRUMENTATION = "ledger"
"""The name under which spans are made."""
REGION, OUTCOME, COUNTERS = "cloud.region", "ledger.outcome", "ledger.counters"

Value = str | bool | int | float | Sequence[str]
Attributes = Mapping[str, Value]


class Tracing:
    """Makes spans; `names_counters` is whether ids of counters may be in them."""

    def __init__(self, *, names_counters: bool = False) -> None:
        self.names_counters = names_counters
        self._tracer = trace.get_tracer(INSTRUMENTATION)

    @contextmanager
    def span(
        self,
        name: str,
        *,
        attributes: Attributes | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        parent: Context | None = None,
        links: Sequence[Link] = (),
    ) -> Iterator[Span]:
        """Make a span of the block, current for everything that it calls."""
        with self.begun(
            self._tracer.start_span(
                name, context=parent, kind=kind, attributes=attributes, links=links
            ),
            ends=True,
        ) as span:
            yield span

    @contextmanager
    def begun(self, span: Span, *, ends: bool = False) -> Iterator[Span]:
        """Make a span current in the block; an error is recorded in it, and raised."""
        with trace.use_span(
            span, end_on_exit=ends, record_exception=False, set_status_on_exception=False
        ):
            try:
                yield span
            except Exception as error:
                self.failed(span, error)
                raise

    def start(self, name: str, attributes: Attributes) -> Span:
        """Return a span that its starter must end."""
        return self._tracer.start_span(name, attributes=attributes)

    @staticmethod
    def hindered(span: Span) -> None:
        """Mark a span as failed, without an error."""
        span.set_status(StatusCode.ERROR)

    def failed(self, span: Span, error: Exception) -> None:
        """Record in a span the error that it ended with."""
        span.set_attribute("error.type", type(error).__name__)
        if isinstance(error, LedgerError):
            span.set_attribute(OUTCOME, error.outcome)
        span.set_status(StatusCode.ERROR, str(error) if self.names_counters else None)
