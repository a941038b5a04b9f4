"""Descriptions in one region and in two: what stays, what the last writer takes, what fails."""

from dataclasses import replace
from typing import Any

import pytest
from support.ledgers import AWAY, HOME, make_ledger, make_settings, seeded, two_regions

from ledger.core.descriptions import description_key
from ledger.core.errors import (
    ContractConflict,
    DamagedItem,
    InvalidCounter,
    InvalidInput,
    OutcomeUnknown,
    StoreError,
)
from ledger.runtime.services import Services
from ledger.session.descriptions import Descriptions
from ledger.store.memory import MemoryStore
from ledger.store.port import Store
from ledger.store.wrappers.faults import FaultyStore, InOrder, Lost, NeverArrived
from ledger.store.wrappers.forwarder import ForwardingStore
from ledger.store.writes import Outcome, Write
from ledger.testing.clock import ManualClock


def describer(store: Store, seed: int = 1) -> Descriptions:
    """Return a describer over a store."""
    return Descriptions(
        store,
        make_settings(),
        services=Services.of(clock=ManualClock(instant=True), randomness=seeded(seed)),
    )


async def test_attributes_are_set_removed_and_read() -> None:
    """Each call returns all that there are then; those not named stay."""
    async with make_ledger() as ledger:
        assert await ledger.description("c") == {}
        assert await ledger.describe("c", {"owner": "a", "limit": 5}) == {"limit": 5, "owner": "a"}
        assert await ledger.describe("c", {"owner": None, "paid": True}) == {
            "limit": 5,
            "paid": True,
        }
        assert await ledger.description("c") == {"limit": 5, "paid": True}
        assert (await ledger.total("c")).changes == 0


async def test_a_repeated_call_writes_nothing() -> None:
    """It costs a read."""
    inner = MemoryStore(HOME)
    store = FaultyStore(inner, lambda _call: None)
    for _ in range(2):
        await describer(store).describe("c", {"owner": "a"})
        item = inner.table.get(description_key("c"))
    await describer(store, 2).describe("c", {"owner": "a"})
    assert inner.table.get(description_key("c")) is item


class Racing(ForwardingStore):
    """A store in which another call comes between the read and the write, so many times."""

    def __init__(self, inner: MemoryStore, times: int) -> None:
        super().__init__(inner)
        self.left = times
        self.table = inner.table
        self.other = describer(inner, 99)

    async def write(self, write: Write) -> Outcome:
        """Write, after the other."""
        if self.left:
            self.left -= 1
            await self.other.describe("c", {"other": self.left})
        return await super().write(write)


async def test_calls_in_one_region_each_take_effect() -> None:
    """One that loses a race reads again, and keeps what the other set; however many there are."""
    store = Racing(MemoryStore(HOME), 12)
    assert await describer(store).describe("c", {"mine": 1}) == {"mine": 1, "other": 0}


async def test_a_call_gives_up_at_its_deadline() -> None:
    """With nothing of it written."""
    store = Racing(MemoryStore(HOME), 100_000)
    with pytest.raises(StoreError, match=r"'c' was written by others \d+ times"):
        await describer(store).describe("c", {"mine": 1})
    assert await store.other.description("c") == {"other": store.left}


async def test_of_two_regions_the_last_writer_counts_with_all_that_it_set() -> None:
    """Also under names that the other did not write."""
    world = two_regions()
    for region, name in ((HOME, "home"), (AWAY, "away")):
        await describer(world.replicas[region]).describe("c", {name: 1})
    world.deliver()
    for region in (HOME, AWAY):
        assert await describer(world.replicas[region]).description("c") == {"away": 1}


async def test_a_lost_answer_is_repeated() -> None:
    """The write that was applied is found, and not made again."""
    inner = MemoryStore(HOME)
    store = FaultyStore(inner, InOrder(None, Lost(), None, None, None))
    assert await describer(store).describe("c", {"a": 1}) == {"a": 1}
    assert await describer(inner).description("c") == {"a": 1}


async def test_no_answer_at_all_is_an_unknown_outcome() -> None:
    """The call is to be repeated, which sets the same."""
    store = FaultyStore(
        MemoryStore(HOME), lambda call: NeverArrived() if call.operation == "write" else None
    )
    with pytest.raises(OutcomeUnknown, match="repeat the call, which sets the same"):
        await describer(store).describe("c", {"a": 1})


async def test_nothing_is_written_to_a_region_that_is_closed() -> None:
    """As no entry is."""
    settings = make_settings()
    leaving = settings.under(replace(settings.terms, closed=(AWAY,)), home=HOME)
    store = MemoryStore(AWAY)
    closed = Descriptions(
        store,
        leaving,
        services=Services.of(clock=ManualClock(instant=True), randomness=seeded(1)),
    )
    with pytest.raises(ContractConflict):
        await closed.describe("c", {"a": 1})
    assert not store.table.partitions


@pytest.mark.parametrize("asked", [{}, {"a": 1.5}, {"": 1}, None])
async def test_what_breaks_a_rule_is_refused(asked: Any) -> None:
    """Nothing is written."""
    async with make_ledger() as ledger:
        with pytest.raises(InvalidInput):
            await ledger.describe("c", asked)
        with pytest.raises(InvalidCounter):
            await ledger.describe("~c", {"a": 1})
        assert await ledger.description("c") == {}


@pytest.mark.parametrize("attributes", [{"S": "x"}, {"M": {"a": {"L": []}}}, {"N": "1"}])
async def test_an_edited_description_is_damaged(attributes: dict[str, Any]) -> None:
    """Reading it and writing on it say so."""
    store = MemoryStore(HOME)
    key = description_key("c")
    item = {"pk": {"S": key[0]}, "sk": {"S": key[1]}, "attributes": attributes}
    store.table.set(key, item)
    for call in (describer(store).description("c"), describer(store).describe("c", {"b": 1})):
        with pytest.raises(DamagedItem):
            await call
