"""Steps of shards as changes of the contract: dated beyond the wait, or not announced."""

from dataclasses import replace
from datetime import timedelta

import pytest
from support.contracts import all_show, established, make_terms, to
from support.ledgers import SOUTH

from ledger.core.contract import ShardRule, Terms, seconds_to_wait
from ledger.core.contract_item import Contract
from ledger.core.errors import (
    ContractChangeRefused,
)
from ledger.testing.clock import START

TERMS = make_terms()
SLOWER = replace(TERMS, settle=4000.0)
PENDING = Contract(terms=TERMS, revision=1, coming=SLOWER)
WAIT = seconds_to_wait(TERMS, SLOWER)


def with_step(seconds_ahead: float) -> Terms:
    """Return terms with a step of shards dated so far after the start."""
    since = START + timedelta(seconds=seconds_ahead)
    return replace(TERMS, shards={"hot": (ShardRule(1), ShardRule(8, since))})


async def test_a_step_of_shards_too_near_is_not_announced() -> None:
    """Its date must lie beyond the wait and the skew of clocks."""
    world = await established()
    with pytest.raises(ContractChangeRefused, match=r"'hot': the date .* is too early"):
        await world.operator().change(to(with_step(WAIT + TERMS.clock_skew)))
    assert all_show(world, Contract(terms=TERMS))


async def test_a_step_of_shards_whose_date_came_too_early_is_refused() -> None:
    """Ids of its time may exist before it is in force: it must be withdrawn, and dated later."""
    world = await established()
    late = with_step(WAIT + 200)
    begun = world.slept
    world.cut = {SOUTH}
    world.on_sleep = lambda: world.cut.clear() if world.slept > begun + 100 else None
    with pytest.raises(ContractChangeRefused, match=r"'hot': the date .* passed before.*withdraw"):
        await world.operator().change(to(late))
    pending = await world.operator().newest()
    assert pending.coming == late
    assert (await world.operator().withdraw(pending)).terms == TERMS


async def test_a_step_of_shards_in_time_comes_into_force() -> None:
    """A day ahead is enough; what is in force already is not looked at again."""
    world = await established()
    done = await world.operator().change(to(with_step(86_400)))
    world.pass_by(100_000)
    later = replace(done.terms, settle=4000.0)
    assert (await world.operator().change(to(later))).terms == later
