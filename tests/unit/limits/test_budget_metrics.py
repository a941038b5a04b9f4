"""What a process that spends counts: outcomes by pattern, grants, writes of rights."""

from decimal import Decimal

import pytest
from prometheus_client import CollectorRegistry

from ledger import Table
from ledger.core.errors import LedgerError
from ledger.limits.outcomes import Refused
from ledger.runtime.metrics import summed
from ledger.store.wrappers.forwarding import ForwardingStore
from ledger.testing import MemoryGlobalTable

EAST, WEST = "us-east-1", "eu-west-1"
RENEWALS_MAX = 6
"""The first, and one for each quarter of a grant's life."""


def of(registry: CollectorRegistry, outcome: str) -> float:
    """Return how many spends ended so."""
    return summed(registry, "ledger_budget_spends_total", outcome=outcome, pattern="key/*")


async def test_outcomes_are_counted_by_pattern() -> None:
    """Not by counter: there may be any number of those."""
    world, registry = MemoryGlobalTable([EAST, WEST], budgets={"key/*": {}}), CollectorRegistry()
    parts = {"store": world.store(WEST), "others": {EAST: world.store(EAST)}, "clock": world.clock}
    table = Table(world.settings, region=WEST, registry=registry, **parts)  # type: ignore[arg-type]
    async with table, world.table(EAST) as east:
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


async def test_a_small_budget_is_not_written_while_nothing_is_spent() -> None:
    """It never has as much as a process wants ahead: only its time lets the grant go on."""
    world, registry = MemoryGlobalTable([EAST], budgets={"key/*": {}}), CollectorRegistry()
    parts = {"store": world.store(EAST), "clock": world.clock}
    table = Table(world.settings, region=EAST, registry=registry, **parts)  # type: ignore[arg-type]
    async with table:
        await table.budget("key/42").create(10)
        await table.budget("key/42").spend(Decimal("1.25"))
        for _ in range(50):
            await world.clock.advance(1)
        assert summed(registry, "ledger_budget_renewals_total") <= RENEWALS_MAX


async def test_what_is_let_through_is_summed() -> None:
    """By region and pattern."""
    world = MemoryGlobalTable([EAST], budgets={"key/*": {"on_outage": "allow"}})
    registry = CollectorRegistry()

    class Down(ForwardingStore):
        """A store that answers no query of rights."""

    store = Down(world.store(EAST))
    parts = {"store": store, "clock": world.clock}
    table = Table(world.settings, region=EAST, registry=registry, **parts)  # type: ignore[arg-type]
    async with table:
        await table.budget("key/42").create(10)

        async def unreachable(*_: object) -> None:
            from ledger.core.errors import Unreachable  # noqa: PLC0415

            raise Unreachable("down")

        store.query = unreachable  # type: ignore[method-assign, assignment]
        await table.budget("key/42").spend(3)
        assert of(registry, "over") == 1
        assert summed(registry, "ledger_budget_over_total", pattern="key/*") == 3
