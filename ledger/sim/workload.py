"""The workload: lives a scene through, with production code only, and generates nothing but calls.

Each region has an application process (a `Ledger`: writer, reader, cache), some processes run a
`Compactor`; those that crash are started again. What a call returns or raises is told to the
auditor, which judges. At the end everything heals, arrives and is merged to rest.
"""

import traceback
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

import anyio
from anyio.abc import TaskGroup
from prometheus_client import CollectorRegistry

from compactor.job import Compactor
from ledger.core import keys
from ledger.core.entry import Entry, Item, Key
from ledger.core.errors import (
    LeaseLost,
    OutcomeUnknown,
    ReadTooSlow,
    RetryHorizonPassed,
    StoreError,
)
from ledger.leases.state import lease_key
from ledger.ledger import Ledger
from ledger.settings import Settings
from ledger.sim.auditor import Auditor
from ledger.sim.process import NEVER_ILL, Health, Process
from ledger.sim.scene import Act, Busy, Cut, Scene, stream
from ledger.sim.store import SimStore
from ledger.sim.world import World
from ledger.store.port import Absent, Applied, Put, Store

RETRIES_MAX = 3
RETRY_PAUSE_SECONDS_MAX = 200.0
RESTART_SECONDS_MAX = 60.0
MOVED_SECONDS = 100.0
ZOMBIE_SECONDS = 60.0
READS_WITHIN_SECONDS = (10.0, 30.0, 60.0)
OLD_SETTINGS_SHARE = 0.5
REST_ROUNDS_MAX = 200
REST_PAUSE_SECONDS = 10.0
_PAUSE_SECONDS = 5.0

# Metrics are no matter of the simulation, and making a registry takes as long as a hundred steps.
_REGISTRY = CollectorRegistry()


@dataclass(frozen=True, slots=True)
class App:
    """One run of an application process."""

    process: Process
    ledger: Ledger
    store: Store


