"""A store that measures each operation: its duration, and DynamoDB's billing units.

The units come from our own model of the documented rules (`ledger.core.capacity`), as charged in
this store's region. A global table charges the write units again in each further replica. The units
of a page are DynamoDB's own count if available: it is exact, and measuring 10,000 items takes
longer than adding them up.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal

from ledger.core.capacity import item_size, read_units, write_units
from ledger.core.entry import Item
from ledger.core.errors import StoreError, Throttled
from ledger.runtime.clock import Clock
from ledger.runtime.metrics import Metrics
from ledger.store.port import Store
from ledger.store.reads import FoundItems, Get, Page, Query, Scan
from ledger.store.wrappers.forwarder import ForwardingStore
from ledger.store.writes import (
    Action,
    Applied,
    BatchOutcome,
    BatchWrite,
    Delete,
    EachOutcome,
    Outcome,
    Put,
    Rejected,
    Unknown,
    Update,
    Write,
    placed,
)

OnUnits = Callable[[Literal["read", "write"], float], None]


class MeteredStore(ForwardingStore):
    """A `Store` that forwards every request and measures it.

    `on_units` is called with what each operation cost, before it returns.
    """

    def __init__(
        self, inner: Store, *, metrics: Metrics, clock: Clock, on_units: OnUnits | None = None
    ) -> None:
        super().__init__(inner)
        self._metrics = metrics
        self._clock = clock
        self._on_units = on_units

    async def write(self, write: Write) -> Outcome:
        """Do one conditional write; a rejected one is charged as well."""
        started = self._clock.monotonic()
        outcome = await self._inner.write(write)
        operation = type(placed(write)[1]).__name__.lower()
        self._written(operation, _units([write], outcome), outcome_name(outcome), 1, started)
        return outcome

    async def write_batch(self, writes: Sequence[BatchWrite]) -> BatchOutcome:
        """Do a batch; unprocessed writes are not charged."""
        started = self._clock.monotonic()
        outcome = await self._inner.write_batch(writes)
        rest = {*outcome.unprocessed, *outcome.unknown}
        units = outcome.write_units
        if units is None:
            done = [write for place, write in enumerate(writes) if place not in rest]
            units = sum(write_units(_size(write)) for write in done)
        self._written("batch", units, "applied", len(writes) - len(rest), started)
        if outcome.unknown:
            self._written("batch", 0, "unknown", len(outcome.unknown), started)
        return outcome

    async def write_each(self, writes: Sequence[Write]) -> EachOutcome:
        """Do several writes; each that was answered is charged, also a rejected one.

        An error in place of an outcome is counted as `throttled` or `refused`.
        """
        started = self._clock.monotonic()
        answer = await self._inner.write_each(writes)
        units = answer.write_units
        if units is None:
            charged = zip(writes, answer.outcomes, strict=True)
            units = sum(
                _each_units(write, outcome)
                for write, outcome in charged
                if not isinstance(outcome, StoreError)
            )
        for name, count in Counter(map(_each_name, answer.outcomes)).items():
            self._written("each", units, name, count, started)
            units = 0
        return answer

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Do a transaction; every action is charged double."""
        started = self._clock.monotonic()
        outcome = await self._inner.transact(actions, token=token)
        units = _units(actions, outcome, transactional=True)
        name = outcome_name(outcome)
        self._written("transaction", units, name, len(actions), started)
        return outcome

    async def get(self, get: Get) -> Item | None:
        """Read one item."""
        item = await self._inner.get(get)
        size = item_size(item) if item else 0
        self._read("get", read_units(size, consistent=get.consistent))
        return item

    async def get_each(self, gets: Sequence[Get]) -> FoundItems:
        """Read several items; each is charged as if read alone."""
        found = await self._inner.get_each(gets)
        units = found.read_units
        if units is None:
            units = sum(
                read_units(_of(item), consistent=get.consistent)
                for get, item in zip(gets, found.items, strict=True)
            )
        self._read("get_each", units)
        return found

    async def query(self, query: Query) -> Page:
        """Read one page of a partition."""
        page = await self._inner.query(query)
        self._read("query", _page_units(page, consistent=query.consistent))
        return page

    async def scan(self, scan: Scan) -> Page:
        """Read one page of one segment."""
        page = await self._inner.scan(scan)
        self._read("scan", _page_units(page, consistent=scan.consistent))
        return page

    def _written(
        self, operation: str, units: float, outcome: str, count: int, started: float
    ) -> None:
        elapsed = self._clock.monotonic() - started
        self._metrics.write(self.region, operation, outcome, count, elapsed)
        if units:
            self._consumed(operation, "write", units)

    def _read(self, operation: str, units: float) -> None:
        self._consumed(operation, "read", units)

    def _consumed(self, operation: str, kind: Literal["read", "write"], units: float) -> None:
        self._metrics.consumed(self.region, operation, kind, units)
        if self._on_units is not None:
            self._on_units(kind, units)


def outcome_name(outcome: Outcome) -> str:
    """Return the name of an outcome in metrics."""
    match outcome:
        case Applied():
            return "applied"
        case Rejected():
            return "rejected"
        case Unknown():
            return "unknown"


def _each_name(outcome: Outcome | StoreError) -> str:
    if isinstance(outcome, StoreError):
        return "throttled" if isinstance(outcome, Throttled) else "refused"
    return outcome_name(outcome)


def _units(actions: Sequence[Action], outcome: Outcome, *, transactional: bool = False) -> int:
    if isinstance(outcome, Unknown):
        return 0
    found = outcome.found if isinstance(outcome, Rejected) else {}
    new = outcome.item if isinstance(outcome, Applied) else None
    return sum(
        write_units(
            max(_size(action), _of(found.get(place)), _of(new)), transactional=transactional
        )
        for place, action in enumerate(actions)
    )


def _each_units(write: Write, outcome: Outcome) -> int:
    """Return the units of one of several writes, whose answer has no new item."""
    units = _units([write], outcome)
    _, own = placed(write)
    if not isinstance(own, Update) or isinstance(outcome, Unknown):
        return units
    return max(units, write_units(item_size(own.set)))


def _size(action: Action) -> int:
    _, action = placed(action)
    if isinstance(action, Put):
        return max(item_size(action.item), action.replaces_bytes)
    return action.size_bytes if isinstance(action, Delete) else 0


def _of(item: Item | None) -> int:
    return item_size(item) if item else 0


def _page_units(page: Page, *, consistent: bool) -> float:
    if page.read_units is not None:
        return page.read_units
    return read_units(sum(map(item_size, page.items)), consistent=consistent)
