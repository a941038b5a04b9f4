"""One span for each call of a ledger, and spans of what calls share, linked to them."""

import asyncio
import builtins
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import StatusCode
from support.ledgers import HOME, LOCAL, make_ledger, make_settings
from support.spans import Spans, id_of, kept_spans, linked_by, parent_of, said

from ledger import Change, Ledger, Settings, sync
from ledger.core.errors import InvalidAmount, OutcomeUnknown, PackageMissing, SettingsError
from ledger.runtime.tracing.choice import tracing_of
from ledger.runtime.tracing.spans import Tracing
from ledger.store.memory import MemoryStore
from ledger.store.wrappers.faults import FaultyStore, InOrder, Lost
from ledger.store.wrappers.tracer import TracedStore
from ledger.testing.clock import ManualClock


@pytest.fixture
def spans() -> Spans:
    """The spans of the test."""
    return kept_spans()


def traced_ledger(store: MemoryStore | FaultyStore | None = None, **settings: Any) -> Ledger:
    """Return a traced ledger over a traced store in memory."""
    inner = TracedStore(store or MemoryStore(HOME), tracing=Tracing(), table="ledger")
    return make_ledger(inner, **{"tracing": "on", **settings})


async def test_a_lone_call_has_its_batch_and_request_below_it(spans: Spans) -> None:
    """One trace: the call, the batch of one, the put."""
    async with traced_ledger() as ledger:
        await ledger.record("ann", 3, note="for bob")

    call, batch = spans.one("Ledger.record"), spans.one("ledger.batch")
    put = spans.named("PutItem ledger")[0]
    assert parent_of(call) is None
    assert parent_of(batch) == id_of(call)
    assert parent_of(put) == id_of(batch)
    assert said(call, "ledger.outcome") == "applied"
    assert said(call, "cloud.region") == HOME


async def test_a_batch_is_linked_to_every_call_that_shares_it(spans: Spans) -> None:
    """It is a child of the first, since a span has one parent, and linked to all."""
    async with traced_ledger() as ledger:
        await asyncio.gather(*(ledger.record(f"c{number}", 1) for number in range(5)))

    calls = spans.named("Ledger.record")
    batch = spans.one("ledger.batch")
    assert linked_by(batch) == {id_of(call) for call in calls}
    assert parent_of(batch) in linked_by(batch)
    assert said(batch, "ledger.batch.calls") == said(batch, "ledger.batch.entries") == 5
    assert parent_of(spans.named("BatchWriteItem ledger")[0]) == id_of(batch)


async def test_combined_changes_are_calls_of_one_entry(spans: Spans) -> None:
    """Each call that the entry stands for is linked."""
    async with traced_ledger(combine=["c"]) as ledger:
        await asyncio.gather(*(ledger.record("c", 1) for _ in range(3)))

    batch = spans.one("ledger.batch")
    assert said(batch, "ledger.batch.entries") == 1
    assert linked_by(batch) == {id_of(call) for call in spans.named("Ledger.record")}


async def test_a_later_batch_is_not_below_the_call_that_started_the_task(spans: Spans) -> None:
    """Each batch belongs to its own callers, whichever call's task sends it."""
    async with traced_ledger() as ledger:
        await asyncio.gather(*(ledger.record(f"c{number}", 1) for number in range(60)))

    batches = spans.named("ledger.batch")
    assert len(batches) == 3
    assert all(parent_of(batch) in linked_by(batch) for batch in batches)
    assert len({parent_of(batch) for batch in batches}) == 3


async def test_a_shared_read_is_linked_to_the_calls_that_wait_for_it(spans: Spans) -> None:
    """Two calls for one counter share a read."""
    async with traced_ledger() as ledger:
        await asyncio.gather(ledger.total("c"), ledger.total("c"))

    read = spans.one("ledger.read")
    assert linked_by(read) == {id_of(call) for call in spans.named("Ledger.total")}
    assert parent_of(spans.one("Query ledger")) == id_of(read)


async def test_a_call_made_of_another_is_one_span(spans: Spans) -> None:
    """With a timeout, and of `periods` and `history`, a method calls itself or another."""
    async with traced_ledger() as ledger:
        await ledger.record("c", 1)
        await ledger.total("c", timeout=5)
        assert [entry async for entry in ledger.history("c", timeout=5)]

    assert spans.one("Ledger.total")
    assert spans.one("Ledger.history")


async def test_a_callers_span_is_the_parent_and_current_between_items(spans: Spans) -> None:
    """What the caller does with an item is not below the history's span."""
    async with traced_ledger() as ledger:
        await ledger.record("c", 1)
        with trace.get_tracer("test").start_as_current_span("mine") as mine:
            async for _entry in ledger.history("c"):
                assert trace.get_current_span() is mine

    assert parent_of(spans.one("Ledger.history")) == id_of(spans.one("mine"))
    queries = spans.named("Query ledger")
    assert {parent_of(query) for query in queries} == {id_of(spans.one("Ledger.history"))}


