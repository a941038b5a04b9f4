"""What a process takes in of what it credited, while a region is lost."""

from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from support.budgets import (
    AT_HOME,
    AT_SOUTH,
    access_to,
    limited_settings,
    put_rights,
    shown_rights,
    spend_item,
)
from support.compacting import World
from support.ledgers import HOME, SOUTH, WEST

from ledger.budgets.calendar import Window
from ledger.budgets.credit_grants import CreditGrant
from ledger.budgets.credit_keeper import LATE_SECONDS, CreditKeeper
from ledger.budgets.limit_windows import BudgetLimit, LimitStep, limit_item
from ledger.budgets.lost_stake import ARRIVED_SECONDS
from ledger.budgets.rights import GrantName
from ledger.budgets.rights_plan import create
from ledger.core.entry import entry_of
from ledger.core.values import Entry
from ledger.testing.clock import START


class Losing:
    """Settings of three regions, until south is given up."""

    def __init__(self) -> None:
        settings = limited_settings().replace(budgets={"counter": {"credits": True}})
        self._before = settings.terms
        self.current: Any = SimpleNamespace(terms=settings.terms, write_deadline=1.0)
        self.validity = None

    async def renew(self) -> None:
        """Do nothing."""

    def lose_south(self) -> None:
        """Give south up now."""
        self.current.terms = replace(
            self._before, regions=(HOME, WEST), lost=(SOUTH,), given_up_at=START
        )

    def lose_home(self) -> None:
        """Let home be of its next epoch: it was taken out, and added again."""
        self.current.terms = replace(self._before, lost=(HOME,), given_up_at=START)


class Crediting:
    """A world in which home has credited 5, and a process of home that is to take it in."""

    def __init__(self) -> None:
        self.world, self.settings = World(), Losing()
        regions = self.world.regions
        put_rights(regions, create(AT_HOME, Decimal(0)))
        regions.put(HOME, limit_item(BudgetLimit(1, (LimitStep.of(0, {AT_HOME: 1}),)), "counter"))
        regions.deliver()
        stores = [regions.replicas[region] for region in (HOME, WEST, SOUTH)]
        access = access_to(stores[0], self.settings, *stores[1:], clock=self.world.clock)
        window = Window("counter", "counter")
        self.keeper = CreditKeeper(window, "counter", access, lock=anyio.Lock())

    async def credit(self) -> tuple[CreditGrant, Entry]:
        """Put the entry in home."""
        grant, _ = await self.keeper.begin()
        item = spend_item(-5, grant.name, at=START)
        self.world.regions.put(HOME, item)
        entry = entry_of(item)
        self.keeper.put(grant, entry, keyed=True)
        return grant, entry

    async def free(self) -> int:
        """Take in what can be; return what is free at home."""
        await self.keeper.tend()
        return int(shown_rights(self.world.regions, AT_HOME).available)

    def twin(self) -> None:
        """Let a copy of south reach home and west, which wins by its stamp."""
        for region in (HOME, WEST):
            self.world.regions.put(region, spend_item(-5, GrantName(AT_SOUTH, 2), at=START))


async def test_a_credit_is_taken_in_once_every_region_was_seen_to_show_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One after the other; what was seen is not read again."""
    made = Crediting()
    await made.credit()
    assert await made.free() == 0
    made.world.regions.isolate(SOUTH)
    made.world.regions.deliver()
    assert await made.free() == 0
    assert made.keeper.unshown_by == SOUTH
    for _ in range(2):
        made.world.clock.pass_by(LATE_SECONDS)
        assert await made.free() == 0
    [told] = [record.getMessage() for record in caplog.records]
    assert told == f"credits of budget 'counter' cannot be spent: {SOUTH} does not show them"
    assert [sorted(credit.seen) for credit in made.keeper.waiting] == [sorted([HOME, WEST])]
    made.world.regions.heal()
    made.world.regions.deliver()
    assert await made.free() == 5
    assert (made.keeper.waiting, made.keeper.unshown_by) == ([], "")


@pytest.mark.parametrize("has_twin", [False, True])
async def test_after_a_loss_it_waits_for_a_day_and_looks_again(*, has_twin: bool) -> None:
    """What was seen before may be the copy that loses; then its grant is closed by reading."""
    made = Crediting()
    made.world.regions.isolate(SOUTH)
    await made.credit()
    made.world.regions.deliver()
    assert await made.free() == 0
    made.settings.lose_south()
    assert await made.free() == 0
    made.world.clock.pass_by(ARRIVED_SECONDS / 2)
    if has_twin:
        made.twin()
    assert await made.free() == 0
    made.world.clock.pass_by(ARRIVED_SECONDS)
    assert await made.free() == (0 if has_twin else 5)


async def test_a_grant_of_an_epoch_that_is_over_says_nothing_of_the_next() -> None:
    """The versions of both items are counted from 1."""
    made = Crediting()
    grant, _ = await made.credit()
    made.world.regions.deliver()
    made.settings.lose_home()
    made.world.clock.pass_by(2 * ARRIVED_SECONDS)
    next_home = replace(AT_HOME, epoch=2)
    other = replace(shown_rights(made.world.regions, AT_HOME), holder=next_home)
    put_rights(made.world.regions, other)
    assert grant.name.version in other.grants
    await made.keeper.tend()
    assert shown_rights(made.world.regions, next_home) == other
    assert made.keeper.waiting == []
