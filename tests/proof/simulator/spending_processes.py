"""The processes of a world that spend from budgets: several in each region, beside its application.

They are tables of the production code, which reach every region. They crash and stall, are closed
in good order now and then, and start again.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import anyio

from ledger.budgets.budget import Budget, Budgets
from ledger.core.errors import (
    BudgetUndecided,
    ContractConflict,
    KeyConflict,
    LedgerError,
    NotSent,
)
from ledger.core.keys import BUDGET_PREFIX
from ledger.runtime.services import Services
from ledger.session.assembly import GivenConnections
from ledger.session.ledger import Ledger, budget_parts
from ledger.store.port import Store
from ledger.store.wrappers.forwarder import ForwardingStore
from ledger.store.writes import Action, Outcome, Write
from proof.simulator.budgets import BudgetPlan, Place
from proof.simulator.process import Process
from proof.simulator.randomness import stream
from proof.simulator.refusals import REFUSALS
from proof.simulator.store import SimStore
from proof.simulator.supervisor import REGISTRY, Supervisor

PAUSE_SECONDS = 5.0


class OffStore(ForwardingStore):
    """A store of a process whose clock is off: of a budget nothing is ever written through it."""

    def __init__(self, inner: Store, *, fail: Callable[[str], None]) -> None:
        super().__init__(inner)
        self._fail = fail

    async def write(self, write: Write) -> Outcome:
        """Do one conditional write."""
        self._check(write)
        return await super().write(write)

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Do a transaction."""
        self._check(*actions)
        return await super().transact(actions, token=token)

    def _check(self, *actions: Action) -> None:
        for action in actions:
            if action.key[0].startswith(BUDGET_PREFIX):
                self._fail(f"{action.key} is written by a clock that is off")


SPEND_REFUSALS = (BudgetUndecided, *REFUSALS)
"""What says that nothing was spent, or read."""


@dataclass(frozen=True, slots=True)
class Spender:
    """One run of a spending process."""

    process: Process
    ledger: Ledger
    stop: anyio.Event

    @property
    def is_alive(self) -> bool:
        """Whether it has neither crashed nor been closed."""
        return not (self.process.is_dead or self.stop.is_set())

    def budgets(self, names: tuple[str, ...]) -> Budgets:
        """Return some budgets, as a program would have them."""
        return Budgets(names, lambda: budget_parts(self.ledger))

    def budget(self, name: str) -> Budget:
        """Return one budget."""
        return Budget(name, lambda: budget_parts(self.ledger))


class SpendingProcesses:
    """The processes of one world that spend; `random` draws what is not planned."""

    def __init__(self, supervisor: Supervisor, plan: BudgetPlan) -> None:
        self.random = stream(supervisor.scenario.seed, "spenders")
        self._supervisor = supervisor
        self._scenario = supervisor.scenario
        self._world = supervisor.world
        self._plan = plan
        self._running: dict[Place, Spender] = {}
        self._callers: list[Process] = []

    def start(self) -> None:
        """Start all, and what closes and freezes some of them."""
        for region in self._scenario.regions:
            for number in range(self._plan.processes):
                self._supervisor.start(self._run, (region, number))
        for at, region, number in self._plan.closings:
            self._supervisor.start(self._close, at, (region, number))
        for at, region, number, seconds in self._plan.freezes:
            self._supervisor.start(self._freeze, at, (region, number), seconds)

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

    async def _run(self, place: Place) -> None:
        """Run a process until it crashes, or is closed; and then the next."""
        plan, scenario = self._plan, self._scenario
        if place[0] in self._world.lost:
            return
        off_seconds = plan.clocks_off.get(place, plan.clocks_near.get(place))
        process = self._supervisor.process(
            f"spender-{place[0]}-{place[1]}", plan.reliability, off_seconds=off_seconds
        )
        process.on_crash = lambda: self._supervisor.start(
            self._supervisor.restart, self._run, place
        )
        faults = replace(scenario.faults, late=max(scenario.faults.late, plan.late))
        stores: dict[str, Store] = {
            region: SimStore(process, region, faults) for region in scenario.regions
        }
        if place in plan.clocks_off:
            fail = partial(self._supervisor.auditor.fail, "clock")
            stores = {region: OffStore(one, fail=fail) for region, one in stores.items()}
        store = stores.pop(place[0])
        randomness = stream(scenario.seed, f"{process.name} ids")
        while not process.is_over and not process.is_dead:
            ledger = Ledger(
                scenario.files.right,
                region=place[0],
                registry=REGISTRY,
                given=GivenConnections(
                    store=store,
                    others=stores,
                    contract=scenario.contract is not None,
                    archive=self._supervisor.archive(process, faults),
                ),
                services=Services.of(clock=process.clock, randomness=randomness, registry=REGISTRY),
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
            except SPEND_REFUSALS:  # the contract cannot be read
                await process.clock.sleep(PAUSE_SECONDS)

    async def _close(self, at: float, place: Place) -> None:
        await anyio.sleep(at)
        if self._runs(place):
            self._running[place].stop.set()

    async def _freeze(self, at: float, place: Place, seconds: float) -> None:
        await anyio.sleep(at)
        spender = self._running.get(place)
        if spender is not None:
            spender.process.freeze_before_entry(seconds)

    async def alive(self, place: Place) -> Spender:
        """Return the process of a place, or of another region if that is lost."""
        while not self._runs(place):
            await anyio.sleep(PAUSE_SECONDS)
            if place[0] in self._world.lost:
                left = [
                    region for region in self._scenario.regions if region not in self._world.lost
                ]
                place = self.random.choice(left), place[1]
        return self._running[place]

    def _runs(self, place: Place) -> bool:
        return place in self._running and not self._running[place].process.is_dead

    def any(self) -> Place:
        """Return the place of any process."""
        return (
            self.random.choice(self._scenario.regions),
            self.random.randrange(self._plan.processes),
        )

    def any_right(self) -> Place:
        """Return the place of any process whose clock is right."""
        places = product(self._scenario.regions, range(self._plan.processes))
        return self.random.choice([one for one in places if one not in self._plan.clocks_off])

    @contextmanager
    def calling(self, spender: Spender) -> Iterator[None]:
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


def _check_closed(error: LedgerError) -> None:
    """Raise an error again, unless it says no more than that the ledger was closed meanwhile."""
    if type(error) is not LedgerError:
        raise error
