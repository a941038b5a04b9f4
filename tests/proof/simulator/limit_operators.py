"""Who raises and lowers the limits of a world's budgets while they are spent from."""

from functools import partial

import anyio

from ledger.core.errors import BudgetMissing, InvalidInput, OutcomeUnknown
from proof.simulator.budgets import Place, PlannedChange
from proof.simulator.spending_processes import (
    SPEND_REFUSALS,
    Spender,
    SpendingProcesses,
)
from proof.simulator.supervisor import Supervisor

RETRY_SECONDS_MAX = 200.0
TRIES_AT_REST = 8


class LimitOperators:
    """The changes of the limits of one world, by any process of any region."""

    def __init__(self, supervisor: Supervisor, processes: SpendingProcesses) -> None:
        self._supervisor = supervisor
        self._scenario = supervisor.scenario
        self._audit = supervisor.auditor.budgets
        self._processes = processes
        self._random = processes.random

    def start(self, changes: tuple[PlannedChange, ...]) -> None:
        """Start every change that is planned."""
        for change in changes:
            places = list(change.places)
            for _ in range(change.together):
                self._supervisor.start(self._change, change, places)

    async def _change(self, change: PlannedChange, places: list[Place]) -> None:
        """Make the call from each place that is left, until it says that it is done."""
        self._audit.changes.began(change.budget)
        await anyio.sleep(change.at)
        call = partial(self._raise if change.raises else self._lower, change)
        while places:
            spender = await self._processes.alive(places.pop())
            try:
                if await call(spender):
                    self._audit.changes.done(change.budget)
                    return
            except (BudgetMissing, OutcomeUnknown, *SPEND_REFUSALS):
                pass
            except InvalidInput:  # it is lower by now, or another step is announced
                if change.raises and not self._has_windows(change.budget):
                    raise
            await anyio.sleep(self._random.random() * RETRY_SECONDS_MAX)

    async def _raise(self, change: PlannedChange, spender: Spender) -> bool:
        """Raise a limit, once for its id, however often it is called."""
        raise_id = f"raise-{change.number}"
        self._audit.changes.asked(change.budget, raise_id, change.amount)
        with self._processes.calling(spender):
            await spender.budget(change.budget).raise_limit(change.amount, id=raise_id)
            self._audit.was_raised(change.budget, raise_id)
        return True

    async def _lower(self, change: PlannedChange, spender: Spender) -> bool:
        """Lower a limit as far as it can be now; return whether that is all the way."""
        budget, limits = spender.budget(change.budget), self._audit.changes
        before = limits.raises_made(change.budget)
        with self._processes.calling(spender):
            done = await budget.lower_limit(to=change.amount)
        is_alone = limits.raises_made(change.budget) == before
        if is_alone and not self._has_windows(change.budget):
            self._audit.was_lowered(change.budget, done.limit)
            if done.is_done:
                limits.promised(change.budget, done.limit)
        return done.is_lowered and not done.is_announced

    async def raise_at_rest(self, spender: Spender, budget: str) -> None:
        """Raise a limit by 1 once nothing else happens: that it cannot be is a violation."""
        raise_id = f"{budget} at rest"
        self._audit.changes.asked(budget, raise_id, 1)
        for _ in range(TRIES_AT_REST):
            try:
                with self._processes.calling(spender):
                    await spender.budget(budget).raise_limit(1, id=raise_id)
            except (OutcomeUnknown, *SPEND_REFUSALS):
                await anyio.sleep(self._random.random() * RETRY_SECONDS_MAX)
            else:
                self._audit.was_raised(budget, raise_id)
                return
        # Trips may take longer than a view of the contract is valid: it is raised, and not told so.
        if not self._audit.changes.is_raised(raise_id, budget):
            self._supervisor.auditor.fail("raises", f"{budget} cannot be raised")

    def _has_windows(self, budget: str) -> bool:
        rule = self._scenario.settings.terms.budget_of(budget)
        return rule is not None and rule.window != "none"
