"""Who reclaims what a lost region had of a world's budgets, as `ledger budget reclaim` does.

An operator, who may crash and is replaced, begins once the others go on without the region, and
calls until every budget is reclaimed: while it is too early, or a region does not show yet that the
lost one is cut off, nothing is minted.
"""

from collections.abc import Awaitable, Callable, Mapping
from decimal import Decimal

import anyio

from ledger.administration.budget_recovery import RightsReclaim
from ledger.budgets.grant_closing import RegionViews
from ledger.contract.open_regions import OpenTable
from ledger.contract.view import ContractView
from ledger.core.errors import (
    BudgetMissing,
    HomeMoving,
    OutcomeUnknown,
)
from ledger.runtime.services import Services
from ledger.settings import Settings
from proof.simulator.losses import Loss
from proof.simulator.process import Process, Reliability
from proof.simulator.randomness import stream
from proof.simulator.refusals import REFUSALS
from proof.simulator.store import SimStore
from proof.simulator.supervisor import Supervisor
from proof.simulator.takeover import Takeover

POLL_SECONDS = 60.0
OPERATOR = Reliability(300.0, crash_share=0.6, stall_seconds_max=(60.0, 600.0))
_MAY_BE = (BudgetMissing, OutcomeUnknown, *REFUSALS)
ALONE_SECONDS = 3_600.0
SEARCH_SECONDS = 1_800.0
LONGEST_SECONDS = 50_000.0
MOST = (None, None, None, Decimal(2))


class LostRightsOperator:
    """Reclaims the lost rights of one world; without a loss or budgets nothing is to be done."""

    def __init__(
        self, supervisor: Supervisor, takeover: Takeover, *, file: Callable[[], Settings]
    ) -> None:
        self.is_done = anyio.Event()
        self._supervisor = supervisor
        self._scenario = supervisor.scenario
        self._world = supervisor.world
        self._takeover = takeover
        self._file = file
        self._random = stream(supervisor.scenario.seed, "lost rights")
        self._most = self._random.choice(MOST)

    def start(self) -> None:
        """Start the operator."""
        loss = self._scenario.loss
        if loss is None or self._scenario.budgets is None:
            self.is_done.set()
            return
        self._supervisor.start(self._begin, loss)

    async def _begin(self, loss: Loss) -> None:
        await self._takeover.is_done.wait()
        await self._reclaim(loss)

    async def _reclaim(self, loss: Loss) -> None:
        """Reclaim until all is; who crashes is replaced by another."""
        process = self._supervisor.process("reclaimer", OPERATOR)
        process.on_crash = lambda: self._supervisor.start(
            self._supervisor.restart, self._reclaim, loss
        )
        faults = self._scenario.faults
        stores = {region: SimStore(process, region, faults) for region in loss.remaining}
        while not self.is_done.is_set():
            try:
                await self._reclaim_all(process, loss.region, stores)
                self.is_done.set()
            except _MAY_BE as error:
                self._world.note(lambda error=error: f"{process.name}: {error}")  # type: ignore[misc]
            await process.clock.sleep(POLL_SECONDS)

    async def _reclaim_all(
        self, process: Process, lost: str, stores: Mapping[str, SimStore]
    ) -> None:
        """Make one call of the command: first look, then mint."""
        first = stores[self._random.choice(sorted(stores))]
        view = ContractView(first, self._file(), clock=process.clock)
        await view.open()
        regions = RegionViews(stores, view.terms, process.clock)
        table, home = OpenTable(stores, view), stores.get(view.terms.home)
        if home is None:
            raise HomeMoving("home is lost, and no other is in force")
        services = Services.of(clock=process.clock, randomness=process.random)
        rights = RightsReclaim(regions, home, table, services, view.current.terms, lost)
        counters = await rights.counters(None)
        windows = [window for window in counters if await rights.stakes(window)]
        for window in counters:
            await rights.go_on(window)
        for window in windows:
            minted = await rights.reclaim(window, self._most)
            self._world.note(lambda minted=minted: f"{process.name} reclaims {minted}")  # type: ignore[misc]

    async def end(self, search: Callable[[], Awaitable[None]]) -> None:
        """Wait until all is reclaimed; that it cannot be is a violation.

        Where it waits for what only a pass brings to all regions, `search` makes one.
        """
        with anyio.move_on_after(ALONE_SECONDS):
            await self.is_done.wait()
        with anyio.move_on_after(LONGEST_SECONDS):
            while not self.is_done.is_set():
                await search()
                await anyio.sleep(SEARCH_SECONDS)
        if not self.is_done.is_set():
            self._supervisor.auditor.fail("reclaim", "what the lost region had cannot be had")