class Workload:
    """One scene lived through in one world."""

    def __init__(self, scene: Scene, world: World, auditor: Auditor, tasks: TaskGroup) -> None:
        self.scene = scene
        self.world = world
        self.auditor = auditor
        self.settings = scene.settings
        self._tasks = tasks
        self._random = stream(scene.seed, "workload")
        self._apps: dict[str, App] = {}
        self._compactors: dict[str, Process] = {}
        self._started = 0
        self._is_resting = False
        self._is_moving = False
        world.observers.append(self)

    async def live(self, ended: anyio.Event) -> None:
        """Live the whole scene, up to and with the judgement at rest; then set `ended`."""
        await self._guarded(self._live)
        ended.set()

    async def _live(self) -> None:
        scene = self.scene
        for region in scene.regions:
            self._start(self._app, region)
            self._start(self._read_on, region)
        for busy in scene.busy:
            self._start(self._be_busy, busy)
        for cut in scene.cuts:
            self._start(self._cut, cut)
        if scene.move_at is not None:
            self._start(self._move, scene.move_at, scene.regions[1])
        for act in scene.acts:
            await anyio.sleep(max(0.0, act.at - self.world.loop.time()))
            self._start(self._do, act)
        await anyio.sleep(max(0.0, scene.span - self.world.loop.time()))
        await self._rest()

    def _start(self, work: Callable[..., Awaitable[None]], *args: object) -> None:
        self._tasks.start_soon(self._guarded, work, *args)

    async def _guarded(self, work: Callable[..., Awaitable[None]], *args: object) -> None:
        """Do some work; whatever it raises that nobody expects is a violation."""
        try:
            await work(*args)
        except Exception:  # noqa: BLE001 (judged, not hidden)
            if not self.world.is_over:
                self.auditor.fail("unexpected error", traceback.format_exc())

    # Processes.

    def _process(self, name: str, *healths: Health) -> Process:
        self._started += 1
        name = f"{name}/{self._started}"
        return Process(
            name,
            world=self.world,
            randomness=stream(self.scene.seed, name),
            health=self._random.choice(healths),
            skew_seconds=self.scene.settings.clock_skew,
            span=self.scene.span,
        )

    async def _app(self, region: str) -> None:
        """Run an application process until it crashes, and then the next."""
        process = self._process(f"app-{region}", self.scene.app_health)
        process.on_crash = lambda: self._start(self._restart, self._app, region)
        store = SimStore(process, region, self.scene.weather)
        ledger = Ledger(
            self.settings,
            region=region,
            registry=_REGISTRY,
            store=store,
            clock=process.clock,
            randomness=stream(self.scene.seed, f"{process.name} ids"),
        )
        async with ledger:
            self._apps[region] = App(process, ledger, store)
            await anyio.sleep_forever()

    async def _restart(self, start: Callable[..., Awaitable[None]], *args: object) -> None:
        await anyio.sleep(self._random.random() * RESTART_SECONDS_MAX)
        await start(*args)

    async def _alive(self, region: str) -> App:
        while region not in self._apps or self._apps[region].process.is_dead:
            await anyio.sleep(_PAUSE_SECONDS)
        return self._apps[region]

    def _compactor(self, process: Process, settings: Settings) -> Compactor:
        weather = self.scene.compactor_weather
        return Compactor(
            settings,
            registry=_REGISTRY,
            stores={region: SimStore(process, region, weather) for region in settings.regions},
            clock=process.clock,
            randomness=stream(self.scene.seed, f"{process.name} compactor"),
            owner=process.name,
        )

    async def _be_busy(self, busy: Busy) -> None:
        """Run compactors for a while: some for one lease, perhaps a rival for another."""
        await anyio.sleep(busy.begins)
        if self._is_resting or self._is_moving:
            return
        names = [(f"compactor-{number}", "compactor") for number in range(self.scene.compactors)]
        names += [("rival", "rival")] if self.scene.rivals else []
        for name, lease in names:
            self._start(self._compact, name, lease, busy.ends, self.settings)

    async def _compact(self, name: str, lease: str, until: float, settings: Settings) -> None:
        """Run a compactor until it is told to stop; one that crashes is followed by the next."""
        if self._is_resting or self._is_moving or self.world.loop.time() >= until:
            return
        process = self._process(name, *self.scene.compactor_healths)
        process.on_crash = lambda: self._start(
            self._restart, self._compact, name, lease, until, settings
        )
        self._compactors[process.name] = process
        compactor = self._compactor(process, settings.with_(compactor={"name": lease}))
        stop = anyio.Event()
        self._stop_at(until, process, stop)
        await compactor.run_every(self.scene.pass_every, stop=stop)

    def _stop_at(self, moment: float, process: Process, stop: anyio.Event) -> None:
        """Tell a compactor to stop, but let one that is stalled wake up to what it was doing."""

        def end() -> None:
            if process.local > self.world.loop.time():
                self._stop_at(process.local + ZOMBIE_SECONDS, process, stop)
            else:
                stop.set()

        self.world.loop.call_at(moment, end)

    def _crash_compactors(self) -> None:
        for process in self._compactors.values():
            process.on_crash = lambda: None
            process.crash()
        self._compactors.clear()

    # Faults that are planned.

    async def _cut(self, cut: Cut) -> None:
        await anyio.sleep(cut.begins)
        if self.world.is_calm:
            return
        if cut.target is None:
            self.world.note(lambda: f"region {cut.source} is down")
            self.world.down.add(cut.source)
        else:
            self.world.pause(cut.source, cut.target)
        await anyio.sleep(cut.ends - cut.begins)
        if cut.target is None:
            self.world.down.discard(cut.source)
        else:
            self.world.heal(cut.source, cut.target)

    # Writing.

    async def _do(self, act: Act) -> None:
        app = await self._alive(act.region)
        changes = [(counter, Decimal(10**number)) for counter, number in act.changes]
        match act.kind:
            case "one":
                [(counter, change)] = changes
                await self._ask(act, app, lambda: _listed(app.ledger.record(counter, change)))
            case "keyed":
                await self._keyed(act, app)
            case "many":
                await self._ask(act, app, lambda: app.ledger.record_many(changes))
            case "together":
                await self._ask(act, app, lambda: app.ledger.record_together(changes))
            case "foreign":
                await self._foreign(act, app)

    async def _keyed(self, act: Act, app: App) -> None:
        """Record a change under a key, and let others make the same call later."""
        at = app.process.clock.wall(self.world.loop.time())
        made = self.world.loop.time()
        for delay, region in act.repeats:
            self._start(self._repeat, act, region, at, made, delay)
        await self._ask(act, app, lambda: self._record_keyed(act, app, at), is_repeated=True)

    async def _repeat(
        self, act: Act, region: str, at: datetime, made: float, delay: float
    ) -> None:
        await anyio.sleep(delay)
        app = await self._alive(region)
        age = self.world.loop.time() - made
        was_answered = await self._ask(
            act, app, lambda: self._record_keyed(act, app, at), is_repeated=True
        )
        limit = self.settings.retry_horizon + self.settings.clock_skew
        if was_answered and age > limit:
            self.auditor.fail("P5", f"{app.process.name} repeats {act} after {age:.1f} s")

    @staticmethod
    async def _record_keyed(act: Act, app: App, at: datetime) -> list[Entry]:
        [(counter, number)] = act.changes
        change = Decimal(10**number)
        return [await app.ledger.record(counter, change, key=f"key-{number}", at=at)]

    async def _ask(
        self,
        act: Act,
        app: App,
        call: Callable[[], Awaitable[Sequence[Entry]]],
        *,
        is_repeated: bool = False,
    ) -> bool:
        """Make a call and tell the auditor what came of it; whether the change is confirmed."""
        try:
            await call()
        except OutcomeUnknown as error:
            left = {_numbered(entry) for entry in error.entries}
            self._confirm(app, [change for change in act.changes if change not in left])
            await self._retry(error, app)
            return False
        except RetryHorizonPassed:
            return False
        except StoreError:
            if not is_repeated:
                self.auditor.refused(act.changes)
            return False
        self._confirm(app, act.changes)
        return True

    async def _retry(self, error: OutcomeUnknown, app: App) -> None:
        """Write the same entries again, in this region or another, until it is known or late."""
        for _ in range(self._random.randrange(RETRIES_MAX + 1)):
            await anyio.sleep(self._random.random() * RETRY_PAUSE_SECONDS_MAX)
            region = self._random.choice((app.ledger.region, *self.scene.regions))
            app = await self._alive(region)
            try:
                await app.ledger.retry(error.entries, together=error.together)
            except RetryHorizonPassed:
                return
            except OutcomeUnknown as again:
                error = again
            except StoreError:
                continue
            else:
                self._confirm(app, [_numbered(entry) for entry in error.entries])
                return

    async def _foreign(self, act: Act, app: App) -> None:
        """Write a change as another tool would: under a key of its own, once."""
        [(counter, number)] = act.changes
        item = {
            "pk": {"S": counter},
            "sk": {"S": f"{self._random.getrandbits(32):08x}"},
            "change": {"N": str(10**number)},
        }
        try:
            outcome = await app.store.write(Put(item, Absent()))
        except StoreError:
            return
        if isinstance(outcome, Applied):
            self._confirm(app, act.changes)

    def _confirm(self, app: App, changes: Sequence[tuple[str, int]]) -> None:
        for counter, number in changes:
            self.auditor.confirmed(app.ledger.region, counter, number)

    # Reading.

    def arrived(self, region: str, key: Key, item: Item | None) -> None:
        """Read a counter some times in a region to which a net change of it has just come."""
        place = keys.counter_of(key[0])
        if place is None or item is None or "merged" not in item or self._is_resting:
            return
        for _ in range(self.scene.reads_per_net):
            delay = self._random.random() * self._random.choice(READS_WITHIN_SECONDS)
            self._start(self._read_later, delay, region, place[0])

    def changed(self, region: str, partition: str) -> None:
        """Nothing is read for a change that is no net change."""

    async def _read_later(self, delay: float, region: str, counter: str) -> None:
        await anyio.sleep(delay)
        await self._read(region, 0.0, counter)

    async def _read_on(self, region: str) -> None:
        """Read some counter again and again, each time in a task of its own."""
        for busy in self.scene.busy:
            await anyio.sleep(max(0.0, busy.begins - self.world.loop.time()))
            while self.world.loop.time() < busy.ends:
                self._start(self._read, region, self._random.choice((0.0, 0.0, 5.0)))
                await anyio.sleep(self._random.expovariate(1 / self.scene.read_every))
            self._start(self._read, region, self._random.choice((0.0, 0.0, 5.0)))

    async def _read(self, region: str, max_age: float, counter: str | None = None) -> None:
        app = await self._alive(region)
        counter = counter or self._random.choice(self._counters)
        staleness = max_age * 1.1
        if not self.settings.consistent_reads:
            staleness += self.world.staleness
        asked = self.auditor.asked(region, counter, staleness=staleness)
        try:
            total = await app.ledger.total(counter, max_age=max_age)
        except (StoreError, ReadTooSlow):
            return
        if not self.world.is_over:
            self.auditor.answered(asked, int(total.value), app.process.name)

    @property
    def _counters(self) -> list[str]:
        return sorted({counter for act in self.scene.acts for counter, _ in act.changes})

    # Moving home.

    async def _move(self, at: float, target: str) -> None:
        """Stop the compactors, hand everything over, begin again with the new settings."""
        await anyio.sleep(at)
        if self._is_resting:
            return
        self._is_moving = True
        self.world.note(lambda: f"home moves to {target}")
        self._crash_compactors()
        while not self._is_resting and not self._is_handed_over(target):
            process = self._process("mover", *self.scene.compactor_healths)
            ended = anyio.Event()
            process.on_crash = ended.set
            self._start(self._move_once, process, target, ended)
            await ended.wait()
            await anyio.sleep(_PAUSE_SECONDS)
        if self._is_resting:
            return
        self._moved(target)
        until = self.world.loop.time() + MOVED_SECONDS
        self._start(self._compact, "compactor-0", "compactor", until, self.settings)

    def _moved(self, target: str) -> None:
        self.world.note(lambda: f"home is {target}")
        before, self.settings = self.settings, self.settings.with_(home=target)
        self._is_moving = False
        if self._random.random() < OLD_SETTINGS_SHARE and not self._is_resting:
            until = self.world.loop.time() + MOVED_SECONDS
            self._start(self._compact, "old-settings", "compactor", until, before)

    async def _move_once(self, process: Process, target: str, ended: anyio.Event) -> None:
        try:
            await self._compactor(process, self.settings).move_home(target)
        except (LeaseLost, StoreError) as error:
            self.world.note(lambda error=error: f"{process.name}: {error}")  # type: ignore[misc]
        ended.set()

    def _is_handed_over(self, target: str) -> bool:
        table = self.world.replicas[self.settings.home].table
        item = table.get(lease_key(self.settings.compactor.name))
        return item is not None and item["home"]["S"] == target

    # The end.

    async def _rest(self) -> None:
        """Heal everything, let it arrive, merge it to rest, and have it judged."""
        self._is_resting = True
        self.world.calm()
        self._crash_compactors()
        settings = self.settings
        await anyio.sleep(settings.request_life + settings.retry_horizon)
        while self.world.under_way:
            await anyio.sleep(1.0)
        await anyio.sleep(settings.settle + settings.compactor.fold_age)
        if self._is_moving:
            await self._finish_moving(self.scene.regions[1])
        compactor = self._compactor(self._process("last", NEVER_ILL), self.settings)
        for _ in range(REST_ROUNDS_MAX):
            await compactor.run_once()
            await anyio.sleep(REST_PAUSE_SECONDS)
            if self.auditor.is_small() and not self.world.under_way:
                break
        self.auditor.check_rest()
        for region in self.scene.regions:
            for counter in self._counters:
                await self._read(region, 0.0, counter)

    async def _finish_moving(self, target: str) -> None:
        process = self._process("last-mover", NEVER_ILL)
        if not self._is_handed_over(target):
            await self._compactor(process, self.settings).move_home(target)
            await anyio.sleep(REST_PAUSE_SECONDS)
        self._moved(target)


def _numbered(entry: Entry) -> tuple[str, int]:
    return entry.counter, len(str(int(entry.change))) - 1


async def _listed(call: Awaitable[Entry]) -> list[Entry]:
    return [await call]
