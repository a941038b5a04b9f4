"""Operators who sign the nets of a world again, as in a change of keys; each may crash.

They put what home shows, whatever merges, moves the home or is lost meanwhile. Some compactors sign
by the former key still, so there is always something to do.
"""

import anyio

from ledger.administration.net_signer import NetSigner
from ledger.contract.view import ContractView
from ledger.core.errors import LedgerError
from ledger.settings.live import LiveSettings
from ledger.store.port import Store
from proof.simulator.forger import keys_of, signing
from proof.simulator.operators import OPERATOR, POLL_SECONDS
from proof.simulator.process import Process
from proof.simulator.randomness import stream
from proof.simulator.store import SimStore
from proof.simulator.supervisor import Supervisor

SIGNERS, TRIES_MAX = 4, 10


class Signers:
    """The operators of one world who sign its nets, if they are signed there."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._world = supervisor.world
        self._scenario = supervisor.scenario

    def start(self) -> None:
        """Let each begin at a moment of its own."""
        chance = stream(self._scenario.seed, "signers")
        for number in range(SIGNERS):
            at = chance.random() * self._scenario.span
            self._supervisor.start(self._sign, f"signer-{number}", at)

    async def _sign(self, name: str, at: float) -> None:
        keys = keys_of(self._scenario.seed, name)
        if keys is None:
            return
        await anyio.sleep(at)
        process = self._supervisor.process(name, OPERATOR)
        faults = self._scenario.compactor_faults
        stores = {
            region: signing(SimStore(process, region, faults), self._scenario.seed, name)
            for region in self._scenario.regions
        }
        for _ in range(TRIES_MAX):
            try:
                live = await self._opened(stores, process)
                signer = NetSigner(stores[live.current.home], keys, live, process.clock)
                done = await signer.run()
            except LedgerError as error:  # of another home, or region; as a person would, again
                self._world.note(lambda error=error: f"{process.name}: {error}")  # type: ignore[misc]
            else:
                self._world.note(lambda done=done: f"{process.name}: {done}")  # type: ignore[misc]
                return
            await process.clock.sleep(POLL_SECONDS)

    async def _opened(self, stores: dict[str, Store], process: Process) -> LiveSettings:
        """Return the settings to go by: those of the contract, if the world has one."""
        settings = self._scenario.files.right
        if self._scenario.contract is None:
            return settings
        view = ContractView(stores[settings.home], settings, clock=process.clock)
        await view.open()
        return view
