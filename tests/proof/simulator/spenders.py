"""What the processes of a world are asked to spend from budgets.

What a call answers goes to the auditor; what its entry is told apart by is its note.
"""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial

import anyio

from ledger.budgets.budget import Budget, Hold
from ledger.budgets.limit_windows import LIMIT_PREFIX
from ledger.budgets.rights import partition_of
from ledger.budgets.spend_request import Granted
from ledger.core.errors import (
    ArchiveError,
    BudgetMissing,
    InvalidEntry,
    InvalidInput,
    LedgerError,
    OutcomeUnknown,
    ReadTooSlow,
    RetryHorizonPassed,
    StateConflict,
)
from ledger.core.values import Entry
from proof.simulator.budgets import (
    CREATED_WITHIN_SECONDS,
    NO_BUDGETS,
    HotPeriod,
    Place,
    PlannedSpend,
)
from proof.simulator.creditors import Creditors
from proof.simulator.hold_endings import HoldEndings, key_of
from proof.simulator.limit_operators import LimitOperators
from proof.simulator.spending_processes import (
    PAUSE_SECONDS,
    SPEND_REFUSALS,
    Spender,
    SpendingProcesses,
)
from proof.simulator.supervisor import Supervisor

RETRIES_MAX = 3
RETRY_SECONDS_MAX = 60.0
SAME_PLACE_SHARE = 0.7
DRAIN_TRIES_MAX, DRAIN_PAUSE_SECONDS = 20, 40.0


