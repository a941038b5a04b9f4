"""Random walks of writers, replication and several compactors over the simulator's replicas.

Each step of a pass is taken on its own, however long after the one before, so every leader can act
late on what it saw; the simulator's auditor checks every arrival and every read.
"""

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from random import Random
from typing import Literal

import anyio
from anyio.lowlevel import checkpoint
from proof.simulator.auditor import Auditor
from support.compacting import compactor_settings
from support.ledgers import HOME, SOUTH, WEST

from compactor import merge_plan, observation, pass_terms, plan_execution
from compactor.merge_plan import MergePlan
from compactor.observation import CollectionViews
from ledger.core.entry import entry_id, entry_item
from ledger.core.errors import ReadTooSlow
from ledger.core.values import Entry
from ledger.demo.harness.digit_tags import CHANGES_MAX, amount
from ledger.primitives.leases.lease_rules import LeaseGrant, LeaseRecord, lease_key, record_item
from ledger.reads.collection import ReadBounds, read_collection
from ledger.runtime.clock import ElapsedTime
from ledger.store.conditions import Absent
from ledger.store.writes import Check, Put
from ledger.testing.clock import ManualClock
from ledger.testing.replicas import ManualWorld, nothing

PARTITION = "counter"
LEASE = "compactor"
SETTINGS = compactor_settings(fold_max=8, fold_min=2, fold_age=30)
RULES = pass_terms.rules_of(SETTINGS)
RETRY_HORIZON_SECONDS = 5.0
OBSERVATION_DELAY_SECONDS = 8.0
READ_DEADLINE_SECONDS = 7.0
ROUNDS_MAX = 40
Step = Literal["write", "retry", "deliver", "advance", "lead", "cut", "read"]
STEPS: Mapping[Step, int] = {
    "write": 12,
    "retry": 3,
    "deliver": 25,
    "advance": 12,
    "lead": 45,
    "cut": 3,
    "read": 0,
}
"""The possible steps and their weights."""

# Whether this task acts during another's observation: then nothing further is nested.
_is_nested: ContextVar[bool] = ContextVar("_is_nested", default=False)
UNFENCED = Check(("~nowhere", "nothing"), Absent())


class WrongTotal(AssertionError):
    """A region showed, or a reader read, a total that counts a change other than once."""


@dataclass(slots=True)
class Leader:
    """A compactor that believes that it leads, in the middle of a pass."""

    fence: Check = UNFENCED
    seen: CollectionViews | None = None
    todo: list[MergePlan] = field(default_factory=list)

    def crash(self) -> None:
        """Lose everything in memory."""
        self.seen, self.todo = None, []


