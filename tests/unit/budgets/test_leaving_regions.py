"""To a region that joins or leaves no rights are sent: nothing may be spent of them there."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal

import pytest
from support.budgets import access_to

from ledger import Table
from ledger.budgets import rights_plan
from ledger.budgets.calendar import Window
from ledger.budgets.rights import Holder, rights_item
from ledger.budgets.rights_fetcher import RightsFetcher
from ledger.budgets.rights_items import read_budget, read_rights
from ledger.budgets.spend_request import Refused
from ledger.core.contract import stricter
from ledger.core.errors import ContractConflict
from ledger.settings import Settings
from ledger.store.writes import Put
from ledger.testing import MemoryGlobalTable

EAST, WEST, SOUTH = "us-east-1", "eu-west-1", "ap-southeast-2"
HERE, THERE, OTHER = Holder(EAST), Holder(WEST), Holder(SOUTH)


class Live:
    """Live settings that stay as they are."""

    validity = None

    def __init__(self, current: Settings) -> None:
        self.current = current

    async def renew(self) -> None:
        """There is nothing to renew."""


def pending(world: MemoryGlobalTable, how: str) -> None:
    """Let a change be pending that adds the west to the table, or takes it out."""
    terms = world.settings.terms
    without = replace(terms, regions=(EAST, SOUTH))
    both = (without, terms) if how == "joins" else (terms, without)
    world.settings = world.settings.under(stricter(*both), home=EAST)


@asynccontextmanager
async def opened(how: str) -> AsyncIterator[tuple[MemoryGlobalTable, Table, Table]]:
    """Open home and the west, which joins or leaves and wants rights, as the south does."""
    world = MemoryGlobalTable([EAST, WEST, SOUTH], budgets={"key/*": {}})
    async with world.table(EAST) as east:
        await east.budget("key/42").create(100)
    for holder in (THERE, OTHER):
        wanting = rights_plan.note_demand(
            rights_plan.create(holder, Decimal(0)), rate=Decimal(3), want=Decimal(30)
        )
        await world.store(holder.region).write(Put(rights_item(wanting, "key/42")))
    world.replicate()
    pending(world, how)
    async with world.table(EAST) as east, world.table(WEST) as west:
        yield world, east, west


@pytest.mark.parametrize("how", ["joins", "leaves"])
async def test_home_balances_with_the_other_regions(how: str) -> None:
    """Those that are written to get what they want."""
    async with opened(how) as (world, east, _):
        for _ in range(9):
            assert await east.budget("key/42").spend(1)
            await world.clock.advance(5)
            world.replicate()
        sent = (await read_rights(world.store(EAST), "key/42"))[HERE].sent
        assert sent[OTHER] > 0
        assert THERE not in sent


@pytest.mark.parametrize("how", ["joins", "leaves"])
async def test_such_a_region_fetches_nothing(how: str) -> None:
    """Its spends and holds are refused before any other region is asked."""
    async with opened(how) as (world, _, west):
        before = await read_rights(world.store(EAST), "key/42")
        budget = west.budget("key/42")
        for call in (
            budget.spend(1),
            budget.hold(1, expires=60),
            budget.hold(1, expires=60, light=True),
        ):
            with pytest.raises(ContractConflict, match="eu-west-1 is not written to"):
                await call
        assert await read_rights(world.store(EAST), "key/42") == before


@pytest.mark.parametrize("how", ["joins", "leaves"])
async def test_such_a_region_is_not_asked_for_rights(how: str) -> None:
    """Of what it has nothing is taken up while its part of the table is undecided."""
    async with opened(how) as (world, east, _):
        has = replace(rights_plan.create(THERE, Decimal(50)), version=2)
        await world.store(WEST).write(Put(rights_item(has, "key/42")))
        world.replicate()
        refused = await east.budget("key/42").spend(120)
        assert isinstance(refused, Refused)
        assert refused.elsewhere == 0
        assert not (await read_rights(world.store(WEST), "key/42"))[THERE].sent


@pytest.mark.parametrize(("how", "is_sent"), [("joins", False), ("leaves", False), (None, True)])
async def test_who_learns_of_it_in_the_middle_of_a_call_fetches_nothing(
    how: str | None, *, is_sent: bool
) -> None:
    """The call began by the contract in force; the fetch looks at it as it is known by then."""
    async with opened(how or "leaves") as (world, _, __):
        if how is None:
            world.settings = world.settings.replace(
                regions={name: {} for name in (EAST, WEST, SOUTH)}
            )
        live = Live(world.settings)
        shown = await read_budget(world.store(WEST), "key/42")
        assert shown.limit is not None
        fetcher = RightsFetcher(
            access_to(world.store(WEST), live, world.store(EAST), clock=world.clock)
        )
        window = Window("key/42", "key/42")
        found = await fetcher.fetch(window, THERE, Decimal(3), shown, shown.limit, Decimal(1))
        assert (found is not None) == is_sent
