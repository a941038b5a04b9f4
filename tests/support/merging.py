"""Random walks of writers, replication and several compactors, audited at every arrival.

Change number i has the amount 4**i, so the digits of a total in base 4 tell how often it counts
each change, and no two faults cancel out. The walk generates; the auditor knows what must hold.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from random import Random
from typing import Literal

import anyio
from anyio.lowlevel import checkpoint
from support.ledgers import InstantClock
from support.regions import HOME, Regions, nothing

from compactor.apply import Done, apply
from compactor.observe import Observed, observe
from compactor.plan import Plan, Rules, decide
from ledger.core.entry import Item, Key, entry_id, entry_item
from ledger.core.errors import ReadTooSlow
from ledger.core.values import Entry
from ledger.primitives.leases.state import LeaseGrant, LeaseRecord, lease_key, record_item
from ledger.runtime.clock import Clock
from ledger.store.port import Absent, Check, Put, Store
from ledger.totals.collection import read_collection

PARTITION = "counter"
LEASE = "compactor"
RULES = Rules(home=HOME, settle=10, fold_max=8, fold_min=2, fold_age=30, prune_min=2)
RETRY_HORIZON_SECONDS = 5.0
HOLD_SECONDS = 8.0
READ_MAX_SECONDS = 7.0
BASE = 4
CHANGES_MAX = 60
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
"""What may happen next, and how often in comparison."""

# Whether this task acts in the midst of another's observation: there nothing more happens.
_is_nested: ContextVar[bool] = ContextVar("_is_nested", default=False)
UNFENCED = Check(("~nowhere", "nothing"), Absent())


class WrongTotal(AssertionError):
    """A region showed a total that counts a change not at all, too often, or no longer."""


class Auditor:
    """Knows which changes have reached each region, and checks its total at every arrival."""

    def __init__(self, regions: Regions) -> None:
        self.regions = regions
        self.checks = 0
        self._numbers: dict[str, int] = {}
        self._reached: dict[str, set[int]] = {name: set() for name in regions.stores}
        regions.watchers.append(self._arrived)

    def amount(self, sort_key: str) -> Decimal:
        """Return the amount of a new change."""
        number = self._numbers.setdefault(sort_key, len(self._numbers))
        return Decimal(BASE**number)

    @property
    def changes(self) -> int:
        """How many changes were made."""
        return len(self._numbers)

    @property
    def sum(self) -> Decimal:
        """The sum of all changes that were made."""
        return Decimal(sum(BASE**number for number in self._numbers.values()))

    def check(self, region: str) -> None:
        """Check that a region counts each change that has reached it once, and no other."""
        self.checks += 1
        total = int(self.regions.collection(region, PARTITION).total())
        expected = sum(BASE**number for number in self._reached[region])
        if total != expected:
            raise WrongTotal(f"{region} counts otherwise than once: {_wrong(total, expected)}")

    def reached(self, region: str) -> frozenset[int]:
        """Return the changes that have reached a region by now."""
        return frozenset(self._reached[region])

    def judge(self, region: str, total: Decimal, *, since: frozenset[int]) -> None:
        """Check what a reader got that began when `since` had reached its region."""
        now = self._reached[region]
        times = {number: int(total) // BASE**number % BASE for number in range(CHANGES_MAX + 1)}
        wrong = {
            number: counted
            for number, counted in times.items()
            if counted > (number in now) or (number in since and counted != 1)
        }
        if wrong:
            raise WrongTotal(f"a reader in {region} counts otherwise than once: {wrong}")

    def _arrived(self, region: str, key: Key, item: Item | None) -> None:
        if item is not None and key[1] in self._numbers:
            self._reached[region].add(self._numbers[key[1]])
        if key[0] == PARTITION:
            self.check(region)


def _wrong(total: int, expected: int) -> dict[int, int]:
    """Return how often a total counts those changes, by number, that it counts wrongly."""
    times = {
        number: (total // BASE**number % BASE, expected // BASE**number % BASE)
        for number in range(CHANGES_MAX + 1)
    }
    return {number: counted for number, (counted, right) in times.items() if counted != right}


Observing = Callable[[Mapping[str, Store], Clock], Awaitable[Observed]]
Deciding = Callable[[Observed, Rules, Clock, str], Plan]
Acting = Callable[[Store, Observed, Plan, Check], Awaitable[Done]]


async def observe_now(stores: Mapping[str, Store], clock: Clock) -> Observed:
    """Observe as the compactor does."""
    return await observe(stores, PARTITION, home=HOME, clock=clock)


def decide_now(seen: Observed, rules: Rules, clock: Clock, version: str) -> Plan:
    """Decide as the compactor does."""
    return decide(seen.observation, rules, now=clock.now(), version=version)


async def act(store: Store, seen: Observed, plan: Plan, fence: Check) -> Done:
    """Act as the compactor does."""
    net = seen.observation.net
    return await apply(store, PARTITION, net, plan, fence=fence, sizes=seen.sizes)


@dataclass(frozen=True, slots=True)
class Method:
    """How a compactor observes, decides and acts: rightly, unless a test breaks a rule."""

    observe: Observing = observe_now
    decide: Deciding = decide_now
    act: Acting = act


@dataclass(slots=True)
class Leader:
    """A compactor that believes that it leads, in the midst of a pass."""

    fence: Check = UNFENCED
    seen: Observed | None = None
    todo: list[Plan] = field(default_factory=list)

    def forget(self) -> None:
        """Crash and start again."""
        self.seen, self.todo = None, []


class Walk:
    """One world in which anything may happen next; every choice is drawn from `randomness`."""

    def __init__(
        self,
        randomness: Random,
        *,
        method: Method | None = None,
        fenced: bool = False,
        leaders: int = 3,
        rules: Rules = RULES,
        hold: float = 0.0,
        reading: int = 0,
    ) -> None:
        self.random = randomness
        self.method = method or Method()
        self.rules = rules
        self.hold = hold
        self.reading = reading
        self.clock = InstantClock()
        self.regions = Regions(randomness=randomness, page_items_max=randomness.choice((2, 3, 99)))
        self.auditor = Auditor(self.regions)
        self.leaders = [Leader() for _ in range(leaders)]
        self.fenced = fenced
        self.folds = 0
        self.deletes = 0
        self.reads = 0
        self._is_reading = False
        self._epoch = 0
        self._versions = 0
        self._turn = anyio.Lock()
        self._entries: list[Entry] = []
        self.regions.between = self._between
        if fenced:
            self._elect(self.leaders[0])

    @property
    def home(self) -> Store:
        """The store of the home region."""
        return self.regions.stores[HOME]

    async def run(self, steps: int) -> None:
        """Take some random steps."""
        weights = {**STEPS, "read": self.reading}
        for step in self.random.choices(list(weights), list(weights.values()), k=steps):
            await self.take(step)

    async def take(self, step: Step) -> None:
        """Take one step of this kind; the rest is drawn."""
        match step:
            case "write":
                await self.write()
            case "retry":
                await self.retry()
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
                    await self.read()

    async def write(self, region: str | None = None) -> None:
        """Write a change in some region; now and then as another tool would, under its own key."""
        if self.auditor.changes >= CHANGES_MAX:
            return
        sort_key = str(entry_id(self.clock.now(), self.random.getrandbits(64)))
        if self.random.randrange(20) == 0:
            sort_key = f"sk = {self.random.getrandbits(32):x}"
        entry = Entry(PARTITION, sort_key, self.auditor.amount(sort_key))
        self._entries.append(entry)
        await self._put(entry, region)

    async def retry(self) -> None:
        """Write an earlier change again, within the retry horizon, maybe in another region."""
        horizon = timedelta(seconds=RETRY_HORIZON_SECONDS)
        young = [
            entry
            for entry in self._entries
            if entry.at is not None and self.clock.now() - entry.at < horizon
        ]
        if young:
            await self._put(self.random.choice(young))

    async def read(self) -> None:
        """Read a total as the library does, page by page, while anything happens in between."""
        region = self.random.choice(list(self.regions.stores))
        since = self.auditor.reached(region)
        self._is_reading = True
        try:
            read = await read_collection(
                self.regions.stores[region],
                PARTITION,
                clock=self.clock,
                read_deadline=READ_MAX_SECONDS,
                consistent=True,
            )
        except ReadTooSlow:
            return
        finally:
            self._is_reading = False
        self.reads += 1
        self.auditor.judge(region, read.collection.total(), since=since)

    async def cycle(self, leader: Leader) -> Plan:
        """Let a leader do a whole pass: observe, hold, decide, delete, fold."""
        leader.forget()
        leader.seen = await self.method.observe(self.regions.stores, self.clock)
        self.clock.pass_by(self.hold)
        plan = self._decide(leader.seen)
        await self._act(leader, leader.seen, plan)
        return plan

    async def rest(self) -> None:
        """Stop writing, deliver everything, and merge until nothing is left to do."""
        leader = self.leaders[0]
        if self.fenced:
            self._elect(leader)
        self.regions.heal()
        self.regions.between = nothing
        for _ in range(ROUNDS_MAX):
            self.regions.deliver()
            self.clock.pass_by(self.rules.settle + self.rules.fold_age)
            plan = await self.cycle(leader)
            if not plan.deletes and plan.fold is None and not self.regions.under_way:
                return
        raise AssertionError(f"still merging after {ROUNDS_MAX} rounds")

    async def _put(self, entry: Entry, region: str | None = None) -> None:
        region = region or self.random.choice(list(self.regions.stores))
        await self.regions.stores[region].write(Put(entry_item(entry), Absent()))

    def _deliver(self) -> None:
        self.regions.deliver(self.random.randrange(1, 6))

    def _cut(self) -> None:
        """Pause a link, or heal them all."""
        if self.regions.paused:
            self.regions.heal()
        else:
            self.regions.pause(*self.random.choice(list(self.regions.links)))

    async def _lead(self) -> None:
        """Let some leader take its next step, however long ago its last one was; or crash."""
        leader = self.random.choice(self.leaders)
        fate = self.random.randrange(40)
        if fate == 0:
            leader.forget()
        elif fate == 1 and self.fenced:
            self._elect(leader)
        elif leader.seen is None:
            leader.seen = await self.method.observe(self.regions.stores, self.clock)
        elif self.clock.monotonic() < leader.seen.at + self.hold:
            return
        elif not leader.todo:
            leader.todo = _steps(self._decide(leader.seen))
            if not leader.todo:
                leader.forget()
        else:
            await self._act(leader, leader.seen, leader.todo.pop(0))
            if not leader.todo:
                leader.forget()

    async def _between(self) -> None:
        """Let something happen between two reads of an observation, while its others wait."""
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
                self.regions.deliver()
                await self.cycle(self.leaders[-1])
            self.regions.deliver()

    def _decide(self, seen: Observed) -> Plan:
        self._versions += 1
        return self.method.decide(seen, self.rules, self.clock, f"v{self._versions}")

    async def _act(self, leader: Leader, seen: Observed, plan: Plan) -> None:
        done = await self.method.act(self.home, seen, plan, leader.fence)
        self.deletes += done.deleted
        self.folds += done.is_folded

    def _elect(self, leader: Leader) -> None:
        """Make a leader the only one whose fence holds."""
        self._epoch += 1
        key = lease_key(LEASE)
        record = LeaseRecord(LEASE, "someone", f"rvn{self._epoch}", 30.0, self._epoch, HOME)
        self.regions.stores[HOME].table.set(key, record_item(record))
        leader.fence = LeaseGrant(key, "someone", self._epoch).fence()


def _steps(plan: Plan) -> list[Plan]:
    """Cut a plan into its deletes and its fold, so that anything can happen between them."""
    deletes = [replace(plan, fold=None)] if plan.deletes else []
    return deletes + ([replace(plan, deletes=())] if plan.fold else [])
