"""Spans kept in memory, for tests: the provider of the process can be set once."""

from functools import cache

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Spans:
    """The spans that ended since the test began."""

    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self._exporter = exporter

    @property
    def all(self) -> list[ReadableSpan]:
        """All of them, in the order of their ends."""
        return list(self._exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        """Those of a name."""
        return [span for span in self.all if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        """The only one of a name."""
        (span,) = self.named(name)
        return span

    @property
    def texts(self) -> str:
        """All that they say."""
        return "\n".join(span.to_json() for span in self.all)


@cache
def _exporter() -> InMemorySpanExporter:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return exporter


def kept_spans() -> Spans:
    """Return the spans from now on."""
    exporter = _exporter()
    exporter.clear()
    return Spans(exporter)


def said(span: ReadableSpan, name: str) -> object:
    """Return an attribute."""
    return (span.attributes or {}).get(name)


def id_of(span: ReadableSpan) -> int:
    """Return a span's id."""
    context = span.get_span_context()
    assert context is not None
    return context.span_id


def parent_of(span: ReadableSpan) -> int | None:
    """Return the id of a span's parent."""
    return span.parent.span_id if span.parent else None


def linked_by(span: ReadableSpan) -> set[int]:
    """Return the ids of the spans that a span is linked to."""
    return {link.context.span_id for link in span.links}
