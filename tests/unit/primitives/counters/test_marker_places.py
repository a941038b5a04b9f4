"""Where markers lie: each in a partition of its own, beside those that an earlier release left."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.counting import fate_of, known_counter, make_counter, times_counted
from support.ledgers import HOME, make_settings, sample, seeded

from ledger.core.entry import Item
from ledger.core.errors import AccessDenied
from ledger.primitives.counters import MarkerCounter
from ledger.primitives.counters.earlier_markers import KNOWN_SECONDS, EarlierMarkers
from ledger.primitives.counters.layout import SHARDS_MAX
from ledger.primitives.counters.marker_places import Place
from ledger.primitives.counters.marking import earlier_key, marker_key
from ledger.runtime.metrics import Metrics
from ledger.store.memory import MemoryStore
from ledger.store.port import Store
from ledger.store.reads import Page, Query, Scan
from ledger.store.wrappers.faults import Call, Fault, FaultyStore, Late, Lost, NeverArrived
from ledger.store.wrappers.metered import MeteredStore
from ledger.store.writes import Applied, Delete, Rejected
from ledger.table import Table
from ledger.testing.clock import ManualClock

NAMES = st.text("ab~", min_size=1, max_size=6).filter(lambda name: name[0] != "~")
TOKENS = st.text("ab~", min_size=1, max_size=6)


class EarlierCounter(MarkerCounter):
    """A process of an earlier release: all markers of a counter in one partition."""

    def _places(self, token: str) -> list[Place]:
        return [Place(earlier_key(self.name, token))]

    @cached_property
    def earlier(self) -> EarlierMarkers:
        """No marker of any earlier release."""
        return Nothing(self.store, self.name, clock=self.clock)


class Nothing(EarlierMarkers):
    """Looks nowhere else."""

    async def found(self, token: str) -> Item | None:
        """Return nothing."""
        del token
        return None


def make_earlier(store: Store, **limits: Any) -> EarlierCounter:
    """Return the counter as a process of an earlier release has it."""
    chance = seeded()
    return EarlierCounter(
        store, "counter", clock=ManualClock(instant=True), randomness=chance, **limits
    )


def make_both(store: Store) -> Any:
    """Return the counter of a process that works beside an earlier release."""
    counter = known_counter("marker", store)
    counter.marker_places = "both"
    return counter


async def markers_in(store: MemoryStore) -> list[str]:
    """Return the partitions that have markers."""
    found = (await store.scan(Scan())).items
    return [item["pk"]["S"] for item in found if "marker" in item["pk"]["S"]]


async def test_each_marker_has_a_partition_of_its_own() -> None:
    """One partition takes 1,000 write units a second: markers of one counter share none."""
    store = MemoryStore(HOME)
    counter = known_counter("marker", store)
    for number in range(20):
        await counter.add(1, token=f"t{number}")
    assert len(set(await markers_in(store))) == 20


@given(one=st.tuples(NAMES, TOKENS), other=st.tuples(NAMES, TOKENS))
def test_no_two_markers_share_a_key(one: tuple[str, str], other: tuple[str, str]) -> None:
    """Counter and token are both in the key, whatever they are made of; no old key is a new one."""
    assert (marker_key(*one) == marker_key(*other)) == (one == other)
    assert marker_key(*one) != earlier_key(*other)


def test_the_longest_names_fit() -> None:
    """DynamoDB takes 2,048 bytes of partition key and 1,024 of sort key."""
    partition, sort_key = marker_key("é" * 512, "ü" * 512)
    assert len(partition.encode()) <= 2048
    assert len(sort_key.encode()) <= 1024


@pytest.mark.parametrize("method", ["marker", "marker-sharded"])
async def test_markers_of_an_earlier_release_are_found(method: str) -> None:
    """A repeat of a token that an earlier release counted is recognized, with its change."""
    store = MemoryStore(HOME)
    await make_earlier(store).add(7, token="t")
    counter = known_counter(method, store)
    assert await counter.add(7, token="t") == Rejected("applied before")
    assert (await counter.add(8, token="t")).reason == "token conflict"
    assert await known_counter("marker", store).value() == 7


async def test_the_old_place_is_looked_at_while_it_has_markers() -> None:
    """A caller's token costs a read unit meanwhile; none of ours does, and none does afterwards."""
    metrics, clock, inner = Metrics(None), ManualClock(instant=True), MemoryStore(HOME)
    store = MeteredStore(inner, metrics=metrics, clock=clock)
    await make_earlier(inner).add(1, token="old")
    counter = known_counter("marker", store, clock=clock)

    async def units(token: str | None) -> float:
        before = sample(metrics, "ledger_consumed_units_total", kind="read")
        await counter.add(1, token=token)
        return sample(metrics, "ledger_consumed_units_total", kind="read") - before

    assert await units(None) == 0
    assert await units("a") == 2  # whether there are any, and whether this is one
    assert await units("b") == 1
    await inner.write(Delete(earlier_key("counter", "old")))  # as the time to live does
    assert await units("c") == 1
    clock.pass_by(KNOWN_SECONDS)
    assert [await units("d"), await units("e")] == [1, 0]


