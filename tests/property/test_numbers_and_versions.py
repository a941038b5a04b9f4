"""Sequences and version guards over any faults of the store."""

from contextlib import suppress
from functools import partial

from hypothesis import given
from hypothesis import strategies as st
from proof.simulator import loop
from support.guarding import RECORD, SUBJECT, condition_guard, record_in, record_put
from support.ledgers import HOME, make_services, seeded
from support.numbering import LossCounter

from ledger.core.errors import StoreError
from ledger.primitives.sequences import CounterSequence, Numbered, SortKeySequence
from ledger.primitives.sequences.numbers import content_of
from ledger.primitives.versions import Event, Handled, is_tombstone, version_of
from ledger.store.memory import MemoryStore
from ledger.store.wrappers.faults import FaultyStore, Seeded
from ledger.store.writes import Delete

SEEDS = st.integers(0, 10**9)
SHARES = st.floats(0, 0.7)
DELIVERED = st.tuples(st.integers(0, 9), st.booleans())
"""A version, and whether it deletes."""
CALLS = 12


async def land_some(store: FaultyStore, seed: int) -> None:
    """Let a write in flight land, or not."""
    if store.in_flight and seeded(seed).random() < 0.5:
        await store.land()


async def append_all(seed: int, share: float) -> None:
    """Append under faults, and compare what is there with what was told."""
    inner = MemoryStore(HOME)
    store = FaultyStore(inner, Seeded(seed, share=share))
    told: dict[str, int] = {}
    refused: set[str] = set()
    for call in range(CALLS):
        client = SortKeySequence(store, "s", services=make_services(seed=seed + call))
        try:
            outcome = await client.append({"content": {"S": str(call)}})
        except StoreError:
            refused.add(str(call))
            continue
        if isinstance(outcome, Numbered):
            told[str(call)] = outcome.number
        await land_some(store, seed + call)
    while store.in_flight:
        await store.land()
    partition = inner.table.partitions.get("~sequence~s", {})
    items = [partition[key] for key in sorted(partition)]
    kept = {content_of(item)["content"]["S"]: int(item["sk"]["S"]) for item in items}
    assert len(kept) == len(items)
    assert sorted(kept.values()) == list(range(1, len(items) + 1))
    assert told.items() <= kept.items()
    assert not refused & set(kept)


async def append_twice(seed: int, share: float) -> None:
    """Append each content from two processes under one token, and compare their answers."""
    inner = MemoryStore(HOME)
    store = FaultyStore(inner, Seeded(seed, share=share))
    answers: dict[str, set[int]] = {}
    for call in range(2 * CALLS):
        name = str(call // 2)
        client = SortKeySequence(store, "s", services=make_services(seed=seed + call))
        with suppress(StoreError):
            outcome = await client.append({"content": {"S": name}}, token=name)
            if isinstance(outcome, Numbered):
                answers.setdefault(name, set()).add(outcome.number)
        await land_some(store, seed + call)
    while store.in_flight:
        await store.land()
    partition = inner.table.partitions.get("~sequence~s", {})
    items = [partition[key] for key in sorted(partition)]
    kept = [content_of(item)["content"]["S"] for item in items]
    assert [int(item["sk"]["S"]) for item in items] == list(range(1, len(items) + 1))
    assert len(set(kept)) == len(kept)
    assert all(numbers == {kept.index(name) + 1} for name, numbers in answers.items())


async def count_all(seed: int, share: float, block: int) -> None:
    """Take numbers under faults, and compare what is missing with what is stated."""
    store = FaultyStore(MemoryStore(HOME), Seeded(seed, share=share))
    losses = LossCounter(store, block=block)
    client = CounterSequence(losses, "s", services=make_services(seed=seed), block=block)
    numbers: list[int] = []
    for call in range(CALLS):
        try:
            outcome = await client.next()
        except StoreError:
            continue
        if isinstance(outcome, Numbered):
            numbers.append(outcome.number)
        await land_some(store, seed + call)
    assert numbers == sorted(set(numbers))
    if numbers:
        assert numbers[-1] - len(numbers) <= losses.unanswered


async def guard_all(seed: int, share: float, versions: list[tuple[int, bool]]) -> None:
    """Handle versions under faults: what is there is the newest that was handled, or newer."""
    inner = MemoryStore(HOME)
    store = FaultyStore(inner, Seeded(seed, share=share))
    guard = condition_guard(store)
    handled: list[int] = []
    for call, (version, deletes) in enumerate(versions):
        action = Delete(RECORD) if deletes else record_put(version)
        try:
            outcome = await guard.handle(Event(SUBJECT, version, deletes=deletes), [action])
        except StoreError:
            continue
        if isinstance(outcome, Handled):
            handled.append(version)
            assert record_in(inner.table) == (None if deletes else version)
        await land_some(store, seed + call)
    while store.in_flight:
        await store.land()
    assert handled == sorted(set(handled))
    newest = inner.table.get(Event(SUBJECT, 0).key)
    assert (version_of(newest) or 0) >= max(handled, default=0)
    assert newest is None or record_in(inner.table) == (
        None if is_tombstone(newest) else version_of(newest)
    )


@given(SEEDS, SHARES)
def test_by_sort_key_under_any_faults(seed: int, share: float) -> None:
    """No gap, no number twice, no item twice, and nothing there that was said not to be."""
    loop.run(partial(append_all, seed, share))


@given(SEEDS, SHARES)
def test_a_token_has_one_number_under_any_faults(seed: int, share: float) -> None:
    """Two processes with one token put one item, and get its number; no gap."""
    loop.run(partial(append_twice, seed, share))


@given(SEEDS, SHARES, st.integers(1, 5))
def test_by_counter_under_any_faults(seed: int, share: float, block: int) -> None:
    """Numbers of one client only grow, and no more are missing than it states."""
    loop.run(partial(count_all, seed, share, block))


@given(SEEDS, SHARES, st.lists(DELIVERED, max_size=CALLS))
def test_by_condition_under_any_faults(
    seed: int, share: float, versions: list[tuple[int, bool]]
) -> None:
    """Whatever arrives in whatever order, each version is handled once, and never after a newer."""
    loop.run(partial(guard_all, seed, share, versions))
