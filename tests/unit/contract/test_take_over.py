"""Taking a lost home over: a new generation of the contract, by one operator of two."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from support.clock import FakeClock
from support.contracts import ContractStore, make_terms
from support.ledgers import AWAY, HOME, SOUTH

from ledger.contract.changing import ContractWriter
from ledger.core.contract_item import Contract, contract_item, contract_key, contract_of
from ledger.core.errors import ContractChangeRefused
from ledger.store.writes import Outcome, Write

TERMS = make_terms(home=HOME)
BEFORE = Contract(terms=TERMS, revision=4)
OLD, NEW = contract_key(generation=1), contract_key(generation=2)


class Region(ContractStore):
    """A region in which something happens just before each write."""

    before_write: Callable[[], None] = staticmethod(lambda: None)

    async def write(self, write: Write) -> Outcome:
        """Write one item."""
        self.before_write()
        return await super().write(write)


class Remaining(FakeClock):
    """The two regions that are left, and an operator; what AWAY is shown arrives in SOUTH."""

    def __init__(self) -> None:
        super().__init__(instant=True)
        self.stores = {region: Region(region) for region in (AWAY, SOUTH)}
        self.wins: Contract | None = None
        for store in self.stores.values():
            store.table.set(OLD, contract_item(BEFORE))

    async def sleep(self, seconds: float) -> None:
        """Let replication end as the last writer wins, by default what AWAY shows."""
        item = contract_item(self.wins) if self.wins else self.stores[AWAY].table.get(NEW)
        for store in self.stores.values():
            store.table.set(NEW, item)
        await super().sleep(seconds)

    def operator(self) -> ContractWriter:
        """Return one who has lost HOME."""
        return ContractWriter(self.stores, clock=self)

    def theirs(self) -> Contract:
        """Return what another operator writes who takes HOME over to SOUTH."""
        coming = replace(TERMS, home=SOUTH, regions=(AWAY, SOUTH), lost=(HOME,))
        return Contract(terms=TERMS, revision=5, generation=2, coming=coming, through=SOUTH)


async def test_a_new_generation_leaves_the_old_one_alone() -> None:
    """A late write of the lost home could win over what is written in the place of its own."""
    world = Remaining()
    taken = await world.operator().take_over(AWAY, lost=HOME)
    assert (taken.generation, taken.coming) == (2, None)
    assert (taken.terms.home, taken.terms.regions, taken.terms.lost) == (
        AWAY,
        (AWAY, SOUTH),
        (HOME,),
    )
    for store in world.stores.values():
        old, new = store.table.get(OLD), store.table.get(NEW)
        assert old is not None
        assert new is not None
        assert (contract_of(old), contract_of(new)) == (BEFORE, taken)
    assert await world.operator().take_over(AWAY, lost=HOME) == taken


async def test_what_another_operator_has_written_is_not_overwritten() -> None:
    """It arrives after the look and before the write: the condition sees it."""
    world = Remaining()
    away = world.stores[AWAY]
    away.before_write = lambda: away.table.set(NEW, contract_item(world.theirs()))
    with pytest.raises(ContractChangeRefused, match="another process changed"):
        await world.operator().take_over(AWAY, lost=HOME)
    item = away.table.get(NEW)
    assert item is not None
    assert contract_of(item) == world.theirs()


async def test_of_two_operators_through_two_regions_one_gives_up() -> None:
    """Each has written the new generation in a region of its own: the last writer wins."""
    world = Remaining()
    away, south = world.stores[AWAY], world.stores[SOUTH]
    away.before_write = lambda: south.table.set(NEW, contract_item(world.theirs()))
    world.wins = world.theirs()
    with pytest.raises(ContractChangeRefused, match=f"took the home over: to {SOUTH}"):
        await world.operator().take_over(AWAY, lost=HOME)
    assert away.writes == 1
