"""What the processes of a world credit to budgets: by calls, and by reversals of spends.

What a call answers goes to the auditor; what its entry is told apart by is its note.
"""

from datetime import datetime, timedelta
from functools import partial

import anyio

from ledger.budgets.spend_request import Granted
from ledger.core.errors import (
    ArchiveError,
    BudgetMissing,
    InvalidEntry,
    InvalidInput,
    NotSent,
    OutcomeUnknown,
    ReadTooSlow,
    RetryHorizonPassed,
    StateConflict,
)
from ledger.core.values import Entry
from proof.simulator.budgets import Place, PlannedCredit
from proof.simulator.hold_endings import key_of
from proof.simulator.spending_processes import SPEND_REFUSALS, Spender, SpendingProcesses
from proof.simulator.supervisor import Supervisor

RETRIES_MAX = 3
RETRY_SECONDS_MAX = 60.0
REVERSALS_MAX = 6
REVERSED_AFTER_SECONDS = 100.0
_NOT_NOW = (OutcomeUnknown, *SPEND_REFUSALS)
_NEVER = (ArchiveError, BudgetMissing, InvalidEntry, RetryHorizonPassed, StateConflict)
_NOT_REVERSED = (ArchiveError, InvalidInput, OutcomeUnknown, ReadTooSlow, *SPEND_REFUSALS)


class Creditors:
    """All that is credited in one world."""

    def __init__(self, supervisor: Supervisor, processes: SpendingProcesses) -> None:
        self._supervisor = supervisor
        self._world = supervisor.world
        self._audit = supervisor.auditor.budgets
        self._processes = processes
        self._random = processes.random

    def start(self, credits_: tuple[PlannedCredit, ...]) -> None:
        """Start what the scenario plans."""
        for planned in credits_:
            self._supervisor.start(self._do, planned)

    async def _do(self, planned: PlannedCredit) -> None:
        await anyio.sleep(planned.at)
        place = planned.region, planned.process
        spender = await self._processes.alive(place)
        if planned.kind == "return":
            await self._return(spender, planned)
            return
        at: datetime | None = None
        if planned.kind == "keyed":
            now = spender.process.clock.wall(self._world.loop.time())
            at = now - timedelta(seconds=planned.age)
            for delay, region, process in planned.repeats:
                self._supervisor.start(self._repeat, planned, at, delay, (region, process))
        await self._credit(spender, planned, at)

    async def _repeat(
        self, planned: PlannedCredit, at: datetime, delay: float, place: Place
    ) -> None:
        await anyio.sleep(delay)
        await self._credit(await self._processes.alive(place), planned, at)

    async def _credit(self, spender: Spender, planned: PlannedCredit, at: datetime | None) -> None:
        """Credit; with a key what is not known is asked for again, wherever."""
        note = f"credit {planned.number}"
        key = None if at is None else f"credit-{planned.number}"
        for _ in range(1 if at is None else RETRIES_MAX):
            try:
                with self._processes.calling(spender):
                    done = await spender.budget(planned.budget).credit(
                        planned.amount, note=note, key=key, at=at, wait=planned.wait
                    )
            except _NOT_NOW:
                await anyio.sleep(self._random.random() * RETRY_SECONDS_MAX)
                spender = await self._processes.alive(self._processes.any())
            except _NEVER:
                return
            else:
                self._audit.was_granted(spender.ledger.region, key_of(done.entry), note)
                return

    async def _return(self, spender: Spender, planned: PlannedCredit) -> None:
        """Spend, and reverse that once it has arrived everywhere."""
        try:
            with self._processes.calling(spender):
                budget = spender.budget(planned.budget)
                done = await budget.spend(planned.amount, note=f"returned {planned.number}")
        except (*_NOT_NOW, *_NEVER):
            return
        if isinstance(done, Granted):
            again = partial(self._reverse, done.entry, f"return {planned.number}")
            for _ in range(2):
                self._supervisor.start(again)

    async def _reverse(self, entry: Entry, note: str) -> None:
        for _ in range(REVERSALS_MAX):
            await anyio.sleep(self._random.random() * REVERSED_AFTER_SECONDS)
            spender = await self._processes.alive(self._processes.any())
            try:
                with self._processes.calling(spender):
                    back = await spender.ledger.reverse(entry, note=note)
            except (NotSent, StateConflict, *_NOT_REVERSED):
                continue
            self._audit.was_granted(spender.ledger.region, key_of(back), note)
            return
