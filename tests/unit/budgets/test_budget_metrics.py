"""What a process that spends counts: outcomes by pattern, grants, writes of rights."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal

import anyio
import pytest
from prometheus_client import CollectorRegistry

from ledger import Table
from ledger.budgets.spend_request import Refused
from ledger.core.errors import LedgerError, OutcomeUnknown, Unreachable
from ledger.runtime.metrics import summed
from ledger.runtime.services import Services
from ledger.session.assembly import GivenConnections
from ledger.store.writes import Unknown, Write
from ledger.testing import MemoryGlobalTable

EAST, WEST = "us-east-1", "eu-west-1"
RENEWALS_MAX = 6
"""The first, and one for each quarter of a grant's life."""


def of(registry: CollectorRegistry, outcome: str) -> float:
    """Return how many spends ended so."""
    return summed(registry, "ledger_budget_spends_total", outcome=outcome, pattern="key/*")


def in_west(world: MemoryGlobalTable, registry: CollectorRegistry) -> Table:
    """Return a table of the west that counts in this registry."""
    return Table(
        world.settings,
        region=WEST,
        services=Services.of(clock=world.clock, registry=registry),
        given=GivenConnections(store=world.store(WEST), others={EAST: world.store(EAST)}),
    )


async def test_outcomes_are_counted_by_pattern() -> None:
    """Not by counter: there may be any number of those."""
    world, registry = MemoryGlobalTable([EAST, WEST], budgets={"key/*": {}}), CollectorRegistry()
    async with in_west(world, registry) as table, world.table(EAST) as east:
        await east.budget("key/42").create(10)
        world.replicate()
        budget, at = table.budget("key/42"), world.clock.now()
        for _ in range(2):
            await budget.spend(4, key="k", at=at)
        assert isinstance(await budget.spend(40), Refused)
        with pytest.raises(LedgerError):
            await table.budget("key/43").spend(1)
        assert [of(registry, each) for each in ("granted", "repeated", "refused", "failed")] == [
            *(1, 1, 1, 1)
        ]
        assert summed(registry, "ledger_budget_fetches_total") >= 1
        assert summed(registry, "ledger_budget_renewals_total") >= 1
        await world.clock.advance(2)
        assert summed(registry, "ledger_budget_grants") >= 1


async def test_how_long_credits_wait_is_shown_by_pattern_and_region() -> None:
    """That does not show the oldest; 0 once it can be spent, or the table is closed."""
    rules = {"stock/*": {"credits": "on"}}
    world, registry = MemoryGlobalTable([EAST, WEST], budgets=rules), CollectorRegistry()
    async with in_west(world, registry) as table, world.table(EAST) as east:
        await east.budget("stock/1").create(0)
        world.replicate()

        def shown() -> list[float]:
            names = {"region": WEST, "pattern": "stock/*", "unshown_by": EAST}
            age = summed(registry, "ledger_budget_credits_oldest_seconds", **names)
            return [summed(registry, "ledger_budget_credits_waiting"), age >= 1]

        await table.budget("stock/1").credit(5)
        await table.budget("stock/1").credit(5)
        await world.clock.advance(3)
        assert shown() == [2, True]
        world.replicate()
        await world.clock.advance(3)
        assert shown() == [0, False]
        await table.budget("stock/1").credit(5)
        await world.clock.advance(3)
        assert shown() == [1, True]
    assert shown() == [0, False]


async def test_a_small_budget_is_not_written_while_nothing_is_spent() -> None:
    """It never has as much as a process wants ahead: only its time lets the grant go on."""
    world, registry = MemoryGlobalTable([EAST], budgets={"key/*": {}}), CollectorRegistry()
    table = Table(
        world.settings,
        region=EAST,
        services=Services.of(clock=world.clock, registry=registry),
        given=GivenConnections(store=world.store(EAST)),
    )
    async with table:
        await table.budget("key/42").create(10)
        await table.budget("key/42").spend(Decimal("1.25"))
        for _ in range(50):
            await world.clock.advance(1)
        assert summed(registry, "ledger_budget_renewals_total") <= RENEWALS_MAX


@asynccontextmanager
async def letting_through() -> AsyncIterator[tuple[Table, MemoryGlobalTable, CollectorRegistry]]:
    """Open a table with a budget of 10 that lets spends through in an outage."""
    world = MemoryGlobalTable([EAST], budgets={"key/*": {"on_outage": "allow"}})
    registry = CollectorRegistry()
    table = Table(
        world.settings,
        region=EAST,
        services=Services.of(clock=world.clock, registry=registry),
        given=GivenConnections(store=world.store(EAST)),
    )
    async with table:
        await table.budget("key/42").create(10)
        yield table, world, registry


async def unreachable(*_: object) -> None:
    """Answer as a region that does not."""
    raise Unreachable("down")


async def test_what_is_let_through_is_summed() -> None:
    """By region and pattern, and once: that it is charged adds nothing."""
    async with letting_through() as (table, world, registry):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(world.store(EAST), "query", unreachable)
            await table.budget("key/42").spend(3)
        assert of(registry, "over") == 1
        assert summed(registry, "ledger_budget_over_total", pattern="key/*") == 3
        await world.clock.advance(3)
        assert (await table.budget("key/42").state()).charged == 3
        assert summed(registry, "ledger_budget_over_total", pattern="key/*") == 3


@pytest.mark.parametrize("is_repeated", [False, True])
async def test_what_was_let_through_without_an_answer_is_summed_once_it_is_charged(
    *, is_repeated: bool
) -> None:
    """The call ended unknown: that it was let through is seen by then, or by its repeat."""
    async with letting_through() as (table, world, registry):
        at = world.clock.now()
        store = world.store(EAST)
        write = store.write

        async def unanswered(one: Write) -> Unknown:
            await write(one)
            return Unknown("no answer")

        async def spends() -> None:
            with pytest.raises(OutcomeUnknown):
                await table.budget("key/42").spend(3, key="k", at=at)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(store, "query", unreachable)
            patched.setattr(store, "write", unanswered)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(spends)
                await world.clock.advance(30)
            patched.setattr(store, "write", write)
            if is_repeated:
                await table.budget("key/42").spend(3, key="k", at=at)
        found = summed(registry, "ledger_budget_over_total", pattern="key/*")
        assert found == (3 if is_repeated else 0)
        await world.clock.advance(3)
        assert (await table.budget("key/42").state()).charged == 3
        assert summed(registry, "ledger_budget_over_total", pattern="key/*") == 3


async def test_what_is_let_through_is_summed_once_for_its_key() -> None:
    """A repeat in the same outage writes the same entry, and lets nothing more through."""
    async with letting_through() as (table, world, registry):
        at = world.clock.now()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(world.store(EAST), "query", unreachable)
            for _ in range(2):
                assert await table.budget("key/42").spend(3, key="k", at=at)
        assert [of(registry, each) for each in ("over", "repeated")] == [1, 1]
        assert summed(registry, "ledger_budget_over_total", pattern="key/*") == 3
        await world.clock.advance(3)
        assert (await table.budget("key/42").state()).charged == 3
        assert summed(registry, "ledger_budget_over_total", pattern="key/*") == 3
