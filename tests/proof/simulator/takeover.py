"""A region of the world is lost: what ran there stops, and operators go on without it.

Each operator may crash, and is replaced by another who does the same. Two of them may name two
different homes; who comes second goes by what the first one wrote.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import anyio

from compactor import home_takeover
from ledger.contract.contract_writer import ContractWriter
from ledger.core.contract_item import Contract
from ledger.core.errors import ContractChangeRefused, InvalidInput, StoreError
from ledger.store.port import Store
from proof.simulator.leaders import Leaders
from proof.simulator.losses import Loss
from proof.simulator.operators import POLL_SECONDS
from proof.simulator.process import Reliability
from proof.simulator.randomness import stream
from proof.simulator.store import SimStore
from proof.simulator.supervisor import Supervisor

TABLE = "ledger"
SECOND_OPERATOR_SECONDS = 60.0
LONGEST_SECONDS = 20_000.0
OPERATOR = Reliability(300.0, crash_share=0.6, stall_seconds_max=(60.0, 600.0))


class Takeover:
    """The loss of a region in one world, until the others go on without it."""

    def __init__(
        self, supervisor: Supervisor, leaders: Leaders, *, stop_apps: Callable[[str], None]
    ) -> None:
        self.is_done = anyio.Event()
        self._supervisor = supervisor
        self._world = supervisor.world
        self._leaders = leaders
        self._stop_apps = stop_apps
        self._loss = supervisor.scenario.loss
        self._random = stream(supervisor.scenario.seed, "takeover")

    def start(self) -> None:
        """Start what the scenario plans; without a loss nothing is to be done."""
        loss = self._loss
        if loss is None:
            self.is_done.set()
            return
        self._world.lose(loss, stream(self._supervisor.scenario.seed, "last writes"))
        self._supervisor.start(self._stop, loss)
        for number, home in enumerate(loss.homes):
            self._supervisor.start(self._give_up, f"taker-{number}", loss, home)

    async def end(self) -> None:
        """Wait until the others go on without the region; that they cannot is a violation."""
        with anyio.move_on_after(LONGEST_SECONDS):
            await self.is_done.wait()
        if not self.is_done.is_set():
            self._supervisor.auditor.fail("take-over", "no contract without the lost region")

    def instead_of(self, region: str) -> str:
        """Return a region to go to: this one, or another if it is lost."""
        if self._loss is None or region not in self._world.lost:
            return region
        return self._random.choice(self._loss.remaining)

    async def _stop(self, loss: Loss) -> None:
        """Stop everything that runs in the region: its applications and, at home, compactors."""
        await anyio.sleep(loss.stops_at)
        self._world.stop(loss.region)
        self._supervisor.auditor.lost.add(loss.region)
        self._stop_apps(loss.region)
        if loss.region == self._supervisor.scenario.regions[0]:
            self._leaders.stop_at_home(self._random)

    async def _give_up(self, name: str, loss: Loss, home: str) -> None:
        await anyio.sleep(loss.given_up_at + self._random.random() * SECOND_OPERATOR_SECONDS)
        await self._take(name, loss, home)

    async def _take(self, name: str, loss: Loss, home: str) -> None:
        """Wait until the region is removed and take over; who crashes is replaced by another."""
        if self.is_done.is_set():
            return
        process = self._supervisor.process(name, OPERATOR)
        process.on_crash = lambda: self._supervisor.start(
            self._supervisor.restart, self._take, name, loss, home
        )
        faults = self._supervisor.scenario.faults
        regions = self._supervisor.scenario.regions if loss.is_taken_out else loss.remaining
        stores = {region: SimStore(process, region, faults) for region in regions}
        writer = ContractWriter(stores, clock=process.clock, poll_seconds=POLL_SECONDS)
        while not self.is_done.is_set():
            try:
                self._taken(loss, (await self._without(writer, stores, loss, home)).terms.home)
            except (ContractChangeRefused, InvalidInput, StoreError) as error:
                self._world.note(lambda error=error: f"{process.name}: {error}")  # type: ignore[misc]
                home = await self._home_now(writer, loss.region, home)
            await process.clock.sleep(POLL_SECONDS)

    @staticmethod
    async def _without(
        writer: ContractWriter, stores: Mapping[str, Store], loss: Loss, home: str
    ) -> Contract:
        """Bring a contract without the region into force, as an operator does."""
        if loss.is_taken_out:
            return await writer.change(lambda now: replace(now.terms, regions=loss.remaining))
        await home_takeover.check_removed(stores.values(), TABLE, [loss.region])
        return await writer.take_over(home, lost=[loss.region])

    @staticmethod
    async def _home_now(writer: ContractWriter, lost: str, home: str) -> str:
        """Return the home that is not lost, or that another operator named, if there is one."""
        try:
            found = await writer.newest()
        except StoreError:
            return home
        if found.coming is not None and lost in found.giving_up:
            return found.coming.home
        return home if found.terms.home == lost else found.terms.home

    def _taken(self, loss: Loss, home: str) -> None:
        if self.is_done.is_set():
            return
        self._world.note(lambda: f"home is {home}, without {loss.region}")
        file = self._leaders.file
        regions = {name: reach for name, reach in file.regions.items() if name != loss.region}
        self._leaders.file = file.replace(regions=regions)
        self.is_done.set()
