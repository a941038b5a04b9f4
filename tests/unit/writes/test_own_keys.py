"""Entries whose ids follow from keys of their own: proved, at the price of any other."""

from decimal import Decimal

import pytest
from support.ledgers import HOME, make_writer, seeded
from support.sharing import GatedStore, ones, record_all, sharing

from ledger.core.errors import OutcomeUnknown
from ledger.core.own_keys import is_proved
from ledger.core.parts import whole_of
from ledger.core.values import Entry, Spending
from ledger.store.memory import MemoryStore
from ledger.store.wrappers.faults import FaultyStore, Lost
from ledger.testing.clock import ManualClock
from ledger.writes.entry_plan import Change


@pytest.mark.parametrize("combine", [[], ["c"]])
async def test_an_entry_whose_outcome_is_unknown_has_its_key(combine: list[str]) -> None:
    """Alone, in a batch, and with many in one item, of which each caller gets the key."""
    store = FaultyStore(MemoryStore(HOME), lambda _call: Lost())
    asked = [*ones(30), Change("other", 2, note="n")]
    async with sharing(store, combine=combine, has_own_keys=True) as writer:
        told = await record_all(writer, asked)
    assert len(told) == 31
    for one in told:
        assert isinstance(one, OutcomeUnknown)
        assert all(is_proved(whole_of(entry)) for entry in one.entries)
        assert len(one.entries) == 1


async def test_changes_of_one_call_have_keys() -> None:
    """Independent ones and those of a transaction; that of a caller is its own."""
    clock = ManualClock(instant=True)
    asked = [Change("a", 1), Change("b", 2, key="order-17", at=clock.now())]
    writer = make_writer(MemoryStore(HOME), clock=clock, has_own_keys=True)
    many = [*await writer.record_many(asked), *await writer.record_together(asked)]
    entries = [*many, *await writer.record_many([Change("c", 1), Change("c", 2)])]
    assert entries[1].key == "order-17"
    assert all(is_proved(entry) for entry in entries if not entry.repeated)


async def test_no_key_is_kept_in_the_table() -> None:
    """So nobody who reads sees one; nor does the text of an entry, which a log may have."""
    store = MemoryStore(HOME)
    async with sharing(store, has_own_keys=True) as writer:
        told = await record_all(writer, ones(3))
    keys = [one.key for one in told if isinstance(one, Entry)]
    assert None not in keys
    assert len(keys) == len({*keys}) == 3
    shown = f"{list(store.table.items())} {told}"
    assert not any(key in shown for key in keys if key)


async def test_an_own_key_costs_no_request_and_no_item() -> None:
    """They share batches, and combined counters go on being combined."""

    async def cost(*, has_own_keys: bool) -> tuple[list[int], int]:
        store = GatedStore()
        async with sharing(store, combine=["c"], has_own_keys=has_own_keys) as writer:
            await record_all(writer, [*ones(100), *ones(60, "single")])
        return store.sizes, len(list(store.table.items()))

    assert await cost(has_own_keys=True) == await cost(has_own_keys=False)


async def test_a_spend_without_a_key_has_none() -> None:
    """It cannot be repeated, so nothing proves that it may be."""
    writer = make_writer(MemoryStore(HOME), has_own_keys=True)
    entry = writer.planned(Change("key/42", Decimal(-1)), Spending(("us-east-1.1/1",))).entry
    assert entry.key is None


async def test_without_own_keys_an_id_is_random() -> None:
    """As in the library, whose callers have credentials for the table itself."""
    entry = await make_writer(MemoryStore(HOME)).record(Change("a", 1))
    assert entry.key is None
    assert int(entry.id[-16:], 16) == seeded().getrandbits(64)
