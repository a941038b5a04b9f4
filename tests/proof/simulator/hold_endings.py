"""How the holds of a world end: settled, voided, extended or left, by any process, one or many."""

from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal

import anyio

from ledger.budgets.budget import Outcome
from ledger.budgets.memory_hold import LightHold
from ledger.budgets.spend_request import Granted, Refused
from ledger.core import keys
from ledger.core.entry import Key
from ledger.core.errors import InvalidInput, LedgerError, NotSent, OutcomeUnknown
from ledger.core.values import Entry
from proof.simulator.budgets import PlannedBulk, PlannedEnding, PlannedSpend
from proof.simulator.spending_processes import SPEND_REFUSALS, Spender, SpendingProcesses
from proof.simulator.supervisor import Supervisor

RETRIES_MAX = 3
RETRY_SECONDS_MAX = 60.0
BULK_MAX = 8
_MAY_BE = (OutcomeUnknown, InvalidInput, *SPEND_REFUSALS)
"""What may become of a hold: it ended in another way, is merged, or is not known."""


class HoldEndings:
    """Ends the holds of one world; what is acknowledged goes to the auditor."""

    def __init__(self, supervisor: Supervisor, processes: SpendingProcesses) -> None:
        self._supervisor = supervisor
        self._world = supervisor.world
        self._audit = supervisor.auditor.budgets
        self._processes = processes
        self._random = processes.random
        self._holds: dict[int, Entry] = {}

    def start(self, bulks: tuple[PlannedBulk, ...]) -> None:
        """Start what ends many holds by one call."""
        for bulk in bulks:
            self._supervisor.start(self._bulk, bulk)

    def held(self, planned: PlannedSpend, entry: Entry) -> None:
        """Let a hold that was made end as planned; of a call that was repeated once."""
        if planned.number not in self._holds:
            self._holds[planned.number] = entry
            for ending in planned.endings:
                self._supervisor.start(self._end, planned, entry, ending)

    async def _end(self, planned: PlannedSpend, entry: Entry, ending: PlannedEnding) -> None:
        await anyio.sleep(ending.after)
        if ending.kind == "leave":
            return
        own = planned.region, planned.process
        for _ in range(RETRIES_MAX):
            spender = await self._processes.alive(ending.by or own)
            try:
                await self._ended(spender, planned, entry, ending)
            except (OutcomeUnknown, *SPEND_REFUSALS):
                await anyio.sleep(self._random.random() * RETRY_SECONDS_MAX)
            except InvalidInput:  # it ended in another way, or is merged
                return
            else:
                return

    async def _ended(
        self, spender: Spender, planned: PlannedSpend, entry: Entry, ending: PlannedEnding
    ) -> None:
        held = spender.budgets(planned.budgets).held(entry)
        settles = ending.kind == "settle"
        if settles and ending.over:
            self._audit.may_exceed(key_of(entry))
        with self._processes.calling(spender):
            if ending.kind == "extend":
                with suppress(InvalidInput):
                    await held.extend(ending.after + planned.expires)
                return
            done = await (held.settle(ending.amount, over=ending.over) if settles else held.void())
        self._resolved(done, ending.amount if settles else None)

    def _resolved(self, done: Granted | Refused, amount: int | None) -> None:
        """Tell what a hold has come to; None if it was voided."""
        if isinstance(done, Granted):
            how = "void" if amount is None else "settled"
            self._audit.was_resolved(key_of(done.entry), Decimal(amount or 0), how)

    async def _bulk(self, bulk: PlannedBulk) -> None:
        """Settle or void many holds, made by any process, by one call."""
        await anyio.sleep(bulk.at)
        spender = await self._processes.alive((bulk.region, bulk.process))
        numbers = self._random.sample(sorted(self._holds), k=min(BULK_MAX, len(self._holds)))
        entries = [self._holds[number] for number in numbers]
        most = [int(-entry.change) + 1 for entry in entries]
        amounts = [self._random.randint(0, held) if bulk.settles else None for held in most]
        budgets = spender.budgets(("budget-0",))
        held = [budgets.held(entry) for entry in entries]
        if bulk.settles and bulk.over:
            for entry in entries:
                self._audit.may_exceed(key_of(entry))
        with suppress(NotSent), self._processes.calling(spender):
            if bulk.settles:
                pairs = [(hold, amount or 0) for hold, amount in zip(held, amounts, strict=True)]
                settled = await budgets.settle_many(pairs, over=bulk.over)
                found: Sequence[Outcome] = settled
            else:
                found = await budgets.void_many(held)
            for done, amount in zip(found, amounts, strict=True):
                self._one_of_many(done, amount)

    def _one_of_many(self, done: Outcome, amount: int | None) -> None:
        if isinstance(done, Granted | Refused):
            self._resolved(done, amount)
        elif not isinstance(done, _MAY_BE) and type(done) is not LedgerError:  # it was closed
            self._supervisor.auditor.fail("hold", f"one of many is {done!r}")

    # Light ones.

    async def keep_aside(
        self, spender: Spender, planned: PlannedSpend, note: str
    ) -> LightHold | None:
        """Keep an amount aside in the memory of a process; None if that is refused."""
        with self._processes.calling(spender):
            held = await spender.budgets(planned.budgets).hold(
                planned.amount, expires=planned.expires, light=True, note=note, wait=planned.wait
            )
        return held if isinstance(held, LightHold) else None

    async def settle_light(self, spender: Spender, held: LightHold, amount: int) -> Entry | None:
        """Settle it twice, which is once; None if it is refused, or is not open any more."""
        with self._processes.calling(spender):
            try:
                done = await held.settle(amount)
            except InvalidInput:
                return None
            if not isinstance(done, Granted):
                return None
            if await held.settle(amount) != done:
                self._supervisor.auditor.fail("hold", f"{held.asked.note} is settled twice")
            return done.entry

    async def end_light(
        self, held: LightHold, planned: PlannedSpend, ending: PlannedEnding
    ) -> None:
        """Void, extend, or leave it."""
        with suppress(InvalidInput):  # it has expired, or its table was closed
            if ending.kind == "void":
                await held.void()
            elif ending.kind == "extend":
                await held.extend(ending.after + planned.expires)


def key_of(entry: Entry) -> Key:
    """Return the key of an entry's item."""
    return keys.partition_key(entry.counter, entry.shard or 0), entry.id
