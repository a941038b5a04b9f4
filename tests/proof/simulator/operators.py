"""Operators who change the table's contract: each may crash, and another finishes the change."""

from dataclasses import replace

import anyio

from ledger.contract.contract_writer import ContractWriter
from ledger.core.contract_item import Contract, contract_item
from ledger.core.errors import ContractChangeRefused, StoreError
from proof.simulator.process import Reliability
from proof.simulator.store import SimStore
from proof.simulator.supervisor import Supervisor
from proof.simulator.terms import TermsChange

POLL_SECONDS = 20.0
OPERATOR = Reliability(1000.0, crash_share=0.5, stall_seconds_max=(30.0, 300.0))
LATE_SHARE_MAX = 0.2
"""Of an operator's writes, however many of an application's are held up."""
REFUSALS_MAX = 300


class Operators:
    """The changes of the contract of one world."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._world = supervisor.world
        self._plan = supervisor.scenario.contract

    def start(self) -> None:
        """Give every replica the first contract, and start every change that is planned."""
        plan = self._plan
        if plan is None:
            return
        self._world.establish(contract_item(Contract(terms=plan.first)))
        for number, change in enumerate(plan.changes):
            self._supervisor.start(self._change, f"operator-{number}", change)

    async def _change(self, name: str, change: TermsChange) -> None:
        """Make a change; who crashes is replaced by another, who finishes it."""
        await anyio.sleep(max(0.0, change.at - self._world.loop.time()))
        process = self._supervisor.process(name, OPERATOR)
        process.on_crash = lambda: self._supervisor.start(
            self._supervisor.restart, self._change, name, change
        )
        scenario = self._supervisor.scenario
        faults = replace(scenario.faults, late=min(scenario.faults.late, LATE_SHARE_MAX))
        stores = {region: SimStore(process, region, faults) for region in scenario.regions}
        writer = ContractWriter(stores, clock=process.clock, poll_seconds=POLL_SECONDS)
        for _ in range(REFUSALS_MAX):
            try:
                await writer.change(lambda contract: change.refine(contract.terms))
            except ContractChangeRefused as error:
                self._world.note(lambda error=error: f"{process.name}: {error}")  # type: ignore[misc]
                await self._withdraw(writer, change)
            except StoreError as error:
                self._world.note(lambda error=error: f"{process.name}: {error}")  # type: ignore[misc]
            else:
                self._world.note(lambda: f"{process.name}: in force")
                return
            await process.clock.sleep(POLL_SECONDS)

    @staticmethod
    async def _withdraw(writer: ContractWriter, change: TermsChange) -> None:
        """Take the change back if it is the one that is pending: its date came too early."""
        try:
            found = await writer.newest()
            if found.coming == change.refine(found.terms):
                await writer.withdraw(found)
        except (ContractChangeRefused, StoreError):
            pass  # the next try looks again
