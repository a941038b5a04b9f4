"""Writing changes together: all or none, whatever goes wrong."""

from collections.abc import Sequence
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.failing import always, faulty, land_all, many
from support.ledgers import HOME, amounts_of, changes, count_items, make_writer, two_regions

from ledger.core.entry import Item
from ledger.core.errors import (
    InvalidEntry,
    KeyConflict,
    OutcomeUnknown,
    StoreError,
    Throttled,
    Unreachable,
)
from ledger.store.memory import MemoryStore
from ledger.store.reads import Get
from ledger.store.wrappers.faults import (
    Fault,
    FaultyStore,
    InOrder,
    Late,
    Lost,
    NeverArrived,
    Raises,
    Seeded,
)
from ledger.store.writes import Action, Outcome, Rejected
from ledger.testing.clock import START
from ledger.writes.entry_plan import Change

SLOW_DOWN = Raises(Throttled("slow down"))
NO_CONNECTION = Raises(Unreachable("no connection"))
UNKNOWNS = (Lost(), NeverArrived(), Late())


@pytest.mark.parametrize(
    "faults", [(), *[(unknown, two) for unknown in UNKNOWNS for two in UNKNOWNS]]
)
async def test_together_is_all_once(faults: tuple[Fault, ...]) -> None:
    """All changes of a transaction are there once, however many of its answers were lost."""
    store, table = faulty(*faults)

    entries = await make_writer(store).record_together(many(100))
    await land_all(store)

    assert len(entries) == 100
    assert changes(table, "c") == amounts_of(100)


@pytest.mark.parametrize("fate", UNKNOWNS, ids=str)
async def test_together_unknown_is_retried_together(fate: Fault) -> None:
    """A transaction of unknown outcome says so, and its retry makes it whole, once."""
    store, table = always(fate)
    writer = make_writer(store, write_deadline=2)

    with pytest.raises(OutcomeUnknown, match="and 4 more") as caught:
        await writer.record_together(many(5))
    assert caught.value.together
    assert len(changes(table, "c")) in {0, 5}
    store.decide = InOrder()
    await writer.retry(caught.value.entries, together=caught.value.together)
    await land_all(store)

    assert changes(table, "c") == amounts_of(5)


async def test_together_conflict_writes_none() -> None:
    """One key that stands for another change keeps the whole transaction out."""
    store, table = faulty()
    writer = make_writer(store)
    await writer.record(Change("c", 100, key="k", at=START))

    with pytest.raises(KeyConflict):
        await writer.record_together([*many(5), Change("c", 200, key="k", at=START)])

    assert changes(table, "c") == [Decimal(100)]


async def test_together_completes_what_arrived_in_part_from_elsewhere() -> None:
    """Entries of the same call that came from another region are kept; the rest joins them."""
    world = two_regions()
    home, away = world.replicas.values()
    asked = [Change("c", n + 1, key=f"k{n}", at=START) for n in range(5)]
    entries = await make_writer(home).record_together(asked)
    arrived = {entry.id for entry in entries[:2]}
    world.deliver_only(lambda _, key: key[1] in arrived)

    again = await make_writer(away).record_together(asked)
    assert [entry.id for entry in again] == [entry.id for entry in entries]
    assert changes(away.table, "c") == amounts_of(5)

    world.deliver()
    assert changes(home.table, "c") == changes(away.table, "c") == amounts_of(5)


async def test_together_conflict_of_a_part_from_elsewhere_writes_none() -> None:
    """If one of the entries that are there is another change, the rest is not written."""
    home, away = two_regions().replicas.values()
    asked = [Change("c", n + 1, key=f"k{n}", at=START) for n in range(5)]
    await make_writer(away).record(asked[0])
    await make_writer(away).record(Change("c", 99, key="k3", at=START))

    with pytest.raises(KeyConflict):
        await make_writer(away).record_together(asked)

    assert changes(away.table, "c") == [Decimal(1), Decimal(99)]
    assert count_items(home.table) == 0


class ForgetfulStore(MemoryStore):
    """A store like an engine that does not hand back the items that were in the way."""

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Do a transaction, but tell nothing of what failed."""
        outcome = await super().transact(actions, token=token)
        if isinstance(outcome, Rejected):
            return Rejected(found=dict.fromkeys(outcome.found))
        return outcome


async def test_together_reads_what_was_in_the_way_where_the_engine_hands_back_nothing() -> None:
    """A key that stands for another change is a conflict, not taken for our own."""
    store = ForgetfulStore(HOME)
    writer = make_writer(store)
    kept = [Change("c", 1, key="k", at=START), Change("c", 2, key="l", at=START)]
    await writer.record_together(kept)

    with pytest.raises(KeyConflict):
        await writer.record_together([*many(5), Change("c", 200, key="k", at=START)])
    assert changes(store.table, "c") == amounts_of(2)
    await writer.record_together([*kept, Change("c", 3)])
    assert changes(store.table, "c") == amounts_of(3)


class GoneStore(ForgetfulStore):
    """The same, and the item in the way is gone, or cannot be read, when it is asked for."""

    error: StoreError | None = None

    async def get(self, get: Get) -> Item | None:
        """Find nothing."""
        del get
        if self.error is not None:
            raise self.error
        return None


@pytest.mark.parametrize("error", [None, Throttled("slow down")])
async def test_together_is_unknown_if_what_was_in_the_way_cannot_be_read(
    error: StoreError | None,
) -> None:
    """What was in the way may have been another change: nothing is confirmed unread."""
    store = GoneStore(HOME)
    store.error = error
    writer = make_writer(store)
    kept = Change("c", 1, key="k", at=START)
    await writer.record(kept)

    with pytest.raises(OutcomeUnknown, match="under its key") as caught:
        await writer.record_together([kept, Change("c", 2)])
    assert caught.value.together
    assert [entry.change for entry in caught.value.entries] == [1, 2]
    assert changes(store.table, "c") == amounts_of(1)


@given(seed=st.integers(0, 2**32), share=st.floats(0, 0.9))
async def test_property_together_is_all_or_none(seed: int, share: float) -> None:
    """At every moment, under any faults, a transaction is wholly there or not at all."""
    home = MemoryStore(HOME)
    store = FaultyStore(home, Seeded(seed, share=share))
    writer = make_writer(store, seed=seed, write_deadline=2)
    expected = amounts_of(7)
    try:
        await writer.record_together(many(7))
    except OutcomeUnknown as error:
        assert changes(home.table, "c") in ([], expected)
        store.decide = InOrder()
        await writer.retry(error.entries, together=True)
    except StoreError:
        expected = []
    assert changes(home.table, "c") == expected
    await land_all(store)
    assert changes(home.table, "c") == expected


async def test_together_is_bounded() -> None:
    """101 changes, or over 4 MB of them, are refused by an error that names both numbers."""
    store, table = faulty()
    writer = make_writer(store)

    with pytest.raises(InvalidEntry, match=r"101 changes together: .*up to 100"):
        await writer.record_together(many(101))
    with pytest.raises(InvalidEntry, match=r"bytes together: .*up to 4,194,304"):
        await writer.record_together([Change("c", 1, note="n" * 400_000)] * 11)

    assert count_items(table) == 0
    assert store.calls == 0


async def test_together_counts_what_is_left_of_duplicates() -> None:
    """101 changes of which two are the same keyed call are 100, and are written."""
    store, table = faulty()
    twice = Change("c", 1000, key="k", at=START)

    await make_writer(store).record_together([twice, *many(99), twice])

    assert len(changes(table, "c")) == 100
