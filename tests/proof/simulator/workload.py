"""The workload: carries out a scenario through production code and reports outcomes to the auditor.

Each region has an application process (a `Ledger`: writer, reader, cache), some processes run a
`Compactor`; a supervisor restarts those that crash. The workload checks nothing itself. At the end
all faults heal, everything is replicated and merged, and the auditor checks the state at rest.
"""

from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal

import anyio

from ledger.core import ids, keys
from ledger.core.entry import Item, Key
from ledger.core.errors import (
    ArchiveDamaged,
    ArchiveError,
    ArchiveMissing,
    ContractConflict,
    InvalidEntry,
    KeyConflict,
    LedgerError,
    NeverApplied,
    OutcomeUnknown,
    RetryHorizonPassed,
    StoreError,
)
from ledger.core.periods import rule_of
from ledger.core.values import Entry
from ledger.demo.harness.digit_tags import digits
from ledger.primitives.leases.lease_rules import lease_key
from ledger.runtime.services import Services
from ledger.session.assembly import GivenConnections
from ledger.session.ledger import Ledger
from ledger.settings import Settings
from ledger.store.conditions import Absent
from ledger.store.reads import Get
from ledger.store.writes import Applied, Put
from ledger.writes.entry_plan import Change
from proof.simulator.apps import App
from proof.simulator.bookkeepers import Bookkeepers
from proof.simulator.combining import (
    AGAIN_SECONDS,
    AGAIN_SHARE,
    COUNTERS,
    GAPS_SECONDS,
    GIVING_UP_SHARE,
    HASTY_SHARE,
    PATIENCE_SECONDS,
)
from proof.simulator.correctors import Correctors
from proof.simulator.forger import Forger, signing
from proof.simulator.keyed_lists import LISTED, other_list
from proof.simulator.leaders import Leaders
from proof.simulator.lost_rights import LostRightsOperator
from proof.simulator.operators import Operators
from proof.simulator.period_audit import effective_of, kinds_of
from proof.simulator.planned import Operation, Outage, SteadyRead
from proof.simulator.process import Process
from proof.simulator.randomness import stream
from proof.simulator.refusals import READ_REFUSALS, REFUSALS
from proof.simulator.retries import written_again
from proof.simulator.signers import Signers
from proof.simulator.spenders import Spenders
from proof.simulator.store import SimStore
from proof.simulator.stranger import Stranger
from proof.simulator.supervisor import REGISTRY, Supervisor
from proof.simulator.takeover import Takeover
from proof.simulator.terms import Freeze

FILE_SECONDS_MAX = 100.0
HISTORY_SHARE = 0.3
"""Of reads, those that read the counter's history, too."""
"""Until a process whose file is refused starts with the right one."""
SHARING = (*COUNTERS, *LISTED)
"""The counters whose changes may share items, combined or not."""
READS_WITHIN_SECONDS = (10.0, 30.0, 60.0)
_PAUSE_SECONDS = 5.0


