"""Counters under random faults: what callers are told, against what was counted."""

from decimal import Decimal
from functools import partial
from itertools import combinations

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.counting import EXACT, Fate, fate_of, make_counter, times_counted, wrong
from support.ledgers import seeded

from ledger.core.errors import StoreError
from ledger.primitives.counters.slots import SLOTS
from ledger.store.memory import MemoryStore
from ledger.store.reads import Get
from ledger.store.wrappers.faults import FaultyStore, Seeded
from ledger.store.writes import Applied, Rejected, Unknown
from ledger.testing.clock import ManualClock

CHANGES = 8
SEEDS = st.integers(0, 10**6)
SHARES = st.sampled_from((0.2, 0.5, 0.8))


async def stormy(method: str, seed: int, share: float) -> tuple[list[Fate], list[int]]:
    """Make all changes while writes are lost, late or refused; returns fates and counts."""
    chance, inner = seeded(seed), MemoryStore("us-east-1")
    await make_counter(method, inner).add(0)  # so that the storm meets changes, not the first use
    store = FaultyStore(inner, Seeded(seed, share=share), clock=ManualClock(instant=True))
    counter = make_counter(method, store, randomness=seeded(seed + 1))
    fates = []
    for place in range(CHANGES):
        fates.append(await fate_of(counter.add(Decimal(10) ** place)))
        while store.in_flight and chance.random() < 0.5:
            store.in_flight.rotate(chance.randrange(len(store.in_flight)))
            await landed(store)
    while store.in_flight:
        await landed(store)
    value = await make_counter(method, inner).value()
    return fates, times_counted(value, CHANGES)


async def landed(store: FaultyStore) -> None:
    """Let a late write reach the table; what it is answered no one hears."""
    try:
        await store.land()
    except StoreError:
        return


@pytest.mark.parametrize("method", [*EXACT, "collection"])
@given(seed=SEEDS, share=SHARES)
def test_exact_methods_count_as_they_say(method: str, seed: int, share: float) -> None:
    """Applied is counted once, rejected not at all, unknown at most once, whatever goes wrong."""
    fates, counted = anyio.run(stormy, method, seed, share)
    assert wrong(fates, counted) == []


@pytest.mark.parametrize("method", ["atomic-once"])
@given(seed=SEEDS, share=SHARES)
def test_atomic_once_is_exact_but_for_the_unknown(method: str, seed: int, share: float) -> None:
    """Tried once, a change is counted at most once; how many were not, no one can tell."""
    fates, counted = anyio.run(stormy, method, seed, share)
    assert wrong(fates, counted) == []


@pytest.mark.parametrize("method", ["atomic", "atomic-sharded"])
def test_repeated_atomic_changes_count_too_often(method: str) -> None:
    """The mutant: the same faults make a repeated `ADD` count changes twice and more."""
    seeds = range(20)
    found = [wrong(*anyio.run(stormy, method, seed, 0.5)) for seed in seeds]
    assert sum(map(bool, found)) > len(seeds) / 2


@pytest.mark.parametrize("method", ["atomic", "optimistic", "history", "client-token", "marker"])
@given(seed=SEEDS, changes=st.lists(st.integers(-6, 6), max_size=12))
def test_thresholds_hold_under_faults(method: str, seed: int, changes: list[int]) -> None:
    """Whatever is lost, late or repeated, the value never leaves its thresholds."""

    async def run() -> None:
        inner = MemoryStore("us-east-1")
        store = FaultyStore(inner, Seeded(seed, share=0.5), clock=ManualClock(instant=True))
        counter = make_counter(method, store, randomness=seeded(seed), minimum=-3, maximum=7)
        plain = make_counter(method, inner)
        for change in changes:
            await fate_of(counter.add(change))
            assert -3 <= await plain.value() <= 7
        while store.in_flight:
            await landed(store)
            assert -3 <= await plain.value() <= 7

    anyio.run(run)


@pytest.mark.parametrize("method", EXACT)
@given(seed=SEEDS, changes=st.lists(st.integers(-(10**6), 10**6), max_size=8, unique=True))
def test_exact_methods_count_as_they_say_at_thresholds(
    method: str, seed: int, changes: list[int]
) -> None:
    """What a threshold rejected is not counted later either, when a late request finds room."""

    async def run() -> None:
        chance, inner = seeded(seed), MemoryStore("us-east-1")
        store = FaultyStore(inner, Seeded(seed, share=0.5), clock=ManualClock(instant=True))
        counter = make_counter(method, store, randomness=chance, minimum=-(10**6), maximum=10**6)
        fates = []
        for change in changes:
            fates.append(await fate_of(counter.add(change)))
            while store.in_flight and chance.random() < 0.3:
                await landed(store)
        while store.in_flight:
            await landed(store)
        pairs = list(zip(changes, fates, strict=True))
        applied = sum(change for change, fate in pairs if isinstance(fate, Applied))
        unknown = [change for change, fate in pairs if isinstance(fate, Unknown)]
        possible = {
            applied + sum(some)
            for count in range(len(unknown) + 1)
            for some in combinations(unknown, count)
        }
        assert int(await make_counter(method, inner).value()) in possible, pairs

    anyio.run(run)


@pytest.mark.parametrize("method", ["atomic", "client-token", "marker"])
@given(seed=SEEDS, changes=st.lists(st.integers(-9, 9), max_size=12))
def test_thresholds_of_the_sum_hold_over_shards(method: str, seed: int, changes: list[int]) -> None:
    """Split or not, under faults and with shards added, the sum never leaves its thresholds."""

    async def run() -> None:
        inner, chance = MemoryStore("us-east-1"), seeded(seed)
        store = FaultyStore(inner, Seeded(seed, share=0.3), clock=ManualClock(instant=True))
        make = partial(make_counter, method, randomness=chance, minimum=-5, maximum=11)
        counter, plain = (make(one, shards=3) for one in (store, inner))
        for change in changes:
            await fate_of(counter.add(change))
            if chance.random() < 0.2:
                plain = make(inner, shards=await plain.shards() + 1)
            while store.in_flight and chance.random() < 0.3:
                await landed(store)
            assert -5 <= await plain.value() <= 11

    anyio.run(run)


@given(seed=SEEDS, share=SHARES)
def test_a_slot_is_held_as_told(seed: int, share: float) -> None:
    """A token holds a slot if its caller was told so, and none if told otherwise."""

    async def run() -> None:
        inner = MemoryStore("us-east-1")
        store = FaultyStore(inner, Seeded(seed, share=share), clock=ManualClock(instant=True))
        counter = make_counter("slots", store, randomness=seeded(seed), maximum=5)
        fates = [await fate_of(counter.add(1, token=f"t{place}")) for place in range(CHANGES)]
        while store.in_flight:
            await landed(store)
        held = ((await inner.get(Get(counter.key(0)))) or {}).get(SLOTS, {"SS": []})["SS"]
        assert len(held) <= 5
        for place, fate in enumerate(fates):
            if not isinstance(fate, Unknown):
                assert (f"t{place}" in held) == isinstance(fate, Applied)
        for token in list(held):
            fate = await fate_of(counter.add(-1, token=token))
            if not isinstance(fate, Unknown):
                now = ((await inner.get(Get(counter.key(0)))) or {}).get(SLOTS, {"SS": []})["SS"]
                assert (token not in now) == isinstance(fate, Applied)
            assert not isinstance(fate, Rejected)

    anyio.run(run)