async def test_without_the_permission_to_query_every_token_is_looked_at() -> None:
    """A policy of an earlier release allows no Query: markers are found one by one."""

    class Denied(MemoryStore):
        async def query(self, query: Query) -> Page:
            raise AccessDenied(f"no Query of {query.partition}")

    store = Denied(HOME)
    await make_earlier(store).add(1, token="t")
    assert await known_counter("marker", store).add(1, token="t") == Rejected("applied before")
    assert await known_counter("marker", store).add(1, token="u") == Applied()


@pytest.mark.parametrize("order", [1, -1])
async def test_both_places_work_beside_an_earlier_release(order: int) -> None:
    """While a release is deployed, either one recognizes the tokens of the other."""
    store = MemoryStore(HOME)
    counters: Sequence[Any] = [make_earlier(store), make_both(store)]
    first, second = counters[::order]
    assert await first.add(5, token="t") == Applied()
    assert await second.add(5, token="t") == Rejected("applied before")
    assert (await second.add(6, token="t")).reason == "token conflict"
    assert await known_counter("marker", store).add(5, token="t") == Rejected("applied before")
    assert await second.value() == 5


async def test_one_place_beside_an_earlier_release_counts_twice() -> None:
    """The negative control: why the deploy has an order."""
    store = MemoryStore(HOME)
    await known_counter("marker", store).add(5, token="t")
    assert await make_earlier(store).add(5, token="t") == Applied()


async def test_both_places_cost_two_units_more() -> None:
    """Three items in the transaction in place of two."""
    metrics, clock = Metrics(None), ManualClock(instant=True)
    store = MeteredStore(MemoryStore(HOME), metrics=metrics, clock=clock)
    counter = known_counter("marker", store, clock=clock)
    counter.marker_places = "both"
    await counter.add(1, token="t")
    assert sample(metrics, "ledger_consumed_units_total", kind="write") == 6
    assert sample(metrics, "ledger_consumed_units_total", kind="read") == 0


async def test_both_places_are_a_setting() -> None:
    """`marker_places: both` reaches counters of every method with markers, sharded or not."""
    store = MemoryStore(HOME)
    table = Table(
        make_settings(marker_places="both"), region=HOME, store=store, randomness=seeded()
    )
    async with table:
        await table.counter("plain", method="marker").add(1, token="t")
        await table.counter("wide", method="marker", shards=3).add(1, token="t")
        await table.counter("other", method="atomic").add(1, token="t")
    assert len(await markers_in(store)) == 4


async def test_a_change_over_the_most_shards_fits_in_a_transaction_of_both_places() -> None:
    """Markers in two places and the parts of a change together are no more than 100 actions."""
    store, clock = MemoryStore(HOME), ManualClock(instant=True)
    counter = MarkerCounter(
        store, "counter", clock=clock, randomness=seeded(), minimum=0, shards=SHARDS_MAX
    )
    await counter.add(SHARDS_MAX)
    counter.marker_places = "both"
    assert isinstance(await counter.add(-SHARDS_MAX), Applied)
    assert isinstance(await counter.add(SHARDS_MAX), Applied)
    assert await counter.value() == SHARDS_MAX


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6))
def test_a_deploy_in_its_order_counts_each_token_once(seed: int) -> None:
    """Both places beside an earlier release, then one: repeats anywhere, lost and late requests."""

    async def run() -> None:
        chance, inner, clock = seeded(seed), MemoryStore(HOME), ManualClock(instant=True)
        await make_counter("marker", inner).add(0)
        faults: list[Fault] = [Lost(), NeverArrived(), Late()]

        def decide(call: Call) -> Fault | None:
            is_faulty = call.operation == "transact" and chance.random() < 0.4
            return chance.choice(faults) if is_faulty else None

        store = FaultyStore(inner, decide, clock=clock)
        earlier, both, own = make_earlier(store), make_both(store), known_counter("marker", store)
        sure: set[int] = set()
        for phase in ([earlier, both], [both, own]):
            for _ in range(12):
                place = chance.randrange(8)
                fate = await fate_of(chance.choice(phase).add(10**place, token=f"t{place}"))
                if isinstance(fate, Applied | Rejected):
                    sure.add(place)
                while store.in_flight and chance.random() < 0.3:
                    await store.land()
            while store.in_flight:  # what an earlier release sent is not signed that long
                await store.land()
        counted = times_counted(await own.value(), 8)
        assert set(counted) <= {0, 1}
        assert all(counted[place] == 1 for place in sure)

    anyio.run(run)
