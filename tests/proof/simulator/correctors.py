"""Operators who take entries back and correct totals by counts, again and again, at home.

::

    entry ── reverse ── again, by others ──── home moves, or is lost ── again ── at rest, once more
    count ── reconcile under a token ── again, after other changes ── again ...

Some entries are of one key that two regions use at once for different changes. Each call is a
process of its own, as a command is, which may crash; where home is it finds by being refused
elsewhere.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal

import anyio

from ledger.core.errors import (
    ArchiveError,
    InvalidInput,
    KeyConflict,
    OutcomeUnknown,
    ReadTooSlow,
)
from ledger.core.values import Entry
from ledger.runtime.services import Services
from ledger.session.assembly import GivenConnections
from ledger.session.ledger import Ledger
from ledger.settings import Settings
from proof.simulator.correcting import is_correcting
from proof.simulator.correction_audit import COUNTED, REVERSED
from proof.simulator.forger import signing
from proof.simulator.losses import is_lossy
from proof.simulator.process import RELIABLE, Process, Reliability
from proof.simulator.randomness import stream
from proof.simulator.refusals import REFUSALS
from proof.simulator.scenario import draw
from proof.simulator.store import SimStore
from proof.simulator.supervisor import REGISTRY, Supervisor

ENTRIES, TOKENS, CALLS = 4, 2, 4
TWIN_SHARE = 0.4
"""Of entries, those of one key that two regions use at once."""
SOON_SECONDS, OLD_SECONDS, APART_SECONDS = 120.0, 200.0, 600.0
AT_LOSS_SHARE, AT_LOSS_SECONDS = 0.7, 60.0
REST_TRIES, REST_SECONDS = 8, 30.0
LAST_COUNT = 777
OPERATOR = Reliability(60.0, crash_share=0.3, stall_seconds_max=(30.0, 600.0))
_MAY_BE = (ArchiveError, InvalidInput, KeyConflict, OutcomeUnknown, ReadTooSlow, *REFUSALS)
"""What may be said of a call in a world with faults: not now, not here, not known."""
Call = Callable[[Ledger], Awaitable[None]]


def is_losing(seed: int) -> bool:
    """Return whether they do in a world that loses its home."""
    if not (is_correcting(seed) and is_lossy(seed)):
        return False
    scenario = draw(seed)
    return scenario.loss is not None and scenario.loss.region == scenario.regions[0]


@dataclass(frozen=True, slots=True)
class Twin:
    """The same key for another change, in another region."""

    region: str
    change: int
    seconds: float
    """How long the two regions do not hear of each other."""


class Correctors:
    """The operators of one world; `file` is the settings file as it is now."""

    def __init__(self, supervisor: Supervisor, *, file: Callable[[], Settings]) -> None:
        self._supervisor = supervisor
        self._scenario = supervisor.scenario
        self._world = supervisor.world
        self._audit = supervisor.auditor.corrections
        self._file = file
        self._random = stream(supervisor.scenario.seed, "corrections")
        self._callers: list[Process] = []
        self._entries: list[Entry] = []
        self._counts = {f"count-{number}": self._random.randrange(100) for number in range(TOKENS)}
        self._is_started = False

    def start(self) -> None:
        """Start what they do, if there are any."""
        if not is_correcting(self._scenario.seed):
            return
        self._is_started = True
        home = self._scenario.regions[0]
        for number in range(ENTRIES):
            twin = None
            region = self._random.choice(self._scenario.regions)
            if self._random.random() < TWIN_SHARE:
                region = home
                other = self._random.choice(self._scenario.regions[1:])
                twin = Twin(other, 2 * 10**number, self._random.random() * APART_SECONDS)
            self._supervisor.start(self._take_back, self._first_call(), number, region, twin)
        for token, counted in self._counts.items():
            for later in self._moments(self._first_call()):
                self._supervisor.start(self._count, later, token, counted)
        for _ in range(ENTRIES * 2):
            region = self._random.choice(self._scenario.regions)
            change = self._random.randrange(-5, 10)
            at = self._random.random() ** 2 * self._scenario.span
            self._supervisor.start(self._sell, at, region, change)

    @property
    def is_calling(self) -> bool:
        """Whether a call that may write has not ended, nor crashed with its process."""
        return any(not process.is_dead for process in self._callers)

    async def end(self) -> None:
        """Repeat each call by a process that does not fail, and count once more."""
        if self._is_started:
            await self.repeat()
            await self._surely(lambda ledger: self._reconcile(ledger, None, LAST_COUNT))

    async def repeat(self) -> None:
        """Make each call once more, now that everything has arrived."""
        for entry in self._entries:
            await self._surely(lambda ledger, entry=entry: self._reverse(ledger, entry))  # type: ignore[misc]
        for token, counted in self._counts.items() if self._is_started else ():
            await self._surely(
                lambda ledger, token=token, counted=counted: self._reconcile(ledger, token, counted)  # type: ignore[misc]
            )

    def _first_call(self) -> float:
        """Draw when a call is made for the first time: where there is a loss mostly just before."""
        loss = self._scenario.loss
        if loss is not None and self._random.random() < AT_LOSS_SHARE:
            return max(0.0, loss.stops_at - self._random.random() ** 2 * AT_LOSS_SECONDS)
        return self._random.random() ** 2 * self._scenario.span

    def _moments(self, at: float) -> Iterator[float]:
        """Draw when a call is made for the first time, soon again, and much later."""
        yield at
        yield at + self._random.random() * SOON_SECONDS
        for _ in range(CALLS):
            yield at + self._random.random() * (self._scenario.span - at)

    async def _take_back(self, first: float, number: int, region: str, twin: Twin | None) -> None:
        """Record an entry, and reverse it several times; one with a twin at once."""
        await anyio.sleep(first if twin else max(0.0, first - OLD_SECONDS))
        made = self._supervisor.process("recorder", RELIABLE).clock.now()
        change, key = 10**number, f"entry-{number}"

        async def record(ledger: Ledger) -> None:
            self._entries.append(await ledger.record(REVERSED, change, key=key, at=made))

        async def interfere(twin: Twin) -> None:
            async def record(ledger: Ledger) -> None:
                await ledger.record(REVERSED, twin.change, key=key, at=made)

            self._world.pause(twin.region, region)
            self._world.pause(region, twin.region)
            await self._in(twin.region, record, reliability=RELIABLE)
            await anyio.sleep(twin.seconds)
            self._world.heal(twin.region, region)
            self._world.heal(region, twin.region)

        if twin is not None:
            self._supervisor.start(interfere, twin)
        before = len(self._entries)
        await self._in(region, record)
        for entry in self._entries[before:]:
            for later in self._moments(max(first, self._world.time())):
                self._supervisor.start(self._reverse_at, later, entry)

    async def _reverse_at(self, at: float, entry: Entry) -> None:
        await anyio.sleep(max(0.0, at - self._world.time()))
        await self.at_home(lambda ledger: self._reverse(ledger, entry))

    async def _count(self, at: float, token: str, counted: int) -> None:
        await anyio.sleep(at)
        await self.at_home(lambda ledger: self._reconcile(ledger, token, counted))

    async def _sell(self, at: float, region: str, change: int) -> None:
        await anyio.sleep(at)

        async def record(ledger: Ledger) -> None:
            await ledger.record(COUNTED, change)

        await self._in(region, record)

    async def _reverse(self, ledger: Ledger, entry: Entry) -> None:
        made = await ledger.reverse(entry)
        self._audit.answered(REVERSED, made.id, repeated=made.repeated, who=ledger.region)

    async def _reconcile(self, ledger: Ledger, token: str | None, counted: int) -> None:
        done = await ledger.reconcile(COUNTED, counted=Decimal(counted), token=token)
        self._audit.answered(COUNTED, done.entry or "", repeated=done.repeated, who=ledger.region)

    async def _surely(self, call: Call) -> None:
        """Make a call at home until it is answered, or refused for good."""
        for _ in range(REST_TRIES):
            if await self.at_home(call, reliability=RELIABLE):
                return
            await anyio.sleep(REST_SECONDS)

    async def at_home(self, call: Call, *, reliability: Reliability = OPERATOR) -> bool:
        """Make a call in one region after the other, until one does not refuse it; or in none."""
        regions = [region for region in self._scenario.regions if region not in self._world.lost]
        self._random.shuffle(regions)
        for region in regions:
            if await self._in(region, call, reliability=reliability):
                return True
        return False

    async def _in(self, region: str, call: Call, *, reliability: Reliability = OPERATOR) -> bool:
        """Make a call as a process in a region; return whether it was answered."""
        if region in self._world.lost:
            return False
        process = self._supervisor.process(f"corrector-{region}", reliability)
        stores = {
            name: signing(
                SimStore(process, name, self._scenario.faults), self._scenario.seed, process.name
            )
            for name in self._scenario.regions
        }
        ledger = Ledger(
            self._file(),
            region=region,
            registry=REGISTRY,
            given=GivenConnections(
                store=stores.pop(region),
                others=stores,
                contract=self._scenario.contract is not None,
                archive=self._supervisor.archive(process, self._scenario.faults),
            ),
            services=Services.of(
                clock=process.clock,
                randomness=stream(self._scenario.seed, f"{process.name} ids"),
                registry=REGISTRY,
            ),
        )
        with self._calling(process):
            try:
                async with ledger:
                    await call(ledger)
            except _MAY_BE as error:
                self._world.note(lambda error=error: f"{process.name}: {error}")  # type: ignore[misc]
                return False
        return True

    @contextmanager
    def _calling(self, process: Process) -> Iterator[None]:
        self._callers.append(process)
        try:
            yield
        finally:
            self._callers.remove(process)