class Spenders:
    """All that is spent from budgets in one world."""

    def __init__(self, supervisor: Supervisor) -> None:
        plan = supervisor.scenario.budgets or NO_BUDGETS
        self._supervisor = supervisor
        self._scenario = supervisor.scenario
        self._world = supervisor.world
        self._audit = supervisor.auditor.budgets
        self._plan = plan
        self._processes = SpendingProcesses(supervisor, plan)
        self._random = self._processes.random
        self._holds = HoldEndings(supervisor, self._processes)
        self._limits = LimitOperators(supervisor, self._processes)
        self._creditors = Creditors(supervisor, self._processes)

    def start(self) -> None:
        """Start what the scenario plans."""
        self._processes.start()
        for name in self._plan.limits:
            for _ in range(2):
                self._supervisor.start(self._create, name)
        for planned in self._plan.spends:
            self._supervisor.start(self._do, planned)
        for hot in self._plan.hot:
            self._supervisor.start(self._throttle, hot)
        self._holds.start(self._plan.bulks)
        self._limits.start(self._plan.changes)
        self._creditors.start(self._plan.credits)

    def stop(self, region: str) -> None:
        """Stop the processes of a region that is lost."""
        self._processes.stop(region)

    @property
    def is_calling(self) -> bool:
        """Whether a call that may write has not ended, nor crashed with its process."""
        return self._processes.is_calling

    async def _throttle(self, hot: HotPeriod) -> None:
        await anyio.sleep(max(0.0, hot.begins))
        if self._world.is_healed:
            return
        self._world.note(lambda: f"{hot.region} throttles control items of budgets")
        self._world.hot.add(hot.region)
        await anyio.sleep(hot.ends - max(0.0, hot.begins))
        self._world.hot.discard(hot.region)

    # Calls.

    async def _create(self, name: str) -> None:
        """Make a budget, by whichever process, until one says that it is there."""
        await anyio.sleep(self._random.random() * CREATED_WITHIN_SECONDS)
        while not self._world.is_over:
            spender = await self._processes.alive(self._processes.any())
            try:
                with self._processes.calling(spender):
                    await spender.budget(name).create(self._audit.limits[name])
            except (OutcomeUnknown, *SPEND_REFUSALS):
                await anyio.sleep(PAUSE_SECONDS)
            except InvalidInput:  # it was made, and its limit has changed since
                if not any(change.budget == name for change in self._plan.changes):
                    raise
                return
            else:
                return

    async def _do(self, planned: PlannedSpend) -> None:
        await anyio.sleep(planned.at)
        spender = await self._processes.alive((planned.region, planned.process))
        note = _note_of(planned)
        match planned.kind:
            case "state":
                await self._state(spender, planned.budgets[0])
            case "light":
                await self._light(spender, planned, note)
            case "spend" | "hold":
                spend = partial(self._spend, spender, planned, note)
                await self._once(spender, planned, note, spend)
            case "keyed" | "keyed hold":
                now = spender.process.clock.wall(self._world.loop.time())
                at = now - timedelta(seconds=planned.age)
                for delay, region, process in planned.repeats:
                    self._supervisor.start(
                        self._repeat, planned, note, at, delay, (region, process)
                    )
                await self._keyed(spender, planned, note, at)

    async def _state(self, spender: Spender, budget: str) -> None:
        try:
            with self._processes.calling(spender):
                state = await spender.budget(budget).state()
        except (BudgetMissing, *SPEND_REFUSALS):
            return
        if state.limit > self._audit.changes.most(budget):
            self._supervisor.auditor.fail("limit", f"{budget} is shown as {state}")

    async def _once(
        self,
        spender: Spender,
        planned: PlannedSpend,
        note: str,
        call: Callable[[], Awaitable[Entry | None]],
    ) -> None:
        """Make a call without a key: of it there is one entry, or none."""
        try:
            entry = await call()
        except OutcomeUnknown as error:
            await self._retry(spender, planned, note, error)
        except LedgerError as error:
            if not isinstance(error, (BudgetMissing, InvalidEntry, StateConflict, *SPEND_REFUSALS)):
                raise
            if error.outcome == "not_applied":
                self._audit.was_refused(note)
        else:
            if entry is None:
                self._audit.was_refused(note)
            else:
                await self._granted(spender, planned, note, entry)

    async def _light(self, spender: Spender, planned: PlannedSpend, note: str) -> None:
        """Hold in memory, and spend what it comes to by an entry, or nothing."""
        try:
            held = await self._holds.keep_aside(spender, planned, note)
        except (BudgetMissing, InvalidEntry, StateConflict, *SPEND_REFUSALS):
            return
        if held is None:
            return
        for ending in planned.endings:
            await anyio.sleep(ending.after)
            if ending.kind == "settle":
                settle = partial(self._holds.settle_light, spender, held, max(1, ending.amount))
                await self._once(spender, planned, note, settle)
                return
            await self._holds.end_light(held, planned, ending)

    async def _retry(
        self, spender: Spender, planned: PlannedSpend, note: str, error: OutcomeUnknown
    ) -> None:
        """Write the same entries again, in this process, until their outcome is known."""
        place = planned.region, planned.process
        for _ in range(self._random.randrange(RETRIES_MAX + 1)):
            await anyio.sleep(self._random.random() * RETRY_SECONDS_MAX)
            is_here = self._random.random() < SAME_PLACE_SHARE
            spender = await self._processes.alive(place if is_here else self._processes.any())
            try:
                [entry] = await self._retried(spender, error)
            except OutcomeUnknown as again:
                error = again
            except (RetryHorizonPassed, ArchiveError):
                return
            except (InvalidEntry, *SPEND_REFUSALS):  # a hold is repeated in its region alone
                continue
            else:
                await self._granted(spender, planned, note, entry)
                return

    async def _retried(self, spender: Spender, error: OutcomeUnknown) -> list[Entry]:
        with self._processes.calling(spender):
            return await spender.ledger.retry(error.entries, together=error.together)

    async def _repeat(
        self, planned: PlannedSpend, note: str, at: datetime, delay: float, place: Place
    ) -> None:
        await anyio.sleep(delay)
        await self._keyed(await self._processes.alive(place), planned, note, at)

    async def _keyed(
        self, spender: Spender, planned: PlannedSpend, note: str, at: datetime
    ) -> None:
        """Spend under a key; what is not known is asked for again, wherever."""
        for _ in range(RETRIES_MAX):
            try:
                entry = await self._spend(spender, planned, note, at)
            except (OutcomeUnknown, *SPEND_REFUSALS):
                await anyio.sleep(self._random.random() * RETRY_SECONDS_MAX)
                spender = await self._processes.alive(self._processes.any())
            except (RetryHorizonPassed, ArchiveError, BudgetMissing, InvalidEntry, StateConflict):
                return
            else:
                if entry is not None:
                    await self._granted(spender, planned, note, entry)
                return

    async def _spend(
        self, spender: Spender, planned: PlannedSpend, note: str, at: datetime | None = None
    ) -> Entry | None:
        """Spend, or hold; return the entry, None if that is refused."""
        budgets = spender.budgets(planned.budgets)
        key = None if at is None else f"key-{planned.number}"
        with self._processes.calling(spender):
            if planned.kind in {"hold", "keyed hold"}:
                held = await budgets.hold(
                    planned.amount,
                    expires=planned.expires,
                    note=note,
                    key=key,
                    at=at,
                    wait=planned.wait,
                )
                return held.entry if isinstance(held, Hold) else None
            done = await budgets.spend(planned.amount, note=note, key=key, at=at, wait=planned.wait)
            if not isinstance(done, Granted):
                return None
            return done.entry

    async def _granted(
        self, spender: Spender, planned: PlannedSpend, note: str, entry: Entry
    ) -> None:
        self._audit.was_granted(spender.ledger.region, key_of(entry), note)
        if planned.kind in {"hold", "keyed hold"}:
            self._holds.held(planned, entry)

    # The end.

    async def drain(self) -> None:
        """Spend all that is left of each budget without windows, and not a bit more."""
        if self._scenario.clocks_off:
            return
        terms = self._scenario.settings.terms
        for name in self._plan.limits:
            rule = terms.budget_of(name)
            is_drained = rule is not None and rule.window == "none" and not rule.rolling
            if is_drained and self._audit.is_made(name):
                await self._drain(name)

    async def _drain(self, name: str) -> None:
        left = self._audit.left(name)
        spender = await self._processes.alive(self._processes.any_right())
        while spender.ledger.region in self._world.lost:
            spender = await self._processes.alive(self._processes.any_right())
        budget = spender.budget(name)
        if not self._has_limit(name):
            await self._refuse(budget)
            return
        await self._spend_all(budget, left, f"all of {name}")
        if self._audit.is_owed(name):
            return
        if await budget.spend(1, note=f"one more of {name}"):
            self._supervisor.auditor.fail("limit", f"{name} is spent, and one more is granted")
        await self._limits.raise_at_rest(spender, name)
        await self._spend_all(budget, self._audit.left(name), f"what {name} was raised by")

    def _has_limit(self, name: str) -> bool:
        """Return whether a region shows the limit of a budget: one home alone had may be lost."""
        shown = (
            replica.table.partitions.get(partition_of(name), {})
            for region, replica in self._world.replicas.items()
            if region not in self._world.lost
        )
        return any(key.startswith(LIMIT_PREFIX) for items in shown for key in items)

    async def _refuse(self, budget: Budget) -> None:
        """Spend of a budget whose limit was lost: it must be said, whatever rights there are."""
        try:
            await budget.spend(1, note=f"one of {budget.name} without a limit")
        except BudgetMissing:
            return
        self._supervisor.auditor.fail("limit", f"{budget.name} is spent from without a limit")

    async def _spend_all(self, budget: Budget, left: Decimal, note: str) -> None:
        """Spend what is left, at once: that it cannot be had is a violation."""
        for _ in range(DRAIN_TRIES_MAX if left > 0 else 0):  # trips may take longer than a fetch
            if await budget.spend(left, note=note):
                return
            await anyio.sleep(DRAIN_PAUSE_SECONDS)
        if left > 0:
            self._supervisor.auditor.fail("stranded", f"{left} are free, and not to be had: {note}")

    async def read_all(self) -> None:
        """Read the total of each counter that was spent from, in every region."""
        for counter in self._audit.counters:
            for region in self._scenario.regions:
                if region in self._world.lost:
                    continue
                spender = await self._processes.alive((region, 0))
                try:
                    total = await spender.ledger.total(counter, max_age=0)
                except (*SPEND_REFUSALS, ReadTooSlow):
                    continue
                if total.value != -self._audit.applied(counter):
                    said = f"{region} reads {counter} as {total.value}"
                    self._supervisor.auditor.fail("P2", said)


def _note_of(planned: PlannedSpend) -> str:
    return f"spend {planned.number}"
