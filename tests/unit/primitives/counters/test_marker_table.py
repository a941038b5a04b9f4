"""Markers in a table of their own: the cost, the settings, and each token counted once."""

from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.counting import fate_of, known_counter, make_counter, times_counted
from support.ledgers import HOME, make_services, make_settings, sample, seeded

from ledger.core.errors import InvalidInput, SettingsError
from ledger.primitives.counters import MarkerCounter
from ledger.primitives.counters.marker_items import marker_key
from ledger.runtime.metrics import Metrics
from ledger.runtime.services import Services
from ledger.session.assembly import GivenConnections
from ledger.store.memory import MemoryStore
from ledger.store.reads import Scan
from ledger.store.wrappers.faults import Fault, FaultCall, FaultyStore, Late, Lost, NeverArrived
from ledger.store.wrappers.meter import MeteredStore
from ledger.store.writes import Applied, Rejected
from ledger.table import Table
from ledger.testing.clock import ManualClock

MARKS = "ledger-markers"


async def test_markers_lie_in_their_table_and_nothing_else_does() -> None:
    """A scan of the counter's table, or its stream, shows no marker; a repeat is recognized."""
    store = MemoryStore(HOME)
    counter: Any = MarkerCounter(
        store, "counter", services=make_services(), shards=2, marker_table=MARKS
    )
    assert await counter.add(5, token="t") == Applied()
    assert await counter.add(5, token="t") == Rejected("applied before")
    assert (await counter.add(6, token="t")).reason == "token conflict"
    made = await counter.lookup("t")
    assert made is not None
    assert (made.token, made.change) == ("t", 5)
    assert not [item for item in (await store.scan(Scan())).items if "marker" in item["pk"]["S"]]
    assert [*store.table.others[MARKS].partitions] == [marker_key("counter", "t")[0]]
    assert await counter.value() == 5


@pytest.mark.parametrize("token", ["t", None])
async def test_a_change_costs_as_much_as_in_one_table(token: str | None) -> None:
    """A transaction spans two tables of one region, and nothing is read."""
    metrics, clock = Metrics(None), ManualClock(instant=True)
    store = MeteredStore(MemoryStore(HOME), metrics=metrics, clock=clock)
    counter = known_counter("marker", store, clock=clock, marker_table=MARKS)
    await counter.add(1, token=token)
    assert sample(metrics, "ledger_consumed_units_total", kind="write") == 4
    assert sample(metrics, "ledger_consumed_units_total", kind="read") == 0


async def test_the_settings_name_the_table() -> None:
    """`marker_table` reaches counters of every method with markers, sharded or not."""
    store = MemoryStore(HOME)
    given = make_settings(marker_table=MARKS)
    async with Table(
        given,
        region=HOME,
        given=GivenConnections(store=store),
        services=Services.of(randomness=seeded()),
    ) as table:
        await table.counter("plain", method="marker").add(1, token="t")
        await table.counter("wide", method="marker-sharded").add(1, token="t")
        await table.counter("other", method="atomic").add(1, token="t")
    assert len(store.table.others[MARKS].partitions) == 2


@pytest.mark.parametrize("name", ["", "ab", "a b", "x" * 256, 7])
async def test_a_table_has_a_name_that_dynamodb_allows(name: Any) -> None:
    """Another is refused by name, in the settings and by the constructor."""
    with pytest.raises(InvalidInput, match="marker_table"):
        make_counter("marker", MemoryStore(HOME), marker_table=name)
    with pytest.raises(SettingsError, match="marker_table"):
        make_settings(marker_table=name)


def test_the_table_itself_is_no_table_of_markers_own() -> None:
    """Leaving the setting out is the way to have the markers there."""
    with pytest.raises(SettingsError, match="must not be 'ledger'"):
        make_settings(table="ledger", marker_table="ledger")


@given(seed=st.integers(0, 10**6))
def test_each_token_counts_once(seed: int) -> None:
    """Of two processes, with repeats anywhere, lost requests and late ones."""

    async def run() -> None:
        chance, inner, clock = seeded(seed), MemoryStore(HOME), ManualClock(instant=True)
        await make_counter("marker", inner).add(0)
        faults: list[Fault] = [Lost(), NeverArrived(), Late()]

        def decide(call: FaultCall) -> Fault | None:
            is_faulty = call.operation == "transact" and chance.random() < 0.4
            return chance.choice(faults) if is_faulty else None

        store = FaultyStore(inner, decide, clock=clock)
        counters = [known_counter("marker", store, marker_table=MARKS) for _ in range(2)]
        sure: set[int] = set()
        for _ in range(20):
            place = chance.randrange(8)
            fate = await fate_of(chance.choice(counters).add(10**place, token=f"t{place}"))
            if isinstance(fate, Applied | Rejected):
                sure.add(place)
            while store.in_flight and chance.random() < 0.3:
                await store.land()
        while store.in_flight:
            await store.land()
        counted = times_counted(await counters[0].value(), 8)
        assert set(counted) <= {0, 1}
        assert all(counted[place] == 1 for place in sure)

    anyio.run(run)
