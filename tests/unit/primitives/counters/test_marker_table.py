"""Markers in a table of their own: what it takes, and the way there and back without a repeat."""

from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.counting import fate_of, known_counter, make_counter, times_counted
from support.ledgers import HOME, make_settings, sample, seeded

from ledger.core.errors import InvalidInput, SettingsError
from ledger.primitives.counters import MarkerCounter
from ledger.primitives.counters.marking import earlier_key, marker_key
from ledger.runtime.metrics import Metrics
from ledger.store.memory import MemoryStore
from ledger.store.port import Store
from ledger.store.reads import Scan
from ledger.store.wrappers.faults import Call, Fault, FaultyStore, Late, Lost, NeverArrived
from ledger.store.wrappers.metered import MeteredStore
from ledger.store.writes import Applied, Put, Rejected
from ledger.table import Table
from ledger.testing.clock import ManualClock

MARKS = "ledger-markers"


def placing(store: Store, places: str, table: str = MARKS, **options: Any) -> Any:
    """Return a counter, used before, whose markers lie so."""
    counter = known_counter("marker", store, **options)
    counter.marker_table, counter.marker_places = table, places
    return counter


async def test_markers_lie_in_their_table_and_nothing_else_does() -> None:
    """A scan of the counter's table, or its stream, shows no marker; a repeat is recognized."""
    store = MemoryStore(HOME)
    counter: Any = MarkerCounter(
        store,
        "counter",
        clock=ManualClock(instant=True),
        randomness=seeded(),
        shards=2,
        marker_table=MARKS,
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


async def test_markers_before_are_found() -> None:
    """In the counter's table, where they lay, and at the place of earlier releases."""
    store = MemoryStore(HOME)
    await known_counter("marker", store).add(7, token="t")
    old = await known_counter("marker", store).store.get(
        placing(store, "own")._place_before("t").get
    )
    assert old is not None
    partition, sort_key = earlier_key("counter", "u")
    await store.write(Put({**old, "pk": {"S": partition}, "sk": {"S": sort_key}}))
    for places in ("own", "both"):
        for token in "tu":
            counter = placing(store, places)
            assert await counter.add(7, token=token) == Rejected("applied before")
            assert (await counter.add(8, token=token)).reason == "token conflict"
            assert await counter.lookup(token) is not None
    assert (
        await placing(store, "only").add(7, token="t") == Applied()
    )  # the choice once all expired


@pytest.mark.parametrize("order", [1, -1])
async def test_both_tables_work_beside_processes_that_know_one(order: int) -> None:
    """While the setting is deployed, either recognizes the tokens of the other."""
    store = MemoryStore(HOME)
    first, second = [known_counter("marker", store), placing(store, "both")][::order]
    assert await first.add(5, token="t") == Applied()
    assert await second.add(5, token="t") == Rejected("applied before")
    assert await placing(store, "own").add(5, token="t") == Rejected("applied before")
    assert await second.value() == 5


async def test_one_table_beside_processes_that_know_another_counts_twice() -> None:
    """The negative control: why the deploy has an order."""
    store = MemoryStore(HOME)
    await placing(store, "own").add(5, token="t")
    assert await known_counter("marker", store).add(5, token="t") == Applied()


@pytest.mark.parametrize(
    ("places", "token", "units"),
    [("own", "t", (4, 2)), ("own", None, (4, 0)), ("both", "t", (6, 1)), ("only", "t", (4, 0))],
)
async def test_what_a_change_costs(places: str, token: str | None, units: tuple[int, int]) -> None:
    """A caller's token costs a read in the table before, and one to learn of the place before."""
    metrics, clock = Metrics(None), ManualClock(instant=True)
    store = MeteredStore(MemoryStore(HOME), metrics=metrics, clock=clock)
    await placing(store, places, clock=clock).add(1, token=token)
    kinds = ("write", "read")
    assert (
        tuple(sample(metrics, "ledger_consumed_units_total", kind=kind) for kind in kinds) == units
    )


async def test_the_settings_name_the_table() -> None:
    """`marker_table` reaches counters of every method with markers, sharded or not."""
    store = MemoryStore(HOME)
    given = make_settings(marker_table=MARKS)
    async with Table(given, region=HOME, store=store, randomness=seeded()) as table:
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


def test_other_choices_are_refused() -> None:
    """The table itself is no table of markers' own, and there are three choices of places."""
    with pytest.raises(SettingsError, match="must not be 'ledger'"):
        make_settings(table="ledger", marker_table="ledger")
    with pytest.raises(InvalidInput, match="marker_places must be one of own, both, only"):
        make_counter("marker", MemoryStore(HOME), marker_places="old")  # type: ignore[arg-type]


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6))
def test_a_move_in_its_order_counts_each_token_once(seed: int) -> None:
    """One table, both, the other, and back: repeats anywhere, lost requests and late ones."""

    async def run() -> None:
        chance, inner, clock = seeded(seed), MemoryStore(HOME), ManualClock(instant=True)
        await make_counter("marker", inner).add(0)
        faults: list[Fault] = [Lost(), NeverArrived(), Late()]

        def decide(call: Call) -> Fault | None:
            is_faulty = call.operation == "transact" and chance.random() < 0.4
            return chance.choice(faults) if is_faulty else None

        store = FaultyStore(inner, decide, clock=clock)
        here, both, there = (
            known_counter("marker", store),
            placing(store, "both"),
            placing(store, "own"),
        )
        sure: set[int] = set()
        for phase in ([here, both], [both, there], [there]):
            for _ in range(10):
                place = chance.randrange(8)
                fate = await fate_of(chance.choice(phase).add(10**place, token=f"t{place}"))
                if isinstance(fate, Applied | Rejected):
                    sure.add(place)
                while store.in_flight and chance.random() < 0.3:
                    await store.land()
            while store.in_flight:  # none is signed that long
                await store.land()
        counted = times_counted(await here.value(), 8)
        assert set(counted) <= {0, 1}
        assert all(counted[place] == 1 for place in sure)

    anyio.run(run)
