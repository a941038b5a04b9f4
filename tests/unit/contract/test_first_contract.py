"""The first contract of a table: announced, and in force once every region has shown it."""

from dataclasses import replace

import anyio
import pytest
from support.contracts import REGIONS, ContractWorld, make_terms
from support.ledgers import AWAY, HOME, SOUTH

from ledger.contract.wait_report import Waiting
from ledger.core.contract import seconds_to_wait
from ledger.core.contract_item import Contract
from ledger.core.errors import ContractConflict

TERMS = make_terms()
SLOWER = replace(TERMS, settle=4000.0)
FOUNDING = Contract(terms=TERMS, revision=1, coming=TERMS)
FOUNDED = Contract(terms=TERMS, revision=2)
WAIT = seconds_to_wait(TERMS, SLOWER)


async def test_the_first_contract_reaches_every_region() -> None:
    """Written through its home, in force once all have shown it; again it changes nothing."""
    world = ContractWorld()
    world.cut = {SOUTH}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.operator().establish, TERMS)
        while world.slept < 5:
            await anyio.lowlevel.checkpoint()
        assert world.at(HOME) == FOUNDING
        assert world.waits[-1] == Waiting(1, (SOUTH,))
        world.cut.clear()
    assert world.shown() == [FOUNDED] * len(REGIONS)
    assert await world.operator().establish(TERMS) == FOUNDED


@pytest.mark.parametrize("by", ["establish", "finish", "withdraw"])
async def test_a_first_contract_that_was_left_is_finished(by: str) -> None:
    """Without a wait: nothing was ever done under it. Nor is there anything to take back."""
    world = ContractWorld()
    world.show(FOUNDING)
    operator = world.operator()
    given = TERMS if by == "establish" else FOUNDING
    assert await getattr(operator, by)(given) == FOUNDED
    assert world.shown() == [FOUNDED] * len(REGIONS)
    assert world.elapsed < WAIT


async def test_another_first_contract_is_refused() -> None:
    """What a table has is changed, never written again."""
    world = ContractWorld()
    world.show(FOUNDED)
    with pytest.raises(ContractConflict, match="already, with other terms"):
        await world.operator().establish(SLOWER)
    assert world.shown() == [FOUNDED] * len(REGIONS)


async def test_two_first_contracts_through_two_homes_end_as_one() -> None:
    """The last writer wins; the operator of the other one is refused, not confirmed."""
    world = ContractWorld()
    other = replace(TERMS, home=AWAY)
    world.on_sleep = lambda: world.show(Contract(terms=other, revision=1, coming=other))
    with pytest.raises(ContractConflict, match="other terms"):
        await world.operator().establish(TERMS)
