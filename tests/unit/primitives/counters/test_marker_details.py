"""What a caller stores with a change: kept with its marker, and returned to every repeat."""

from decimal import Decimal
from typing import Any

import pytest
from support.counting import make_counter
from support.ledgers import HOME, make_settings, sample, seeded

from ledger import Table, sync
from ledger.core.errors import (
    AmountOverflow,
    DamagedItem,
    InvalidAmount,
    InvalidEntry,
    InvalidInput,
)
from ledger.core.tokens import Marker
from ledger.primitives.counters import METHODS
from ledger.primitives.counters.marker_items import marker_key
from ledger.runtime.metrics import Metrics
from ledger.runtime.services import Services
from ledger.session.assembly import GivenConnections
from ledger.store.memory import MemoryStore
from ledger.store.reads import Get
from ledger.store.wrappers.faults import FaultyStore, InOrder, Lost
from ledger.store.wrappers.meter import MeteredStore
from ledger.store.writes import Applied, Put, Rejected, Unknown
from ledger.testing.clock import START, ManualClock

ORDER: dict[str, Any] = {"order": "4711", "pieces": 3, "price": Decimal("19.90"), "gift": True}
WITH_MARKERS = ["marker", "marker-sharded"]


@pytest.mark.parametrize("method", WITH_MARKERS)
async def test_a_repeat_returns_what_was_first_made(method: str) -> None:
    """The rejection, and a look, have the first call's change, time, region and details."""
    clock, store = ManualClock(instant=True), MemoryStore(HOME)
    await make_counter(method, store, clock=clock).add(-3, token="t", details=ORDER)
    clock.pass_by(3600)
    counter = make_counter(method, store, clock=clock)
    first = Marker(token="t", change=Decimal(-3), at=START, region=HOME, details=ORDER)
    for details in (None, ORDER, {**ORDER, "price": Decimal("19.9"), "pieces": Decimal(3)}):
        outcome = await counter.add(-3, token="t", details=details)
        assert outcome == Rejected("applied before")
        assert outcome.first == first
    assert await counter.lookup("t") == first
    assert await counter.lookup("u") is None
    assert await counter.value() == -3


@pytest.mark.parametrize(
    "other",
    [
        {**ORDER, "order": "4712"},
        {**ORDER, "pieces": 4},
        {**ORDER, "gift": 1},
        {**ORDER, "price": "19.90"},
        {**ORDER, "more": "x"},
        {"order": "4711"},
    ],
)
async def test_other_details_under_a_token_are_a_conflict(other: dict[str, Any]) -> None:
    """As with another change, it is refused, and shows what the token stands for."""
    counter = make_counter("marker", MemoryStore(HOME))
    await counter.add(-3, token="t", details=ORDER)
    outcome = await counter.add(-3, token="t", details=other)
    assert outcome.reason == "token conflict"
    assert "other details" in outcome.detail
    assert outcome.first.details == ORDER
    conflict = await counter.add(-4, token="t", details=ORDER)
    assert conflict == Rejected("token conflict", "the token stands for -3, not -4")
    assert conflict.first.change == -3


async def test_details_are_attributes_of_the_marker() -> None:
    """By their own names, for other tools; a marker without details has none."""
    store = MemoryStore(HOME)
    counter = make_counter("marker", store)
    await counter.add(1, token="t", details=ORDER)
    item = await store.get(Get(marker_key("counter", "t")))
    assert item is not None
    assert [item[name] for name in ORDER] == [
        {"S": "4711"},
        {"N": "3"},
        {"N": "19.9"},
        {"BOOL": True},
    ]
    await counter.add(1, token="u", details={})
    found = await counter.lookup("u")
    assert found is not None
    assert found.details == {}


async def test_details_without_a_token_are_kept_too() -> None:
    """The token made for the change names its marker; an unknown outcome has it."""
    store = FaultyStore(MemoryStore(HOME), InOrder(), clock=ManualClock(instant=True))
    counter = make_counter("marker", store)
    await counter.add(0)
    store.decide = InOrder(*[Lost()] * 5)
    outcome = await counter.add(7, details=ORDER)
    assert isinstance(outcome, Unknown)
    assert (await counter.add(7, token=outcome.token, details=ORDER)).first.details == ORDER


async def test_a_lost_answer_keeps_details_once() -> None:
    """The repeat of a call meets its own marker, with the details that it put."""
    store = FaultyStore(MemoryStore(HOME), InOrder(), clock=ManualClock(instant=True))
    counter = make_counter("marker", store)
    await counter.add(0, token="s")
    store.decide = InOrder(Lost())
    assert await counter.add(7, token="t", details=ORDER) == Applied()
    assert (await counter.lookup("t")).details == ORDER