async def test_a_history_that_is_left_ends_its_span(spans: Spans) -> None:
    """A loop that breaks closes the generator."""
    async with traced_ledger() as ledger:
        await ledger.record("c", 1)
        entries = ledger.history("c")
        await anext(entries)
        await entries.aclose()  # type: ignore[attr-defined]

    assert spans.one("Ledger.history")


async def test_an_error_is_in_the_calls_span(spans: Spans) -> None:
    """By class, and by whether the change was made."""
    async with traced_ledger() as ledger:
        with pytest.raises(InvalidAmount):
            await ledger.record("c", "many")  # type: ignore[arg-type]

    span = spans.one("Ledger.record")
    assert said(span, "error.type") == "InvalidAmount"
    assert said(span, "ledger.outcome") == "not_applied"
    assert span.status.status_code is StatusCode.ERROR


async def test_an_unknown_outcome_is_in_the_calls_span(spans: Spans) -> None:
    """The batch of several does not fail; each call says what became of its change."""
    clock = ManualClock(instant=True)
    store = FaultyStore(MemoryStore(HOME), InOrder(*[Lost()] * 200), clock=clock)
    async with traced_ledger(store) as ledger:
        with pytest.raises(OutcomeUnknown):
            await ledger.record("c", 1)

    span = spans.one("Ledger.record")
    assert said(span, "ledger.outcome") == "unknown"


async def test_no_counter_and_no_note_is_in_a_span(spans: Spans) -> None:
    """They may be personal data."""
    async with traced_ledger() as ledger:
        await ledger.record("ann@example.com", 3, note="for bob")
        await ledger.record_many([("ann@example.com", 1), ("ann@example.com", 2)])
        await ledger.total("ann@example.com")
        with pytest.raises(InvalidAmount):
            await ledger.record("ann@example.com", 1.5)  # type: ignore[arg-type]

    assert "ann" not in spans.texts
    assert "bob" not in spans.texts


async def test_counters_are_named_where_the_setting_says_so(spans: Spans) -> None:
    """In the calls' spans; notes never are."""
    async with traced_ledger(tracing="counters", regions={HOME: LOCAL}) as ledger:
        (entry,) = await ledger.record_many([Change("b", 1, note="for bob")])
        await ledger.record("a", 1)
        await ledger.record_many([("c", 1), ("c", 1), ("d", 1)])
        await ledger.totals(["a", "b"])
        await ledger.reverse(entry)

    named = {span.name: said(span, "ledger.counters") for span in spans.all}
    assert named["Ledger.record"] == ("a",)
    assert named["Ledger.record_many"] == ("c", "d")
    assert named["Ledger.totals"] == ("a", "b")
    assert named["Ledger.reverse"] == ("b",)
    assert "bob" not in spans.texts


async def test_untraced_a_ledger_has_its_own_methods(spans: Spans) -> None:
    """Off, nothing is wrapped, so nothing is paid for."""
    async with make_ledger() as ledger:
        await ledger.record("c", 1)
        assert "record" not in vars(ledger)

    assert not spans.all


def test_without_the_extra_the_setting_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says what to install."""
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> object:
        if name.startswith(("opentelemetry", "ledger.runtime.tracing.spans")):
            raise ModuleNotFoundError(f"No module named {name!r}", name="opentelemetry")
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(PackageMissing, match=r"tracing: on needs opentelemetry-api: pip install"):
        tracing_of("on")


@pytest.mark.parametrize(
    ("given", "kept"), [(True, "on"), (False, "off"), ("on", "on"), ("counters", "counters")]
)
def test_what_yaml_reads_as_a_truth_is_taken_as_it_was_written(given: Any, kept: str) -> None:
    """Unquoted, `on` is true in YAML."""
    assert make_settings(tracing=given).tracing == kept


def test_any_other_value_is_refused() -> None:
    """A mistake does not turn it off."""
    with pytest.raises(SettingsError, match="tracing"):
        make_settings(tracing="yes")


def test_calls_without_async_are_spans_below_the_callers() -> None:
    """The context of the calling thread reaches the loop's thread, of a history too."""
    spans = kept_spans()
    mine = trace.get_tracer("test").start_as_current_span("mine")
    with sync.Ledger(traced_ledger()) as ledger, mine:
        ledger.record("c", 1)
        assert len(list(ledger.history("c"))) == 1

    parent = id_of(spans.one("mine"))
    assert parent_of(spans.one("Ledger.record")) == parent
    assert parent_of(spans.one("Ledger.history")) == parent


@pytest.mark.slow
async def test_by_the_setting_the_stores_that_are_opened_are_traced(
    ledger_settings: Settings,
) -> None:
    """Requests of a local global table: the endpoint's address is in them."""
    spans = kept_spans()
    async with Ledger.open(ledger_settings.replace(tracing=True)) as ledger:
        await ledger.record("c", 1)

    put = spans.named("PutItem ledger")[0]
    assert said(put, "server.address") == "127.0.0.1"
    assert parent_of(put) == id_of(spans.one("ledger.batch"))
    assert "WriteCapacityUnits" in str(said(put, "aws.dynamodb.consumed_capacity"))
