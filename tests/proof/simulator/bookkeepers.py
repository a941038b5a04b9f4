"""Those who keep the books of a world: transfers by all its applications, reversals, and reads.

A call may be repeated in any region, under its key or as what its outcome was not known of. Two
regions may use one key at once for different transfers, while they do not hear of each other. Some
transfers are reversed, again and again, at home. Beside them are two books that nobody is to
believe: one gets an item that does not balance, of the other somebody changes the balances in the
net. See `book_plan` for what is moved, `book_audit` for what must hold.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

import anyio

from ledger.core import books, keys
from ledger.core.entry import Item, Key, entry_id, entry_item, net_item, net_of
from ledger.core.errors import (
    ArchiveError,
    BookFull,
    DamagedItem,
    InvalidEntry,
    InvalidInput,
    KeyConflict,
    LedgerError,
    NetVanished,
    NeverApplied,
    OutcomeUnknown,
    RetryHorizonPassed,
)
from ledger.core.values import Entry, Leg
from ledger.session.book import Book, Transfer
from ledger.session.ledger import Ledger
from proof.simulator.apps import App
from proof.simulator.book_audit import BookAudit
from proof.simulator.book_plan import (
    BOOKS,
    FORGED,
    REPEATS_SECONDS,
    STRANGE,
    BookCall,
    draw_calls,
    keeps_books,
    moved,
    shares_items,
)
from proof.simulator.clocks import START
from proof.simulator.correctors import Correctors
from proof.simulator.forger import is_signed
from proof.simulator.losses import is_lossy
from proof.simulator.randomness import stream
from proof.simulator.refusals import READ_REFUSALS, REFUSALS
from proof.simulator.retries import Alive, Calling, written_again
from proof.simulator.supervisor import Supervisor

READS, READS_A_NET = 16, 2
READ_SECONDS = 60.0
AT_SHARE, HISTORY_SHARE, STEADY_SHARE = 0.25, 0.25, 0.2
AT_SECONDS = 6000.0
REVERSED_SHARE, REVERSALS = 0.4, 3
LIST_REPEATS_MAX = 2
APART_SECONDS = (300.0, 2500.0)
OLD_SECONDS = 10_000.0
FORGED_ENTRIES, FORGERIES, FORGED_READS = 4, 4, 6
FORGED_AMOUNT = 10**6
_HALF = 0.5


Call = Callable[[Ledger], Awaitable[Sequence[Entry]]]


class Bookkeepers:
    """The bookkeepers of one world.

    `alive` returns the application of a region, `calling` counts a call as pending, `too_late`
    judges what is said of a call that came too late.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        correctors: Correctors,
        *,
        alive: Alive,
        calling: Calling,
        too_late: Callable[[App, LedgerError], None],
    ) -> None:
        self._supervisor, self._correctors = supervisor, correctors
        self._scenario, self._world = supervisor.scenario, supervisor.world
        self._audit: BookAudit = supervisor.auditor.books
        self._alive, self._calling, self._too_late = alive, calling, too_late
        self._random = stream(supervisor.scenario.seed, "books kept")
        self._lists = stream(supervisor.scenario.seed, "lists of transfers")
        self._shares_items = shares_items(supervisor.scenario.seed)
        self._is_resting = False
        self._names: tuple[str, ...] = ()

    def start(self) -> None:
        """Start what they do, if the world has books."""
        scenario = self._scenario
        if not keeps_books(scenario.seed):
            return
        chance = stream(scenario.seed, "transfers")
        # Of a region that is lost one of two transfers under a key may arrive later, or never.
        twins = not is_lossy(scenario.seed)
        calls = draw_calls(chance, scenario.regions, scenario.busy, twins=twins)
        self._names = tuple(sorted({book for call in calls for book, _ in call.transfers}))
        self._world.observers.append(self)
        for call in calls:
            self._supervisor.start(self._do, call)
        for _ in range(READS):
            at, region = chance.random() * scenario.span, chance.choice(scenario.regions)
            self._supervisor.start(self._read_later, at, region, chance.choice(self._names))
        self._supervisor.start(self._unbalance, chance.random() * scenario.busy[-1].begins)
        for _ in range(FORGED_ENTRIES):
            self._supervisor.start(self._write_old, chance.random() * scenario.span)
        for _ in range(FORGERIES):
            self._supervisor.start(self._forge, chance.random() * scenario.span)
        for _ in range(FORGED_READS):
            for book in (STRANGE, FORGED):
                at, region = chance.random() * scenario.span, chance.choice(scenario.regions)
                self._supervisor.start(self._read_later, at, region, book)

    async def read_all(self) -> None:
        """Read every book in every region that is not lost."""
        self._is_resting = True
        for region in self._scenario.regions:
            for book in (*self._names, *((STRANGE, FORGED) if self._names else ())):
                if region not in self._world.lost:
                    await self._read(region, book)

    # Writing.

    async def _do(self, call: BookCall) -> None:
        await anyio.sleep(call.at)
        app = await self._alive(call.region)
        match call.kind:
            case "keyed":
                await self._keyed(call, app)
            case "twins":
                await self._twins(call, app)
            case "together":
                changes = [_of(book, number).change(book) for book, number in call.transfers]
                await self._ask(call.transfers, app, lambda ledger: ledger.record_together(changes))
            case _:
                await self._plain(call, app)

    async def _plain(self, call: BookCall, app: App) -> None:
        for name in BOOKS:
            numbers = [number for book, number in call.transfers if book == name]
            if self._shares_items and len(numbers) > 1 and self._lists.random() < _HALF:
                await self._listed(name, numbers, app)
                continue
            transfers = [_of(name, number, is_bare=self._shares_items) for number in numbers]
            made = list[Entry]()

            async def write(
                ledger: Ledger,
                name: str = name,
                transfers: Sequence[Transfer] = transfers,
                made: list[Entry] = made,
            ) -> list[Entry]:
                book = Book(name, ledger)
                if len(transfers) > 1:
                    made += await book.transfer_many(transfers)
                else:
                    [one] = transfers
                    made.append(await book.transfer(one.legs, metadata=one.metadata))
                return made

            if transfers:
                await self._ask([(name, number) for number in numbers], app, write)
            for entry in made:
                if self._random.random() < REVERSED_SHARE:
                    self._reverse_later(entry)

    async def _listed(self, book: str, numbers: Sequence[int], app: App) -> None:
        """Make transfers with one key together, and perhaps again, in any region."""
        transfers = [_of(book, number, is_bare=True) for number in numbers]
        made_at, key = app.process.clock.wall(self._world.time()), f"list-{numbers[0]}"

        async def write(ledger: Ledger) -> list[Entry]:
            return await Book(book, ledger).transfer_many(transfers, key=key, at=made_at)

        async def repeat(delay: float, region: str) -> None:
            await anyio.sleep(delay)
            await self._ask(asked, await self._alive(region), write, is_repeated=True)

        asked = [(book, number) for number in numbers]
        for _ in range(self._lists.randrange(LIST_REPEATS_MAX + 1)):
            delay = self._lists.random() * self._lists.choice(REPEATS_SECONDS)
            self._supervisor.start(repeat, delay, self._lists.choice(self._scenario.regions))
        await self._ask(asked, app, write, is_repeated=True)

    async def _keyed(self, call: BookCall, app: App) -> None:
        made_at = app.process.clock.wall(self._world.time())
        [(book, number)] = call.transfers
        began = self._world.time()
        for delay, region in call.repeats:
            self._supervisor.start(self._repeat, book, number, made_at, began, delay, region)
        await self._ask(
            call.transfers,
            app,
            lambda ledger: _keyed(ledger, book, number, f"key-{number}", made_at),
            is_repeated=True,
        )

    async def _repeat(
        self, book: str, number: int, made_at: datetime, began: float, delay: float, region: str
    ) -> None:
        await anyio.sleep(delay)
        app, age = await self._alive(region), self._world.time() - began
        was_answered = await self._ask(
            [(book, number)],
            app,
            lambda ledger: _keyed(ledger, book, number, f"key-{number}", made_at),
            is_repeated=True,
        )
        limit = self._scenario.retry_horizon + self._scenario.settings.clock_skew
        if was_answered and age > limit and not self._scenario.settings.archive:
            self._audit.fail("P5", f"{app.process.name} repeats {number} after {age:.1f} s")

    async def _twins(self, call: BookCall, app: App) -> None:
        """Let two regions use a key at once for transfers of their own, apart for a while."""
        (book, one), (_, other) = call.transfers
        self._audit.of_two(book, (one, other))
        made_at = app.process.clock.wall(self._world.time())
        here = app.ledger.region
        there = self._random.choice([each for each in self._scenario.regions if each != here])
        key = f"twins-{one}"
        for link in ((here, there), (there, here)):
            self._world.pause(*link)
        for number, region in ((one, here), (other, there)):
            self._supervisor.start(self._twin, book, number, key, made_at, region)
        await anyio.sleep(self._random.uniform(*APART_SECONDS))
        for link in ((here, there), (there, here)):
            self._world.heal(*link)

    async def _twin(self, book: str, number: int, key: str, made_at: datetime, region: str) -> None:
        app = await self._alive(region)
        await self._ask(
            [(book, number)],
            app,
            lambda ledger: _keyed(ledger, book, number, key, made_at),
            is_repeated=True,
            is_twin=True,
        )

    async def _ask(
        self,
        transfers: Sequence[tuple[str, int]],
        app: App,
        call: Call,
        *,
        is_repeated: bool = False,
        is_twin: bool = False,
    ) -> bool:
        """Make a call, report its outcome, and return whether it succeeded."""
        try:
            with self._calling(app):
                entries = await call(app.ledger)
        except OutcomeUnknown as error:
            await self._retry(error, app)
            return False
        except (RetryHorizonPassed, ArchiveError) as error:
            self._is_too_late(app, error)
            return False
        except KeyConflict as error:
            if not is_twin:
                self._audit.fail("P5", f"{app.process.name} repeats {transfers}: {error}")
            return False
        except (BookFull, *REFUSALS):
            if not is_repeated:
                self._audit.refused(transfers)
            return False
        except InvalidEntry:
            if not self._scenario.clocks_off:  # the key of a process whose clock is ahead
                raise
            return False
        self._audit.confirmed(app.ledger.region, entries)
        return True

    async def _retry(self, error: OutcomeUnknown, app: App) -> None:
        try:
            done = await written_again(
                error,
                app,
                self._supervisor,
                random=self._random,
                region=lambda _: self._random.choice(self._scenario.regions),
                alive=self._alive,
                calling=self._calling,
                too_late=self._is_too_late,
            )
        except KeyConflict:
            return  # of twins
        if done is not None:
            app, _, written = done
            self._audit.confirmed(app.ledger.region, written)

    def _is_too_late(self, app: App, error: LedgerError) -> None:
        self._too_late(app, error)
        if isinstance(error, NeverApplied) and error.entry is not None:
            self._audit.never_applied(error.entry)

    def _reverse_later(self, entry: Entry) -> None:
        for _ in range(REVERSALS):
            left = self._scenario.span - self._world.time()
            at = self._random.random() ** 2 * max(0.0, left)
            self._supervisor.start(self._reverse, entry, at)

    async def _reverse(self, entry: Entry, at: float) -> None:
        await anyio.sleep(at)

        async def reverse(ledger: Ledger) -> None:
            self._audit.confirmed(ledger.region, [await ledger.reverse(entry)])

        await self._correctors.at_home(reverse)

    # Reading.

    def arrived(self, region: str, key: Key, item: Item | None) -> None:
        """Read a book soon in a region where a net of it has just arrived."""
        book = (keys.counter_of(key[0]) or ("",))[0]
        if item is None or "merged" not in item or self._is_resting:
            return
        if book in self._names or book == FORGED:
            for _ in range(READS_A_NET):
                at = self._random.random() ** 2 * READ_SECONDS
                self._supervisor.start(self._read_later, at, region, book)

    def changed(self, region: str, partition: str) -> None:
        """Ignore the change: only a new net triggers reads."""

    async def _read_later(self, seconds: float, region: str, book: str) -> None:
        await anyio.sleep(seconds)
        await self._read(region, book)

    async def _read(self, region: str, book: str) -> None:
        app = await self._alive(region)
        region, is_steady = app.ledger.region, self._random.random() < STEADY_SHARE
        staleness = 0.0 if self._scenario.settings.consistent_reads else self._world.staleness
        at = None
        if self._random.random() < AT_SHARE and book in BOOKS:
            back = timedelta(seconds=self._random.random() ** 2 * AT_SECONDS)
            at, is_steady = app.process.clock.wall(self._world.time()) - back, False
        read = self._audit.read_begins(region, book, staleness=staleness, before=at)
        asked = Book(book, app.ledger).balances(max_age=0.0, steady=is_steady, at=at)
        with _refusing(at=at, damaged=book not in BOOKS):
            found = await asked
            self._audit.read_ended(read, found, app.process.name)
            if book == FORGED and not 0 <= found.of("b", "EUR") <= FORGED_ENTRIES:
                self._audit.fail("forged net", f"{region} gives {found.assets} of {FORGED}")
        if self._random.random() < HISTORY_SHARE and book in BOOKS:
            await self._read_history(app, book, staleness)

    async def _read_history(self, app: App, book: str, staleness: float) -> None:
        read = self._audit.read_begins(app.ledger.region, book, staleness=staleness)
        try:
            entries = [entry async for entry in Book(book, app.ledger).history()]
        except ArchiveError as error:
            self._too_late(app, error)
        except READ_REFUSALS:
            return
        else:
            is_whole = bool(self._scenario.settings.archive)
            self._audit.history_read(read, entries, app.process.name, is_whole=is_whole)

    # What nobody is to believe.

    def _region(self) -> str:
        regions = [region for region in self._world.replicas if region not in self._world.lost]
        return self._random.choice(regions)

    async def _unbalance(self, at: float) -> None:
        """Put an entry of another tool whose legs do not balance."""
        await anyio.sleep(at)
        legs = (Leg("a", "EUR", Decimal(-1)), Leg("b", "EUR", Decimal(2)))
        self._world.put(self._region(), self._old_item(STRANGE, legs))

    async def _write_old(self, at: float) -> None:
        """Make a transfer that is old enough to be merged at once."""
        await anyio.sleep(at)
        legs = (Leg("a", "EUR", Decimal(-1)), Leg("b", "EUR", Decimal(1)))
        self._world.put(self._region(), self._old_item(FORGED, legs))

    def _old_item(self, book: str, legs: tuple[Leg, ...]) -> Item:
        made = entry_id(START - timedelta(seconds=OLD_SECONDS), self._random.getrandbits(64))
        return entry_item(Entry(book, str(made), Decimal(0), legs=legs))

    async def _forge(self, at: float) -> None:
        """Put other balances into a net; half of the time its digest is made anew."""
        await anyio.sleep(at)
        region = self._region()
        items = self._world.replicas[region].table.partitions.get(FORGED, {})
        nets = [items[key] for key in sorted(items) if "merged" in items[key]]
        if not nets or "accounts" not in nets[-1]:
            return
        amount = Decimal(FORGED_AMOUNT)
        other = books.packed({"EUR": {"a": -amount, "b": amount}})
        forged = {**nets[-1], "accounts": {"B": other}}
        if is_signed(self._scenario.seed) and self._random.random() < _HALF:
            try:
                net = replace(net_of(nets[-1]), accounts=other)
            except DamagedItem:  # forged before
                return
            forged = {**nets[-1], **net_item(net, FORGED)}
        self._world.put(region, forged)


@contextmanager
def _refusing(*, at: datetime | None, damaged: bool) -> Iterator[None]:
    """Take what may be said of a read: nothing is known of so early a moment, or is damaged."""
    try:
        yield
    except READ_REFUSALS:
        pass
    except (InvalidInput, ArchiveError):
        if at is None:
            raise
    except (DamagedItem, NetVanished):
        if not damaged:
            raise


def _of(
    book: str,
    number: int,
    key: str | None = None,
    at: datetime | None = None,
    *,
    is_bare: bool = False,
) -> Transfer:
    legs = [(account, asset, amount) for (asset, account), amount in moved(book, number).items()]
    return Transfer(legs, key=key, at=at, metadata=None if is_bare else {"number": str(number)})


async def _keyed(
    ledger: Ledger, book: str, number: int, key: str, made_at: datetime
) -> list[Entry]:
    asked = _of(book, number, key, made_at)
    made = await Book(book, ledger).transfer(
        asked.legs, key=key, at=made_at, metadata=asked.metadata
    )
    return [made]
