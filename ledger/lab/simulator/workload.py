"""The workload: lives a scene through, with production code only, and generates nothing but calls.

Each region has an application process (a `Ledger`: writer, reader, cache), some processes run a
`Compactor`; those that crash are started again. What a call returns or raises is told to the
auditor, which judges. At the end everything heals, arrives and is merged to rest.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

import anyio

from ledger.core import keys
from ledger.core.entry import Item, Key
from ledger.core.errors import OutcomeUnknown, ReadTooSlow, RetryHorizonPassed, StoreError
from ledger.core.values import Entry
from ledger.lab.harness.tagged import digits
from ledger.lab.simulator.leaders import Leaders
from ledger.lab.simulator.process import Process
from ledger.lab.simulator.scene import Act, Cut, stream
from ledger.lab.simulator.staff import REGISTRY, Staff
from ledger.lab.simulator.store import SimStore
from ledger.ledger import Ledger
from ledger.store.port import Absent, Applied, Put, Store

RETRIES_MAX = 3
RETRY_PAUSE_SECONDS_MAX = 200.0
READS_WITHIN_SECONDS = (10.0, 30.0, 60.0)
_PAUSE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class App:
    """One run of an application process."""

    process: Process
    ledger: Ledger
    store: Store


class Workload:
    """One scene lived through in one world."""

    def __init__(self, staff: Staff) -> None:
        self.scene = staff.scene
        self.world = staff.world
        self.auditor = staff.auditor
        self.settings = staff.scene.settings
        self._staff = staff
        self._random = staff.random
        self._leaders = Leaders(staff)
        self._apps: dict[str, App] = {}
        self._callers: list[Process] = []
        self._is_resting = False
        self.world.observers.append(self)

    async def live(self, ended: anyio.Event) -> None:
        """Live the whole scene, up to and with the judgement at rest; then set `ended`."""
        await self._staff.guarded(self._live)
        ended.set()

    async def _live(self) -> None:
        scene = self.scene
        for region in scene.regions:
            self._staff.start(self._app, region)
            self._staff.start(self._read_on, region)
        self._leaders.start()
        for cut in scene.cuts:
            self._staff.start(self._cut, cut)
        for act in scene.acts:
            await anyio.sleep(max(0.0, act.at - self.world.loop.time()))
            self._staff.start(self._do, act)
        await anyio.sleep(max(0.0, scene.span - self.world.loop.time()))
        await self._rest()

    async def _app(self, region: str) -> None:
        """Run an application process until it crashes, and then the next."""
        process = self._staff.process(f"app-{region}", self.scene.app_health)
        process.on_crash = lambda: self._staff.start(self._staff.restart, self._app, region)
        store = SimStore(process, region, self.scene.weather)
        ledger = Ledger(
            self.settings,
            region=region,
            registry=REGISTRY,
            store=store,
            clock=process.clock,
            randomness=stream(self.scene.seed, f"{process.name} ids"),
        )
        async with ledger:
            self._apps[region] = App(process, ledger, store)
            await anyio.sleep_forever()

    async def _alive(self, region: str) -> App:
        # A look every few seconds costs next to nothing on virtual time.
        while region not in self._apps or self._apps[region].process.is_dead:  # noqa: ASYNC110
            await anyio.sleep(_PAUSE_SECONDS)
        return self._apps[region]

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
            case "crowd":
                for one in act.changes:
                    self._staff.start(self._in_crowd, replace(act, changes=(one,)), app)
            case "many":
                await self._ask(act, app, lambda: app.ledger.record_many(changes))
            case "together":
                await self._ask(act, app, lambda: app.ledger.record_together(changes))
            case "foreign":
                await self._foreign(act, app)

    async def _in_crowd(self, act: Act, app: App) -> None:
        """Record one of the changes that are recorded at the same time, by a call of its own."""
        [(counter, number)] = act.changes
        await self._ask(act, app, lambda: _listed(app.ledger.record(counter, 10**number)))

    async def _keyed(self, act: Act, app: App) -> None:
        """Record a change under a key, and let others make the same call later."""
        at = app.process.clock.wall(self.world.loop.time())
        made = self.world.loop.time()
        for delay, region in act.repeats:
            self._staff.start(self._repeat, act, region, at, made, delay)
        await self._ask(act, app, lambda: self._record_keyed(act, app, at), is_repeated=True)

    async def _repeat(self, act: Act, region: str, at: datetime, made: float, delay: float) -> None:
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
            with self._calling(app):
                await call()
        except OutcomeUnknown as error:
            left = set(_numbered(error.entries))
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
                with self._calling(app):
                    await app.ledger.retry(error.entries, together=error.together)
            except RetryHorizonPassed:
                return
            except OutcomeUnknown as again:
                error = again
            except StoreError:
                continue
            else:
                self._confirm(app, _numbered(error.entries))
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
            with self._calling(app):
                outcome = await app.store.write(Put(item, Absent()))
        except StoreError:
            return
        if isinstance(outcome, Applied):
            self._confirm(app, act.changes)

    @contextmanager
    def _calling(self, app: App) -> Iterator[None]:
        """Count a call that writes as open; one of a process that dies meanwhile never ends."""
        self._callers.append(app.process)
        try:
            yield
        finally:
            self._callers.remove(app.process)

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
            self._staff.start(self._read_later, delay, region, place[0])

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
                self._staff.start(self._read, region, self._random.choice((0.0, 0.0, 5.0)))
                await anyio.sleep(self._random.expovariate(1 / self.scene.read_every))
            self._staff.start(self._read, region, self._random.choice((0.0, 0.0, 5.0)))

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

    # The end.

    async def _rest(self) -> None:
        """Heal everything, let it arrive, merge it to rest, and have it judged."""
        self._is_resting = True
        self.world.calm()
        self._leaders.rest()
        settings = self.settings
        # A process that stalled in a call may wake up hours later and write only then.
        while any(not process.is_dead for process in self._callers):  # noqa: ASYNC110 (as above)
            await anyio.sleep(_PAUSE_SECONDS)
        await anyio.sleep(settings.signature_lifetime + settings.retry_horizon)
        while self.world.under_way:  # noqa: ASYNC110 (as above)
            await anyio.sleep(_PAUSE_SECONDS)
        await anyio.sleep(settings.settle + settings.compactor.fold_age)
        await self._leaders.merge_all()
        self.auditor.check_rest()
        for region in self.scene.regions:
            for counter in self._counters:
                await self._read(region, 0.0, counter)


def _numbered(entries: Sequence[Entry]) -> list[tuple[str, int]]:
    """Return the changes that entries stand for; a combined one stands for several."""
    return [(entry.counter, number) for entry in entries for number in digits(entry.change)]


async def _listed(call: Awaitable[Entry]) -> list[Entry]:
    return [await call]
