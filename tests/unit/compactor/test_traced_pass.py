"""The span of a pass: what it visited and did, and what hindered it."""

import pytest
from opentelemetry.trace import StatusCode
from support.compacting import World, compactor_settings
from support.ledgers import HOME, WEST
from support.spans import kept_spans, said

from ledger.core.errors import Unreachable
from ledger.store.wrappers.faults import Raises


async def test_a_pass_is_a_span_with_its_visits_counted() -> None:
    """It says what was due, visited, folded and merged; no collection is named."""
    world, spans = World(), kept_spans()
    await world.settled(entries=6, counter="ann")
    await world.run_once(world.instance(settings=compactor_settings().replace(tracing="on")))

    (span,) = spans.all
    assert span.name == "compactor.pass"
    counted = ("collections", "folds", "merged")
    assert [said(span, f"ledger.pass.{name}") for name in counted] == [1, 1, 6]
    assert said(span, "ledger.pass.outcome") == "done"
    assert "ann" not in spans.texts


async def test_a_pass_that_waits_is_an_error_in_its_span() -> None:
    """A region that cannot be read stops merging, and the span says so."""
    world, spans = World(), kept_spans()
    await world.settled(entries=6)
    one = world.instance(settings=compactor_settings().replace(tracing="on"))
    one.faults[WEST] = lambda _call: Raises(Unreachable("no route"))
    await world.run_once(one)

    (span,) = spans.all
    assert said(span, "error.type") == "waiting"
    assert span.status.status_code is StatusCode.ERROR


async def test_a_pass_that_fails_is_an_error_in_its_span() -> None:
    """So does an error that ends it, by its class."""
    world, spans = World(), kept_spans()
    await world.settled(entries=6)
    one = world.instance(settings=compactor_settings().replace(tracing="on"))
    one.faults[HOME] = lambda call: (
        Raises(Unreachable("no route")) if call.operation == "scan" else None
    )
    with pytest.raises(Unreachable):
        await world.run_once(one)

    assert said(spans.one("compactor.pass"), "error.type") == "Unreachable"
