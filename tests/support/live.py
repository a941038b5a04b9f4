"""Settings that change under a part, as a table's contract changes them, and stores that look."""

from collections.abc import Sequence

from ledger.core.contract import Validity
from ledger.core.entry import Item
from ledger.runtime.validity import check_validity
from ledger.settings import Settings
from ledger.store.memory import MemoryStore, MemoryTable
from ledger.store.reads import Get, Page, Query
from ledger.store.writes import Action, BatchOutcome, BatchWrite, Outcome, Write
from ledger.testing.clock import ManualClock


class Live:
    """Settings of which a test says what each renewal finds; the last one stays."""

    def __init__(
        self, current: Settings, *then: Settings, validity: Validity | None = None
    ) -> None:
        self.current = current
        self.validity = validity
        self.renewals = 0
        self._then = list(then)

    async def renew(self) -> None:
        """Take the next settings."""
        self.renewals += 1
        if self._then:
            self.current = self._then.pop(0)


class SignedStore(MemoryStore):
    """A store in memory that looks at the validity around each request, as the wire does."""

    def __init__(self, region: str, clock: ManualClock, table: MemoryTable | None = None) -> None:
        super().__init__(region, table)
        self._signs = clock
        self.requests = 0

    def _sign(self) -> None:
        check_validity(self._signs.now())
        self.requests += 1

    async def write(self, write: Write) -> Outcome:
        """Do one conditional write."""
        self._sign()
        return await super().write(write)

    async def write_batch(self, writes: Sequence[BatchWrite]) -> BatchOutcome:
        """Do a batch."""
        self._sign()
        return await super().write_batch(writes)

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Do a transaction."""
        self._sign()
        return await super().transact(actions, token=token)

    async def get(self, get: Get) -> Item | None:
        """Read one item."""
        self._sign()
        return await super().get(get)

    async def query(self, query: Query) -> Page:
        """Read one page."""
        self._sign()
        return await super().query(query)
