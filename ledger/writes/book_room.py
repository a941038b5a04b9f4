"""Whether a book has room for the accounts that a transfer names, before anything is sent.

A book that is full by the bound of a fold (`ledger.core.books.ACCOUNTS_BYTES_MAX`) keeps its
transfers unmerged: every balance stays right, and every read gets longer. So no account is opened
from a lower size on. What is between the two is room for the accounts that other processes open
until they look again. A process remembers the accounts that it has used, so steady traffic reads
nothing; those that have a balance, merged or not, stay usable however full the book is.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from ledger.core import books, keys
from ledger.core.errors import BookFull
from ledger.reads.collection import read_known_net
from ledger.reads.total import Total
from ledger.runtime.clock import Clock
from ledger.runtime.tasks import run_all
from ledger.settings.live import LiveSettings
from ledger.store.port import Store
from ledger.writes.entry_plan import Change

KNOWN_MAX = 10_000
"""Accounts that a process remembers, of all books; the least recently used is forgotten first."""
BOOKS_MAX = 100
"""Full books whose accounts a process keeps."""
LOOK_SECONDS = 60.0
"""How long a look at a book holds."""
SHARDS_AT_ONCE = 16
Account = tuple[str, str]
"""An asset, and an account that has some of it."""


@dataclass(frozen=True, slots=True)
class _Look:
    """What a book showed at a time (monotonic): if it is full, the accounts that it has."""

    at: float
    accounts: frozenset[Account] | None


class BookRoom:
    """The accounts that a process may use in the books of one region."""

    def __init__(
        self,
        store: Store,
        settings: LiveSettings,
        clock: Clock,
        *,
        total: Callable[[str], Awaitable[Total]],
    ) -> None:
        """Take what reads a book's total now, with its balances."""
        self._store = store
        self._total = total
        self._settings = settings
        self._clock = clock
        self._known: OrderedDict[tuple[str, Account], None] = OrderedDict()
        self._looks: OrderedDict[str, _Look] = OrderedDict()

    async def check(self, changes: Iterable[Change], *, is_listed: bool = False) -> None:
        """Refuse transfers that would open an account in a book that is full.

        `is_listed` if they have a key together.

        Raises:
            BookFull: this call writes nothing; of a change with a key an earlier one may have.
            InvalidInput: the legs of one break a rule.
            DamagedItem, ReadTooSlow, StoreError: a book cannot be read.
        """
        settings = self._settings.current
        for change in changes:
            if change.legs is None or not settings.is_book(change.counter):
                continue
            used = [(leg.asset, leg.account) for leg in books.checked_legs(change.legs)]
            new = [one for one in used if (change.counter, one) not in self._known]
            if new:
                try:
                    await self._open(change.counter, new)
                except BookFull as error:
                    if (
                        is_listed or change.key is not None
                    ):  # an earlier call, elsewhere, may have made it
                        error.outcome = "unknown"
                    raise
            self._use(change.counter, used)

    async def _open(self, book: str, accounts: Sequence[Account]) -> None:
        look = self._looks.get(book)
        if look is None or self._clock.monotonic() - look.at > LOOK_SECONDS:
            look = await self._looked(book)
            self._looks[book] = look
            self._looks.move_to_end(book)
            while len(self._looks) > BOOKS_MAX:
                self._looks.popitem(last=False)
        if look.accounts is None:
            return
        missing = next((one for one in accounts if one not in look.accounts), None)
        if missing is not None:
            raise BookFull(
                f"book {book!r} has no room for account {missing[1]!r} in {missing[0]}: its"
                f" accounts take over {books.ACCOUNTS_BYTES_OPEN // 1024} KB; transfers between"
                " those that it has go on; open others in another book, and clear between the two"
            )

    async def _looked(self, book: str) -> _Look:
        at, shards = self._clock.monotonic(), self._settings.current.shards_max(book)
        partitions = [keys.partition_key(book, shard) for shard in range(shards)]
        reads = [partial(read_known_net, self._store, one, self._settings) for one in partitions]
        nets = await run_all(reads, at_once=SHARDS_AT_ONCE)
        if all(len((net and net.accounts) or b"") < books.ACCOUNTS_BYTES_OPEN for net in nets):
            return _Look(at, None)
        shown = (await self._total(book)).accounts or {}
        return _Look(
            at,
            frozenset(
                (asset, account) for asset, balances in shown.items() for account in balances
            ),
        )

    def _use(self, book: str, accounts: Iterable[Account]) -> None:
        for one in accounts:
            self._known[book, one] = None
            self._known.move_to_end((book, one))
        while len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)