class Workload:
    """Carries out one scenario in one world."""

    def __init__(self, supervisor: Supervisor) -> None:
        self.scenario = supervisor.scenario
        self.world = supervisor.world
        self.auditor = supervisor.auditor
        self.settings = supervisor.scenario.settings
        self._supervisor = supervisor
        self._random = supervisor.random
        self._leaders = Leaders(supervisor)
        self._operators = Operators(supervisor)
        self._takeover = Takeover(supervisor, self._leaders, stop_apps=self._stop_app)
        self._lost_rights = LostRightsOperator(
            supervisor, self._takeover, file=lambda: self._leaders.file
        )
        self._stranger = Stranger(supervisor, read=self._total)
        self._forger = Forger(supervisor, read=self._total)
        self._signers = Signers(supervisor)
        self._spenders = Spenders(supervisor)
        self._correctors = Correctors(supervisor, file=lambda: self._leaders.file)
        self._bookkeepers = Bookkeepers(
            supervisor,
            self._correctors,
            alive=self._alive,
            calling=self._calling,
            too_late=self._too_late,
        )
        self._apps: dict[str, App] = {}
        self._callers: list[Process] = []
        self._is_resting = False
        self._steady = stream(self.scenario.seed, "steady reads")
        self._periods = stream(self.scenario.seed, "period reads")
        self._late = stream(self.scenario.seed, "late repeats")
        self._shared = stream(self.scenario.seed, "shared calls")
        self._lists = stream(self.scenario.seed, "list calls")
        self.world.observers.append(self)

    async def run(self, ended: anyio.Event) -> None:
        """Carry out the whole scenario and the checks at rest; then set `ended`."""
        await self._supervisor.guarded(self._run)
        ended.set()

    async def _run(self) -> None:
        scenario = self.scenario
        self._operators.start()
        for region in scenario.regions:
            self._supervisor.start(self._app, region)
            self._supervisor.start(self._read_on, region)
        self._leaders.start()
        for planned in scenario.steady_reads:
            self._supervisor.start(self._read_steadily, planned)
        self._takeover.start()
        self._lost_rights.start()
        self._stranger.start()
        self._forger.start()
        self._signers.start()
        self._spenders.start()
        self._correctors.start()
        self._bookkeepers.start()
        for freeze in () if scenario.contract is None else scenario.contract.freezes:
            self._supervisor.start(self._freeze, freeze)
        for outage in scenario.outages:
            self._supervisor.start(self._outage, outage)
        for operation in scenario.operations:
            await anyio.sleep(max(0.0, operation.at - self.world.loop.time()))
            self._supervisor.start(self._do, operation)
        await anyio.sleep(max(0.0, scenario.span - self.world.loop.time()))
        await self._rest()

    async def _app(self, region: str) -> None:
        """Run an application process until it crashes, and then the next."""
        if region in self.world.lost:
            return
        process = self._supervisor.process(f"app-{region}", self.scenario.app_reliability)
        process.on_crash = lambda: self._supervisor.start(
            self._supervisor.restart, self._app, region
        )
        store = SimStore(process, region, self.scenario.faults)
        if self.scenario.clocks_off:
            await self._measure(store)
        files = self.scenario.files
        file = files.draw(stream(self.scenario.seed, f"{process.name} wrong file"), region)
        while not process.is_over:
            ledger = self._ledger(process, store, file)
            try:
                async with ledger:
                    self._apps[region] = App(process, ledger, store)
                    await anyio.sleep_forever()
            except ContractConflict as error:
                self.world.note(lambda error=error: f"{process.name}: {error}")  # type: ignore[misc]
                file = files.right
                await process.clock.sleep(self._random.random() * FILE_SECONDS_MAX)
            except REFUSALS:  # the contract cannot be read
                await process.clock.sleep(_PAUSE_SECONDS)

    def _ledger(self, process: Process, store: SimStore, file: Settings) -> Ledger:
        return Ledger(
            file,
            region=store.region,
            registry=REGISTRY,
            given=GivenConnections(
                store=signing(store, self.scenario.seed, process.name),
                contract=self.scenario.contract is not None,
                archive=self._supervisor.archive(process, self.scenario.faults),
            ),
            services=Services.of(
                clock=process.clock,
                randomness=stream(self.scenario.seed, f"{process.name} ids"),
                registry=REGISTRY,
            ),
        )

    async def _freeze(self, freeze: Freeze) -> None:
        await anyio.sleep(freeze.at)
        app = await self._alive(freeze.region)
        app.process.freeze_before_entry(freeze.seconds)

    @staticmethod
    async def _measure(store: SimStore) -> None:
        """Read until an answer comes, as a ledger reads the table's contract when it is opened."""
        while store.clock_offset is None:
            with suppress(StoreError):
                await store.get(Get(lease_key("compactor")))
            await anyio.sleep(_PAUSE_SECONDS)

    def _stop_app(self, region: str) -> None:
        """Stop the processes of a region that is lost."""
        self._spenders.stop(region)
        if region in self._apps:
            self._apps[region].process.on_crash = lambda: None
            self._apps[region].process.crash()

    async def _alive(self, region: str) -> App:
        """Return the application of a region; of another one if that is lost."""
        # Polling costs next to nothing on virtual time.
        while not self._runs(region := self._takeover.instead_of(region)):  # noqa: ASYNC110
            await anyio.sleep(_PAUSE_SECONDS)
        return self._apps[region]

    def _runs(self, region: str) -> bool:
        return region in self._apps and not self._apps[region].process.is_dead

    # Faults that are planned.

    async def _outage(self, outage: Outage) -> None:
        await anyio.sleep(outage.begins)
        if self.world.is_healed:
            return
        if outage.target is None:
            self.world.note(lambda: f"region {outage.source} is down")
            self.world.down.add(outage.source)
        else:
            self.world.pause(outage.source, outage.target)
        await anyio.sleep(outage.ends - outage.begins)
        if outage.target is None:
            self.world.down.discard(outage.source)
        else:
            self.world.heal(outage.source, outage.target)

    # Writing.

    async def _do(self, operation: Operation) -> None:
        app = await self._alive(operation.region)
        self.auditor.parts.asked(operation.changes)
        changes = [(counter, Decimal(10**number)) for counter, number in operation.changes]
        match operation.kind:
            case "one":
                [(counter, change)] = changes
                effective = self._effective(counter, operation.changes[0][1])
                record = app.ledger.record
                await self._ask(
                    operation, app, lambda: _listed(record(counter, change, effective=effective))
                )
            case "keyed" | "keyed_list":
                await self._keyed(operation, app)
            case "crowd":
                for single in operation.changes:
                    self._supervisor.start(
                        self._in_crowd, replace(operation, changes=(single,)), app
                    )
            case "many":
                many = self._many(operation, app)
                await self._ask(operation, app, lambda: app.ledger.record_many(many))
            case "together":
                await self._ask(operation, app, lambda: app.ledger.record_together(changes))
            case "foreign":
                await self._foreign(operation, app)
            case "shared":
                self._share(operation, app)
            case "listed":
                listed = [Change(counter, change) for counter, change in changes]
                await self._ask(operation, app, lambda: app.ledger.record_many(listed))

    def _share(self, operation: Operation, app: App) -> None:
        """Let callers record changes together or in quick succession, each by a call of its own."""
        delay, gap = 0.0, self._shared.choice(GAPS_SECONDS)
        for single in operation.changes:
            delay += self._shared.random() * gap
            alone = replace(operation, changes=(single,))
            self._supervisor.start(self._call_shared, alone, app, delay)

    async def _call_shared(self, operation: Operation, app: App, delay: float) -> None:
        """Record a change of a combined counter; perhaps give up, or ask to write it again."""
        [(counter, number)] = operation.changes
        fate = self._shared.random()
        seconds = self._shared.choice(PATIENCE_SECONDS) * self._shared.random()
        gives_up, is_hasty = fate < GIVING_UP_SHARE, fate > 1 - HASTY_SHARE
        given = list[Entry]()

        async def call() -> list[Entry]:
            timeout = max(seconds, 0.001) if is_hasty else None
            given.append(await app.ledger.record(counter, 10**number, timeout=timeout))
            return given

        await anyio.sleep(delay)
        with anyio.move_on_after(seconds if gives_up else None):
            await self._ask(operation, app, call)
        if given and self._shared.random() < AGAIN_SHARE:
            await self._write_again(given)

    async def _write_again(self, given: list[Entry]) -> None:
        """Ask, in any region, to write an acknowledged change again: it must be refused.

        One that has an item of its own may be written again.
        """
        [entry] = given
        is_shared = entry.counter in COUNTERS or ids.split(entry.id)[1] is not None
        await anyio.sleep(self._shared.random() * self._shared.choice(AGAIN_SECONDS))
        app = await self._alive(self._shared.choice(self.scenario.regions))
        try:
            with self._calling(app):
                await app.ledger.retry(given)
        except (InvalidEntry, *REFUSALS):
            return
        except (OutcomeUnknown, RetryHorizonPassed, ArchiveError):
            if is_shared:
                raise
            return
        if is_shared:
            self.auditor.fail(
                "P5", f"{app.process.name} writes {entry.id} again, once acknowledged"
            )

    def _many(self, operation: Operation, app: App) -> list[Change]:
        """Return the changes of one call; of every second such call each has a key."""
        at = app.process.clock.wall(self.world.loop.time())
        if operation.changes[0][1] % 2:
            return [Change(counter, 10**number) for counter, number in operation.changes]
        return [
            Change(
                counter,
                10**number,
                key=f"key-{number}",
                at=at,
                effective=self._effective(counter, number),
            )
            for counter, number in operation.changes
        ]

    def _effective(self, counter: str, number: int) -> date | None:
        return effective_of(rule_of(self.settings.terms.periods, counter), number)

    async def _in_crowd(self, operation: Operation, app: App) -> None:
        """Record one of several concurrent changes by a call of its own; every second has a key."""
        [(counter, number)] = operation.changes
        if number % 2:
            await self._ask(operation, app, lambda: _listed(app.ledger.record(counter, 10**number)))
        else:
            at = app.process.clock.wall(self.world.loop.time())
            await self._ask(operation, app, lambda: self._record_keyed(operation, app, at))

    async def _keyed(self, operation: Operation, app: App) -> None:
        """Record a change, or a list, under a key, and schedule later calls under it."""
        at = app.process.clock.wall(self.world.loop.time())
        made = self.world.loop.time()
        for delay, region in (*operation.repeats, *self._late_repeats()):
            self._supervisor.start(self._repeat, operation, region, at, made, delay)
        for delay, region in operation.others:
            self._supervisor.start(self._record_other, operation, region, at, delay)
        await self._ask(
            operation, app, lambda: self._record_keyed(operation, app, at), is_repeated=True
        )

    async def _repeat(
        self, operation: Operation, region: str, at: datetime, made: float, delay: float
    ) -> None:
        await anyio.sleep(delay)
        app = await self._alive(region)
        age = self.world.loop.time() - made
        was_answered = await self._ask(
            operation, app, lambda: self._record_keyed(operation, app, at), is_repeated=True
        )
        limit = self.scenario.retry_horizon + self.settings.clock_skew
        if was_answered and age > limit and not self.settings.archive:
            self.auditor.fail("P5", f"{app.process.name} repeats {operation} after {age:.1f} s")

    def _late_repeats(self) -> list[tuple[float, str]]:
        """Return when and where a keyed call is repeated too late, for an archive to answer."""
        if not self.settings.archive:
            return []
        horizon, settle = self.scenario.retry_horizon, self.scenario.settle
        return [
            (horizon + self._late.random() ** 2 * within, self._late.choice(self.scenario.regions))
            for within in (settle, settle, 3 * settle)
        ]

    async def _record_other(
        self, operation: Operation, region: str, at: datetime, delay: float
    ) -> None:
        """Ask to record another list under the key of one that is there: it must be refused."""
        await anyio.sleep(delay)
        app = await self._alive(region)
        if not self.auditor.has_reached(app.ledger.region, operation.changes):
            return
        other = other_list(self._lists, _amounts(operation))
        try:
            with self._calling(app):
                await app.ledger.record_many(other, key=_list_key(operation), at=at)
        except (KeyConflict, OutcomeUnknown, RetryHorizonPassed, ArchiveError, *REFUSALS):
            return
        except InvalidEntry:
            if not self.scenario.clocks_off:
                raise
        else:
            self.auditor.fail("P5", f"{app.process.name} writes {other} under a key of {operation}")

    async def _record_keyed(self, operation: Operation, app: App, at: datetime) -> list[Entry]:
        if operation.kind == "keyed_list":
            entries = await app.ledger.record_many(
                _amounts(operation), key=_list_key(operation), at=at
            )
            if self._lists.random() < AGAIN_SHARE:
                self._supervisor.start(self._write_again, [self._lists.choice(entries)])
            return entries
        [(counter, number)] = operation.changes
        change, key = Decimal(10**number), f"key-{number}"
        effective = self._effective(counter, number)
        return [await app.ledger.record(counter, change, key=key, at=at, effective=effective)]

    async def _ask(
        self,
        operation: Operation,
        app: App,
        call: Callable[[], Awaitable[Sequence[Entry]]],
        *,
        is_repeated: bool = False,
    ) -> bool:
        """Make a call, report its outcome to the auditor, and return whether it succeeded."""
        try:
            with self._calling(app):
                entries = await call()
        except OutcomeUnknown as error:
            left = set(_numbered(error.entries))
            self._confirm(app, [change for change in operation.changes if change not in left])
            await self._retry(error, app)
            return False
        except (RetryHorizonPassed, ArchiveError) as error:
            self._too_late(app, error)
            return False
        except KeyConflict as error:
            self.auditor.fail("P5", f"{app.process.name} repeats {operation}: {error}")
            return False
        except InvalidEntry:
            if not self.scenario.clocks_off:  # the key of a process whose clock is ahead
                raise
            return False
        except REFUSALS:
            if not is_repeated:
                self.auditor.refused(operation.changes)
            return False
        self._confirm(app, operation.changes, entries)
        return True

    def _too_late(self, app: App, error: LedgerError) -> None:
        """Hold an answer of the archive to what it says; a place may fail, but lacks nothing."""
        if isinstance(error, ArchiveMissing | ArchiveDamaged):
            self.auditor.fail("P3", f"{app.process.name}: {error}")
        if isinstance(error, NeverApplied) and error.entry is not None:
            self.auditor.refused(_numbered([error.entry]))

    async def _retry(self, error: OutcomeUnknown, app: App) -> None:
        done = await written_again(
            error,
            app,
            self._supervisor,
            random=self._random,
            region=lambda last: self._random.choice((last.ledger.region, *self.scenario.regions)),
            alive=self._alive,
            calling=self._calling,
            too_late=self._too_late,
        )
        if done is not None:
            app, error, written = done
            self._confirm(app, _numbered(error.entries), written)

    async def _foreign(self, operation: Operation, app: App) -> None:
        """Write a change once, as another tool would: under a sort key of its own form."""
        [(counter, number)] = operation.changes
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
            self._confirm(app, operation.changes)

    @contextmanager
    def _calling(self, app: App) -> Iterator[None]:
        """Count a writing call as pending; the call of a process that crashes never ends."""
        self._callers.append(app.process)
        try:
            yield
        finally:
            self._callers.remove(app.process)

    def _confirm(
        self, app: App, changes: Sequence[tuple[str, int]], entries: Sequence[Entry] = ()
    ) -> None:
        for counter, number in changes:
            self.auditor.confirmed(app.ledger.region, counter, number)
        self.auditor.answered(app.ledger.region, entries)

    # Reading.

    def arrived(self, region: str, key: Key, item: Item | None) -> None:
        """Schedule reads of a counter in a region where a net change of it has just arrived."""
        place = keys.counter_of(key[0])
        if place is None or item is None or "merged" not in item:
            return
        counter = place[0]
        if self._is_resting or self.auditor.is_apart(counter):
            return
        for _ in range(self.scenario.reads_per_net):
            delay = self._random.random() * self._random.choice(READS_WITHIN_SECONDS)
            self._supervisor.start(self._read_later, delay, region, counter)

    def changed(self, region: str, partition: str) -> None:
        """Ignore the change: only a new net change triggers reads."""

    async def _read_later(self, delay: float, region: str, counter: str) -> None:
        await anyio.sleep(delay)
        await self._read(region, 0.0, counter)

    async def _read_steadily(self, planned: SteadyRead) -> None:
        await anyio.sleep(planned.at)
        await self._read(planned.region, 0.0, planned.counter, is_steady=True)

    async def _read_on(self, region: str) -> None:
        """Read random counters during busy periods, each read in a task of its own."""
        for period in self.scenario.busy:
            await anyio.sleep(max(0.0, period.begins - self.world.loop.time()))
            while self.world.loop.time() < period.ends:
                self._supervisor.start(self._read, region, self._random.choice((0.0, 0.0, 5.0)))
                await anyio.sleep(self._random.expovariate(1 / self.scenario.read_every))
            self._supervisor.start(self._read, region, self._random.choice((0.0, 0.0, 5.0)))

    async def _read(
        self,
        region: str,
        max_age: float,
        counter: str | None = None,
        *,
        is_steady: bool = False,
    ) -> None:
        app = await self._alive(region)
        region = app.ledger.region
        counter = counter or self._random.choice(self._counters)
        staleness = max_age * 1.1
        if not self.settings.consistent_reads:
            staleness += self.world.staleness
        if max_age == 0 and not is_steady:
            is_steady = self._steady.random() < self.scenario.steady_share
        read = self.auditor.read_begins(region, counter, staleness=staleness)
        try:
            total = await app.ledger.total(counter, max_age=max_age, steady=is_steady)
        except READ_REFUSALS:
            return
        self.auditor.read_ended(read, int(total.value), app.process.name, steady=is_steady)
        await self._read_periods(app, counter)
        await self._read_history(app, counter)

    async def _read_periods(self, app: App, counter: str) -> None:
        """Read a counter's sums by period, where they are kept."""
        rule = rule_of(self.settings.terms.periods, counter)
        if rule is None:
            return
        by, effective = self._periods.choice(kinds_of(rule))
        staleness = 0.0 if self.settings.consistent_reads else self.world.staleness
        read = self.auditor.read_begins(app.ledger.region, counter, staleness=staleness)
        try:
            found = await app.ledger.periods(counter, by=by, effective=effective)
        except READ_REFUSALS:
            return
        self.auditor.periods_read(read, found, app.process.name)

    async def _read_history(self, app: App, counter: str) -> None:
        """Read a counter's history, if changes may share items or an archive goes on with it."""
        after = ""
        if counter in SHARING:
            after = self._shared.choice(("", self.auditor.parts.drawn_id(counter, self._shared)))
        elif not self.settings.archive or self._steady.random() > HISTORY_SHARE:
            return
        staleness = 0.0 if self.settings.consistent_reads else self.world.staleness
        read = self.auditor.read_begins(app.ledger.region, counter, staleness=staleness)
        try:
            history = app.ledger.history(counter, after=after or None)
            entries = [entry async for entry in history]
        except ArchiveError as error:
            self._too_late(app, error)
        except READ_REFUSALS:
            return
        else:
            self.auditor.history_read(read, entries, app.process.name, after=after)

    async def _total(self, region: str, counter: str) -> tuple[str, Decimal]:
        """Read a counter in a region, or in another if it is lost; return in which."""
        app = await self._alive(region)
        total = await app.ledger.total(counter, max_age=0.0)
        return app.ledger.region, total.value

    @property
    def _counters(self) -> list[str]:
        return sorted(
            {counter for operation in self.scenario.operations for counter, _ in operation.changes}
        )

    # The end.

    async def _rest(self) -> None:
        """Heal all faults, replicate and merge everything, and let the auditor check the rest."""
        self._is_resting = True
        self.world.heal_all()
        self._leaders.rest()
        settings = self.settings
        # A process that stalled in a call may wake hours later and write only then.
        while self._is_calling:  # noqa: ASYNC110 (as above)
            await anyio.sleep(_PAUSE_SECONDS)
        await anyio.sleep(self.world.signature_seconds + self.scenario.retry_horizon)
        while self.world.in_flight:  # noqa: ASYNC110 (as above)
            await anyio.sleep(_PAUSE_SECONDS)
        await anyio.sleep(self.scenario.settle + settings.compactor.fold_age)
        await self._takeover.end()
        await self._lost_rights.end(self._leaders.search)
        await self._read_all(SHARING)
        await self._bookkeepers.read_all()
        await self._correctors.end()
        await self._leaders.merge_all()
        self.auditor.check_rest()
        await self._correctors.repeat()
        await self._stranger.read_all()
        await self._forger.read_all()
        await self._read_all(self._counters)
        await self._bookkeepers.read_all()
        await self._spenders.read_all()
        await self._spenders.drain()

    async def _read_all(self, counters: Collection[str]) -> None:
        """Read these counters, if there are changes of them, in every region that is not lost."""
        for region in (each for each in self.scenario.regions if each not in self.world.lost):
            for counter in (each for each in self._counters if each in counters):
                await self._read(region, 0.0, counter)

    @property
    def _is_calling(self) -> bool:
        others = self._spenders.is_calling or self._correctors.is_calling
        return others or any(not caller.is_dead for caller in self._callers)


def _numbered(entries: Sequence[Entry]) -> list[tuple[str, int]]:
    """Return the changes of these entries, each of which is one."""
    return [(entry.counter, number) for entry in entries for number in digits(entry.change)]


def _amounts(operation: Operation) -> list[tuple[str, int]]:
    return [(counter, 10**number) for counter, number in operation.changes]


def _list_key(operation: Operation) -> str:
    """Return the key of a list, of which each change is in no other."""
    counter, number = operation.changes[0]
    return f"list-{counter}-{number}"


async def _listed(call: Awaitable[Entry]) -> list[Entry]:
    return [await call]