class Walk:
    """One world in which any step may follow any other; every choice is drawn from `randomness`.

    Leaders call `observe`, `decide` and `apply` as a pass does, so the simulator's mutants apply.
    """

    def __init__(
        self, randomness: Random, *, fenced: bool = False, hold: float = 0.0, reading: int = 0
    ) -> None:
        self.random = randomness
        self.rules = pass_terms.rules_of(SETTINGS)
        self.hold = hold
        self.reading = reading
        self.clock = ManualClock(instant=True)
        self.world = ManualWorld(
            (HOME, WEST, SOUTH),
            randomness=randomness,
            page_items_max=randomness.choice((2, 3, 99)),
            clock=self.clock,
        )
        self.auditor = Auditor(self.world, found=self._found)
        self.leaders = [Leader() for _ in range(3)]
        self.fenced = fenced
        self.folds = 0
        self.deletes = 0
        self._is_reading = False
        self._epoch = 0
        self._versions = 0
        self._turn = anyio.Lock()
        self._entries: list[Entry] = []
        self.world.before_page = self._before_page
        if fenced:
            self._elect(self.leaders[0])

    async def run(self, steps: int) -> None:
        """Take some random steps."""
        weights = {**STEPS, "read": self.reading}
        for step in self.random.choices(list(weights), list(weights.values()), k=steps):
            await self.take(step)

    async def take(self, step: Step) -> None:
        """Take one step of this kind; its details are drawn."""
        match step:
            case "write":
                await self.write()
            case "retry":
                await self._retry()
            case "deliver":
                self._deliver()
            case "advance":
                self.clock.pass_by(self.random.choice((0.5, 1, 3, 6)))
            case "lead":
                await self._lead()
            case "cut":
                self._cut()
            case "read":
                if not self._is_reading:
                    await self._read()

    async def write(self, region: str | None = None) -> None:
        """Write a change in some region; sometimes as another tool would, under its own key."""
        if len(self._entries) >= CHANGES_MAX:
            return
        sort_key = str(entry_id(self.clock.now(), self.random.getrandbits(64)))
        if self.random.randrange(20) == 0:
            sort_key = f"sk = {self.random.getrandbits(32):x}"
        entry = Entry(PARTITION, sort_key, Decimal(amount(len(self._entries))))
        self._entries.append(entry)
        await self._put(entry, region)

    async def cycle(self, leader: Leader) -> MergePlan:
        """Do a whole pass over the collection: observe, hold, decide, delete, fold."""
        leader.crash()
        leader.seen = await self._observe()
        self.clock.pass_by(self.hold)
        plan = self._decide(leader.seen)
        await self._act(leader, leader.seen, plan)
        return plan

    async def rest(self) -> None:
        """Stop writing, deliver everything, merge until nothing is left, and check P2 and P4."""
        leader = self.leaders[0]
        if self.fenced:
            self._elect(leader)
        self.world.heal()
        self.world.before_page = nothing
        for _ in range(ROUNDS_MAX):
            self.world.deliver()
            self.clock.pass_by(self.rules.settle + self.rules.fold_age)
            plan = await self.cycle(leader)
            if plan.is_idle and not self.world.in_flight:
                self.auditor.check_rest()
                return
        raise AssertionError(f"still merging after {ROUNDS_MAX} rounds")

    def _found(self) -> None:
        raise WrongTotal(str(self.auditor.violation))

    async def _retry(self) -> None:
        """Write an earlier change again, within the retry horizon, in any region."""
        horizon = timedelta(seconds=RETRY_HORIZON_SECONDS)
        now = self.clock.now()
        young = [
            entry for entry in self._entries if entry.at is not None and now - entry.at < horizon
        ]
        if young:
            await self._put(self.random.choice(young))

    async def _read(self) -> None:
        """Read a total as the library does, page by page, while anything happens in between."""
        region = self.random.choice(list(self.world.replicas))
        pending = self.auditor.read_begins(region, PARTITION, staleness=0)
        self._is_reading = True
        try:
            read = await read_collection(
                self.world.replicas[region],
                PARTITION,
                ElapsedTime(self.clock),
                ReadBounds(READ_DEADLINE_SECONDS),
                consistent=True,
            )
        except ReadTooSlow:
            return
        finally:
            self._is_reading = False
        self.auditor.read_ended(pending, int(read.collection.total()), "a reader")

    async def _put(self, entry: Entry, region: str | None = None) -> None:
        region = region or self.random.choice(list(self.world.replicas))
        await self.world.replicas[region].write(Put(entry_item(entry), Absent()))

    def _deliver(self) -> None:
        self.world.deliver(self.random.randrange(1, 6))

    def _cut(self) -> None:
        """Pause a link, or heal all."""
        if self.world.paused:
            self.world.heal()
        else:
            self.world.pause(*self.random.choice(list(self.world.links)))

    async def _lead(self) -> None:
        """Let some leader take its next step, however long after the one before, or crash."""
        leader = self.random.choice(self.leaders)
        fate = self.random.randrange(40)
        if fate == 0:
            leader.crash()
        elif fate == 1 and self.fenced:
            self._elect(leader)
        elif leader.seen is None:
            leader.seen = await self._observe()
        elif self.clock.monotonic() >= leader.seen.at + self.hold:
            await self._proceed(leader, leader.seen)

    async def _proceed(self, leader: Leader, seen: CollectionViews) -> None:
        """Decide on what a leader has seen, or carry out the next part of its plan."""
        if not leader.todo:
            leader.todo = _parts(self._decide(seen))
        else:
            await self._act(leader, seen, leader.todo.pop(0))
        if not leader.todo:
            leader.crash()

    async def _before_page(self) -> None:
        """Let something happen between two pages of an observation."""
        if _is_nested.get():
            return
        await checkpoint()  # the pages of several regions are read by turns
        async with self._turn:
            token = _is_nested.set(True)
            try:
                await self._happen()
            finally:
                _is_nested.reset(token)

    async def _happen(self) -> None:
        if self._is_reading:
            await self.run(self.random.randrange(8))
        fate = self.random.randrange(20)
        if fate < 6:
            self._deliver()
        elif fate == 6:
            await self.write()
        elif fate == 7:
            for _ in range(self.random.randrange(1, 4)):
                self.world.deliver()
                await self.cycle(self.leaders[-1])
            self.world.deliver()

    async def _observe(self) -> CollectionViews:
        return await observation.observe(
            self.world.replicas, PARTITION, home=HOME, clock=self.clock
        )

    def _decide(self, seen: CollectionViews) -> MergePlan:
        self._versions += 1
        version = f"v{self._versions}"
        return merge_plan.plan_merge(
            seen.observation, self.rules, now=self.clock.now(), version=version
        )

    async def _act(self, leader: Leader, seen: CollectionViews, plan: MergePlan) -> None:
        done = await plan_execution.execute_plan(
            self.world.replicas[HOME],
            PARTITION,
            seen.observation.net,
            plan,
            fence=[leader.fence],
        )
        self.deletes += done.deleted
        self.folds += done.is_folded

    def _elect(self, leader: Leader) -> None:
        """Make a leader the only one whose fence holds."""
        self._epoch += 1
        key = lease_key(LEASE)
        record = LeaseRecord(LEASE, "someone", f"rvn{self._epoch}", 30.0, self._epoch, HOME)
        self.world.replicas[HOME].table.set(key, record_item(record))
        leader.fence = LeaseGrant(key, "someone", self._epoch).fence()


def _parts(plan: MergePlan) -> list[MergePlan]:
    """Split a plan into its deletes and its fold, so that anything can happen between them."""
    deletes = [replace(plan, fold=None)] if plan.deletes else []
    return deletes + ([replace(plan, deletes=())] if plan.fold else [])