async def test_a_marker_without_details_differs_from_none() -> None:
    """A repeat with details is told what was first made, without any."""
    counter = make_counter("marker", MemoryStore(HOME))
    await counter.add(2, token="t")
    outcome = await counter.add(2, token="t", details=ORDER)
    assert outcome == Rejected("applied before")
    assert outcome.first.details == {}


@pytest.mark.parametrize(
    ("details", "error", "message"),
    [
        ({"pk": "x"}, InvalidEntry, "must not be one of a marker's own, got 'pk'"),
        ({"change": 1}, InvalidEntry, "got 'change'"),
        ({"~expires": 1}, InvalidEntry, "got '~expires'"),
        ({"": "x"}, InvalidEntry, "1 to 255 bytes"),
        ({"é" * 128: "x"}, InvalidEntry, "1 to 255 bytes"),
        ({5: "x"}, InvalidEntry, "1 to 255 bytes"),
        (
            {"a": 1.5},
            InvalidEntry,
            "must be text, an int, a Decimal or a bool, got '1.5'",
        ),
        ({"a": None}, InvalidEntry, "got 'None'"),
        ({"a": ["x"]}, InvalidEntry, "list"),
        ({"a": "\ud800"}, InvalidEntry, "detail 'a' must be text"),
        ({"a": Decimal("NaN")}, InvalidAmount, "detail 'a': .*finite"),
        ({"a": 10**38 + 1}, AmountOverflow, "detail 'a': .*38 digits"),
        ({"a": "x" * 409_600}, InvalidEntry, "within 409,600 bytes"),
        (["a"], InvalidEntry, "details must be a mapping"),
    ],
)
async def test_details_that_break_a_rule_are_refused(
    details: Any, error: type[InvalidInput], message: str
) -> None:
    """The message names the detail and the rule; nothing is written."""
    store = MemoryStore(HOME)
    with pytest.raises(error, match=message):
        await make_counter("marker", store).add(1, token="t", details=details)
    assert store.table.partitions.get("~count~0~counter") is None


@pytest.mark.parametrize("method", [name for name in METHODS if name not in WITH_MARKERS])
async def test_methods_without_markers_refuse_details(method: str) -> None:
    """They keep nothing of a change, so they say so, and where it can be kept."""
    counter = make_counter(method, MemoryStore(HOME))
    with pytest.raises(InvalidInput, match=r"'counter': this method keeps no details.*'marker'"):
        await counter.add(1, details=ORDER)
    with pytest.raises(InvalidInput, match=r"'counter': this method keeps no markers.*'marker'"):
        await counter.lookup("t")
    assert await counter.value() == 0


async def test_a_damaged_marker_is_named() -> None:
    """What was edited by hand is no earlier change."""
    store = MemoryStore(HOME)
    partition, token = marker_key("counter", "t")
    item = {"pk": {"S": partition}, "sk": {"S": token}, "change": {"N": "1"}}
    await store.write(Put(item))
    with pytest.raises(DamagedItem, match="must have at and region"):
        await make_counter("marker", store).lookup("t")
    stamps = {"at": {"S": START.isoformat()}, "region": {"S": HOME}}
    await store.write(Put({**item, **stamps, "tags": {"SS": ["x"]}}))
    with pytest.raises(DamagedItem, match="tags must be text, a number or a bool"):
        await make_counter("marker", store).lookup("t")


async def test_a_look_is_a_read_and_details_a_kilobyte() -> None:
    """Small details cost nothing more; a look costs a read unit if no earlier marker is there."""
    metrics, clock = Metrics(None), ManualClock(instant=True)
    store = MeteredStore(MemoryStore(HOME), metrics=metrics, clock=clock)
    counter = make_counter("marker", store, clock=clock)
    await counter.add(0, token="s")
    before = sample(metrics, "ledger_consumed_units_total", kind="write")
    await counter.add(1, token="t", details=ORDER)
    assert sample(metrics, "ledger_consumed_units_total", kind="write") - before == 4
    before = sample(metrics, "ledger_consumed_units_total", kind="read")
    await counter.lookup("t")
    assert sample(metrics, "ledger_consumed_units_total", kind="read") - before == 1


def test_without_async_it_is_the_same() -> None:
    """The twin takes details and looks markers up."""
    table = Table(
        make_settings(),
        region=HOME,
        given=GivenConnections(store=MemoryStore(HOME)),
        services=Services.of(randomness=seeded()),
    )
    with sync.Table(table) as plain:
        counter = plain.counter("stock", method="marker", shards=2)
        counter.add(1, token="t", details=ORDER)
        found = counter.lookup("t")
        assert found is not None
        assert found.details == ORDER
