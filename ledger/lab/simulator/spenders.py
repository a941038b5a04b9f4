"""The processes of a world that spend from budgets, and what they are asked to do.

Each region has several, besides its application: tables of the production code, which reach every
region. They crash and stall, are closed in good order now and then, and start again. What a call
answers goes to the auditor; what its entry is told apart by is its note.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

import anyio

from ledger.core import keys
from ledger.core.entry import Key
from ledger.core.errors import (
    ArchiveError,
    BudgetMissing,
    ContractChangeRefused,
    ContractConflict,
    HomeMoving,
    InvalidEntry,
    InvalidInput,
    KeyConflict,
    LedgerError,
    NotSent,
    OutcomeUnknown,
    ReadTooSlow,
    RetryHorizonPassed,
    StoreError,
)
from ledger.core.values import Entry
from ledger.lab.simulator.budgets import (
    CREATED_WITHIN_SECONDS,
    NAMES,
    BudgetPlan,
    PlannedEnding,
    PlannedSpend,
)
from ledger.lab.simulator.process import Process
from ledger.lab.simulator.randomness import stream
from ledger.lab.simulator.store import SimStore
from ledger.lab.simulator.supervisor import REGISTRY, Supervisor
from ledger.ledger import Ledger, budget_parts
from ledger.limits.budget import Budget, Budgets, Hold
from ledger.limits.outcomes import Granted, Refused

PAUSE_SECONDS = 5.0
RETRIES_MAX = 3
RETRY_SECONDS_MAX = 60.0
DRAIN_TRIES_MAX, DRAIN_PAUSE_SECONDS = 20, 40.0
_REFUSALS = (StoreError, ContractChangeRefused, ContractConflict, HomeMoving, NotSent)
Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Spender:
    """One run of a spending process."""

    process: Process
    ledger: Ledger
    stop: anyio.Event

    def budgets(self, names: tuple[str, ...]) -> Budgets:
        """Return some budgets, as a program would have them."""
        return Budgets(names, lambda: budget_parts(self.ledger))

    def budget(self, name: str) -> Budget:
        """Return one budget."""
        return Budget(name, lambda: budget_parts(self.ledger))


class Spenders:
    """All that is spent from budgets in one world."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._scenario = supervisor.scenario
        self._world = supervisor.world
        self._audit = supervisor.auditor.budgets
        self._random = stream(supervisor.scenario.seed, "spenders")
        self._running: dict[Place, Spender] = {}
        self._callers: list[Process] = []
        self._holds: dict[int, Entry] = {}

    @property
    def _plan(self) -> BudgetPlan | None:
        return self._scenario.budgets

    def start(self) -> None:
        """Start what the scenario plans; without budgets nothing is to be done."""
        plan = self._plan
        if plan is None:
            return
        for region in self._scenario.regions:
            for number in range(plan.processes):
                self._supervisor.start(self._run, (region, number))
        for name in NAMES:
            for _ in range(2):
                self._supervisor.start(self._create, name)
        for at, region, number in plan.closings:
            self._supervisor.start(self._close, at, (region, number))
        for at, region, number, seconds in plan.freezes:
            self._supervisor.start(self._freeze, at, (region, number), seconds)
        for planned in plan.spends:
            self._supervisor.start(self._do, planned)

    def stop(self, region: str) -> None:
        """Stop the processes of a region that is lost."""
        for place, spender in self._running.items():
            if place[0] == region:
                spender.process.on_crash = lambda: None
                spender.process.crash()

    @property
    def is_calling(self) -> bool:
        """Whether a call that may write has not ended, nor crashed with its process."""
        return any(not process.is_dead for process in self._callers)

    # Processes.

    async def _run(self, place: Place) -> None:
        """Run a process until it crashes, or is closed; and then the next."""
        plan, scenario = self._plan, self._scenario
        assert plan is not None  # noqa: S101 (there are budgets)
        if place[0] in self._world.lost:
            return
        process = self._supervisor.process(f"spender-{place[0]}-{place[1]}", plan.reliability)
        process.on_crash = lambda: self._supervisor.start(
            self._supervisor.restart, self._run, place
        )
        faults = replace(scenario.faults, late=max(scenario.faults.late, plan.late))
        stores = {region: SimStore(process, region, faults) for region in scenario.regions}
        store = stores.pop(place[0])
        randomness = stream(scenario.seed, f"{process.name} ids")
        while not process.is_over:
            ledger = Ledger(
                scenario.files.right,
                region=place[0],
                registry=REGISTRY,
                store=store,
                others=stores,
                clock=process.clock,
                randomness=randomness,
                contract=scenario.contract is not None,
                archive=self._supervisor.archive(process, faults),
            )
            stop = anyio.Event()
            try:
                async with ledger:
                    if place[0] in self._world.lost:
                        return
                    self._running[place] = Spender(process, ledger, stop)
                    await stop.wait()
                    del self._running[place]
            except ContractConflict as error:
                self._world.note(lambda error=error: f"{process.name}: {error}")  # type: ignore[misc]
                await process.clock.sleep(PAUSE_SECONDS)
            except _REFUSALS:  # the contract cannot be read
                await process.clock.sleep(PAUSE_SECONDS)

    async def _close(self, at: float, place: Place) -> None:
        await anyio.sleep(at)
        spender = self._running.get(place)
        if spender is not None:
            spender.stop.set()

    async def _freeze(self, at: float, place: Place, seconds: float) -> None:
        await anyio.sleep(at)
        spender = self._running.get(place)
        if spender is not None:
            spender.process.freeze_before_entry(seconds)

    async def _alive(self, place: Place) -> Spender:
        """Return the process of a place, or of another region if that is lost."""
        while not self._runs(place):
            await anyio.sleep(PAUSE_SECONDS)
            if place[0] in self._world.lost:
                left = [each for each in self._scenario.regions if each not in self._world.lost]
                place = self._random.choice(left), place[1]
        return self._running[place]

    def _runs(self, place: Place) -> bool:
        return place in self._running and not self._running[place].process.is_dead

    def _any(self) -> Place:
        plan = self._plan
        assert plan is not None  # noqa: S101 (there are budgets)
        return self._random.choice(self._scenario.regions), self._random.randrange(plan.processes)

    # Calls.

    async def _create(self, name: str) -> None:
        """Make a budget, by whichever process, until one says that it is there."""
        await anyio.sleep(self._random.random() * CREATED_WITHIN_SECONDS)
        while not self._world.is_over:
            spender = await self._alive(self._any())
            try:
                with self._calling(spender):
                    await spender.budget(name).create(self._audit.limits[name])
            except (OutcomeUnknown, *_REFUSALS):
                await anyio.sleep(PAUSE_SECONDS)
            else:
                return

    @contextmanager
    def _calling(self, spender: Spender) -> Iterator[None]:
        """Count a call as pending; the call of a process that crashes never ends.

        Raises:
            NotSent: the ledger was closed meanwhile.
        """
        self._callers.append(spender.process)
        try:
            yield
        except KeyConflict as error:
            self._supervisor.auditor.fail("key", f"{spender.process.name}: {error}")
            raise
        except LedgerError as error:
            _check_closed(error)
            raise NotSent(str(error)) from None
        finally:
            self._callers.remove(spender.process)

    async def _do(self, planned: PlannedSpend) -> None:
        await anyio.sleep(planned.at)
        spender = await self._alive((planned.region, planned.process))
        note = f"spend {planned.number}"
        match planned.kind:
            case "state":
                await self._state(spender, planned.budgets[0])
            case "spend" | "hold":
                await self._once(spender, planned, note)
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
            with self._calling(spender):
                state = await spender.budget(budget).state()
        except (BudgetMissing, *_REFUSALS):
            return
        if state.limit > self._audit.limits[budget]:
            self._supervisor.auditor.fail("limit", f"{budget} is shown as {state}")

    async def _once(self, spender: Spender, planned: PlannedSpend, note: str) -> None:
        """Spend without a key: of one call there is one entry, or none."""
        try:
            entry = await self._spend(spender, planned, note)
        except OutcomeUnknown as error:
            await self._retry(spender, planned, note, error)
        except LedgerError as error:
            if not isinstance(error, (BudgetMissing, InvalidEntry, *_REFUSALS)):
                raise
            if error.outcome == "not_applied":
                self._audit.was_refused(note)
        else:
            if entry is None:
                self._audit.was_refused(note)
            else:
                await self._granted(spender, planned, note, entry)

    async def _retry(
        self, spender: Spender, planned: PlannedSpend, note: str, error: OutcomeUnknown
    ) -> None:
        """Write the same entries again, in this process, until their outcome is known."""
        place = planned.region, planned.process
        for _ in range(self._random.randrange(RETRIES_MAX + 1)):
            await anyio.sleep(self._random.random() * RETRY_SECONDS_MAX)
            spender = await self._alive(place if self._random.random() < 0.7 else self._any())  # noqa: PLR2004
            try:
                [entry] = await self._retried(spender, error)
            except OutcomeUnknown as again:
                error = again
            except (RetryHorizonPassed, ArchiveError):
                return
            except (InvalidEntry, *_REFUSALS):  # a hold is repeated in its region alone
                continue
            else:
                await self._granted(spender, planned, note, entry)
                return

    async def _retried(self, spender: Spender, error: OutcomeUnknown) -> list[Entry]:
        with self._calling(spender):
            return await spender.ledger.retry(error.entries, together=error.together)

    async def _repeat(
        self, planned: PlannedSpend, note: str, at: datetime, delay: float, place: Place
    ) -> None:
        await anyio.sleep(delay)
        await self._keyed(await self._alive(place), planned, note, at)

    async def _keyed(
        self, spender: Spender, planned: PlannedSpend, note: str, at: datetime
    ) -> None:
        """Spend under a key; what is not known is asked for again, wherever."""
        for _ in range(RETRIES_MAX):
            try:
                entry = await self._spend(spender, planned, note, at)
            except (OutcomeUnknown, *_REFUSALS):
                await anyio.sleep(self._random.random() * RETRY_SECONDS_MAX)
                spender = await self._alive(self._any())
            except (RetryHorizonPassed, ArchiveError, BudgetMissing, InvalidEntry):
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
        with self._calling(spender):
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
            return done.entry if isinstance(done, Granted) else None

    async def _granted(
        self, spender: Spender, planned: PlannedSpend, note: str, entry: Entry
    ) -> None:
        if self._world.is_over:
            return
        self._audit.was_granted(spender.ledger.region, _key(entry), note)
        if planned.kind in {"hold", "keyed hold"} and planned.number not in self._holds:
            self._holds[planned.number] = entry
            for ending in planned.endings:
                self._supervisor.start(self._end, planned, entry, ending)

    # Holds.

    async def _end(self, planned: PlannedSpend, entry: Entry, ending: PlannedEnding) -> None:
        await anyio.sleep(ending.after)
        if ending.kind == "leave":
            return
        own = planned.region, planned.process
        for _ in range(RETRIES_MAX):
            spender = await self._alive(ending.by or own)
            try:
                await self._ended(spender, planned, entry, ending)
            except (OutcomeUnknown, *_REFUSALS):
                await anyio.sleep(self._random.random() * RETRY_SECONDS_MAX)
            except (InvalidInput, InvalidEntry):  # it ended in another way, or is merged
                return
            else:
                return

    async def _ended(
        self, spender: Spender, planned: PlannedSpend, entry: Entry, ending: PlannedEnding
    ) -> None:
        held = spender.budgets(planned.budgets).held(entry)
        with self._calling(spender):
            if ending.kind == "extend":
                with suppress(InvalidInput):
                    await held.extend(ending.after + planned.expires)
                return
            settles = ending.kind == "settle"
            done = await (held.settle(ending.amount) if settles else held.void())
        if isinstance(done, Refused) or self._world.is_over:
            return
        how = "settled" if settles else "void"
        self._audit.was_resolved(_key(entry), Decimal(ending.amount if settles else 0), how)

    # The end.

    async def drain(self) -> None:
        """Spend all that is left of each budget without windows, and not a bit more."""
        if self._plan is None or self._scenario.clocks_off or self._world.lost:
            return
        terms = self._scenario.settings.terms
        for name in NAMES:
            rule = terms.budget_of(name)
            if rule is not None and rule.window == "none" and self._audit.is_made(name):
                await self._drain(name)

    async def _drain(self, name: str) -> None:
        left = self._audit.left(name)
        spender = await self._alive(self._any())
        while spender.ledger.region in self._world.lost:
            spender = await self._alive(self._any())
        budget = spender.budget(name)
        for _ in range(DRAIN_TRIES_MAX if left > 0 else 0):  # trips may take longer than a fetch
            if await budget.spend(left, note=f"all of {name}"):
                break
            await anyio.sleep(DRAIN_PAUSE_SECONDS)
        else:
            if left > 0:
                said = f"{name}: {left} are free, and not to be had"
                self._supervisor.auditor.fail("stranded", said)
        if await budget.spend(1, note=f"one more of {name}"):
            self._supervisor.auditor.fail("limit", f"{name} is spent, and one more is granted")

    async def read_all(self) -> None:
        """Read the total of each counter that was spent from, in every region."""
        for counter in self._audit.counters:
            for region in self._scenario.regions:
                if region in self._world.lost:
                    continue
                spender = await self._alive((region, 0))
                try:
                    total = await spender.ledger.total(counter, max_age=0)
                except (*_REFUSALS, ReadTooSlow):
                    continue
                if total.value != -self._audit.applied(counter):
                    said = f"{region} reads {counter} as {total.value}"
                    self._supervisor.auditor.fail("P2", said)


def _check_closed(error: LedgerError) -> None:
    """Raise an error again, unless it says no more than that the ledger was closed meanwhile."""
    if type(error) is not LedgerError:
        raise error


def _key(entry: Entry) -> Key:
    return keys.partition_key(entry.counter, entry.shard or 0), entry.id
