"""One region's table in memory: the port's semantics without a network.

Public API for tests of programs that use the ledger, and the base of simulations. It passes the
conformance suite of every other store. A page has up to `page_items_max` items, so that few items
exercise paging. A transaction's token is remembered for ten minutes of `clock`; without a clock no
time passes.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from zlib import crc32

from ledger.core import amounts
from ledger.core.capacity import item_size, read_units, write_units
from ledger.core.clock_offset import ClockOffset
from ledger.core.entry import ITEM_BYTES_MAX, AttributeValue, Item, Key, number_of
from ledger.core.errors import AmountOverflow, DamagedItem, RequestRefused, StoreError, TokenReused
from ledger.runtime.clock import Clock
from ledger.store.conditions import holds
from ledger.store.reads import FoundItems, Get, Page, Query, Scan, checked_gets
from ledger.store.retry import RetryBudget
from ledger.store.writes import (
    BATCH_WRITES_MAX,
    EACH_WRITES_MAX,
    TOKEN_SECONDS,
    TRANSACTION_ACTIONS_MAX,
    Action,
    Applied,
    BatchOutcome,
    BatchWrite,
    Check,
    Delete,
    EachOutcome,
    Outcome,
    OwnAction,
    Put,
    Rejected,
    Update,
    Write,
    checked_actions,
    checked_statements,
    is_statement,
    placed,
)


class MemoryTable:
    """The items of one region, independent of the stores that access them.

    Several stores can share a table, as several processes share a region. `others` are the other
    tables of the region, by name, which `InTable`, and `table` of a read, reach.
    """

    def __init__(self) -> None:
        self.partitions: dict[str, dict[str, Item]] = {}
        self.tokens: dict[str, tuple[float, tuple[Action, ...]]] = {}
        self.others: dict[str, MemoryTable] = {}

    def named(self, name: str) -> "MemoryTable":
        """Return a table of the region, created if missing; without a name, this one."""
        return self.others.setdefault(name, MemoryTable()) if name else self

    def get(self, key: Key) -> Item | None:
        """Return the item under a key."""
        return self.partitions.get(key[0], {}).get(key[1])

    def set(self, key: Key, item: Item | None) -> None:
        """Put an item under its key, or delete it."""
        if item is not None:
            self.partitions.setdefault(key[0], {})[key[1]] = item
            return
        partition = self.partitions.get(key[0], {})
        partition.pop(key[1], None)
        if not partition:
            self.partitions.pop(key[0], None)

    def items(self) -> Iterator[Item]:
        """Yield every item, partition by partition, in order of sort keys."""
        for partition in list(self.partitions.values()):
            yield from (partition[key] for key in sorted(partition, key=str.encode))


class MemoryStore:
    """A `Store` over a `MemoryTable`; a test sets `clock_offset` and `described`."""

    def __init__(
        self,
        region: str,
        table: MemoryTable | None = None,
        *,
        page_items_max: int = 1000,
        clock: Clock | None = None,
    ) -> None:
        self.region = region
        self.retry_budget: RetryBudget = RetryBudget()
        self.clock_offset: ClockOffset | None = None
        self.described: Mapping[str, str] | None = None
        self.table: MemoryTable = MemoryTable() if table is None else table
        self.page_items_max = page_items_max
        self._clock = clock

    async def write(self, write: Write) -> Outcome:
        """Do one conditional write."""
        return self._apply((write,))

    async def write_batch(self, writes: Sequence[BatchWrite]) -> BatchOutcome:
        """Do up to 25 unconditional writes of different items."""
        checked_actions(writes, BATCH_WRITES_MAX)
        units = 0
        for write in writes:
            units += self._units(write)
            self._apply((write,))
        return BatchOutcome(write_units=units)

    def _units(self, write: BatchWrite) -> int:
        """Return the cost of a write: by the larger of its item and the previous one."""
        shown = self.table.get(write.key), write.item if isinstance(write, Put) else None
        return write_units(max(item_size(item) if item else 0 for item in shown))

    async def write_each(self, writes: Sequence[Write]) -> EachOutcome:
        """Do up to 25 conditional writes of different items, each on its own."""
        checked_actions(writes, EACH_WRITES_MAX)
        outcomes: list[Outcome | StoreError] = []
        for write in writes:
            try:
                outcome = self._apply((write,))
            except StoreError as error:
                outcomes.append(error)
            else:
                outcomes.append(_told(write, outcome, alone=len(writes) == 1))
        return EachOutcome(tuple(outcomes))

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Do up to 100 actions, all or none."""
        checked_actions(actions, TRANSACTION_ACTIONS_MAX)
        if token is not None and self._is_known(token, actions):
            return Applied()
        outcome = self._apply(actions)
        if token is not None and isinstance(outcome, Applied):
            self.table.tokens[token] = self._seconds(), tuple(actions)
        return Applied() if isinstance(outcome, Applied) else outcome

    def _is_known(self, token: str, actions: Sequence[Action]) -> bool:
        """Return whether the token's transaction was applied within the last ten minutes."""
        since, known = self.table.tokens.get(token, (-math.inf, ()))
        if self._seconds() - since >= TOKEN_SECONDS:
            return False
        if known != tuple(actions):
            raise TokenReused(f"token {token!r} was used for another transaction")
        return True

    def _seconds(self) -> float:
        return 0.0 if self._clock is None else self._clock.monotonic()

    async def get(self, get: Get) -> Item | None:
        """Read one item; there is one copy, so every read is consistent."""
        return self.table.named(get.table).get(get.key)

    async def get_each(self, gets: Sequence[Get]) -> FoundItems:
        """Read up to 100 different items."""
        checked_gets(gets)
        return FoundItems([self.table.named(get.table).get(get.key) for get in gets])

    async def query(self, query: Query) -> Page:
        """Read one page of a partition in order."""
        items = self.table.partitions.get(query.partition, {})
        wanted = sorted(
            (key for key in items if _is_wanted(key, query)),
            key=str.encode,
            reverse=query.descending,
        )
        bound = self._bound(query.limit)
        page = [items[key] for key in wanted[:bound]]
        cut = (query.partition, wanted[bound - 1]) if len(wanted) > bound else None
        return _page(page, cut, query.attributes, consistent=query.consistent)

    async def scan(self, scan: Scan) -> Page:
        """Read one page of one segment."""
        partitions = self.table.named(scan.table).partitions
        places = sorted(
            (crc32(partition.encode()), partition, key)
            for partition, items in partitions.items()
            if crc32(partition.encode()) % scan.segments == scan.segment
            for key in items
        )
        if scan.after is not None:
            last = (crc32(scan.after[0].encode()), *scan.after)
            places = [place for place in places if place > last]
        bound = self._bound(scan.limit)
        items = [partitions[place[1]][place[2]] for place in places[:bound]]
        cut = places[bound - 1][1:] if len(places) > bound else None
        return _page(items, cut, scan.attributes, consistent=scan.consistent)

    def _bound(self, limit: int | None) -> int:
        return min(limit or self.page_items_max, self.page_items_max)

    async def replicas(self) -> Mapping[str, str] | None:
        """Return what a test has set as `described`."""
        return self.described

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def _apply(self, actions: Sequence[Action]) -> Outcome:
        checked_statements(actions)
        places = [(self.table.named(name), action) for name, action in map(placed, actions)]
        found = [table.get(action.key) for table, action in places]
        failed = {
            position: None if is_statement(action) else item
            for position, ((_, action), item) in enumerate(zip(places, found, strict=True))
            if not holds(action.condition, item)
        }
        if failed:
            return Rejected(found=failed)
        images = [_image(action, item) for (_, action), item in zip(places, found, strict=True)]
        for (table, action), image in zip(places, images, strict=True):
            table.set(action.key, image)
        _, first = places[0]
        if isinstance(first, Put) and first.returns_old:
            return Applied(found[0])
        return Applied(images[0] if isinstance(first, Update) else None)


def _told(write: Write, outcome: Outcome, *, alone: bool) -> Outcome:
    """Return the outcome in the form of a batch: no new item, and no existing one for a put."""
    if isinstance(outcome, Applied):
        return Applied()
    is_put = isinstance(placed(write)[1], Put)
    is_bare = isinstance(outcome, Rejected) and is_put and not alone
    return Rejected() if is_bare else outcome


def _is_wanted(key: str, query: Query) -> bool:
    """Return whether a sort key is within the bounds of a query and after its last page."""
    encoded = key.encode()
    if query.first is not None and encoded < query.first.encode():
        return False
    if query.last is not None and encoded > query.last.encode():
        return False
    if query.after is None:
        return True
    after = query.after[1].encode()
    return encoded < after if query.descending else encoded > after


def _page(
    items: Sequence[Item], last: Key | None, attributes: Sequence[str], *, consistent: bool
) -> Page:
    """Return a page of some attributes; its units are those of the whole items."""
    if not attributes:
        return Page(items, last)
    units = read_units(sum(map(item_size, items)), consistent=consistent)
    part = [{name: item[name] for name in attributes if name in item} for item in items]
    return Page(part, last, units)


def _image(action: OwnAction, item: Item | None) -> Item | None:
    """Return the item after an action."""
    match action:
        case Put():
            image: Item | None = dict(action.item)  # the caller may mutate its own later
        case Delete():
            return None
        case Check():
            return item
        case Update():
            image = _updated(action, item)
    if image is not None and item_size(image) > ITEM_BYTES_MAX:
        raise RequestRefused(f"item {action.key} must have at most {ITEM_BYTES_MAX:,} bytes")
    return image


def _updated(update: Update, item: Item | None) -> Item:
    image: dict[str, AttributeValue] = dict(item or {})
    image["pk"], image["sk"] = {"S": update.key[0]}, {"S": update.key[1]}
    for name, addend in update.add.items():
        image[name] = _sum(image, name, addend)
    image.update(update.set)
    for name, taken in update.discard.items():
        _discard(image, name, taken)
    for name in update.remove:
        image.pop(name, None)
    return image


def _discard(image: dict[str, AttributeValue], name: str, taken: AttributeValue) -> None:
    """Remove elements from a set, and the attribute with the last one: sets are never empty."""
    ((kind, content),) = taken.items()
    before = image.pop(name, {kind: []})
    if kind not in before:
        raise RequestRefused(f"attribute {name!r} must be of type {kind}")
    left = [member for member in before[kind] if member not in content]
    if left:
        image[name] = {kind: left}


def _sum(image: Item, name: str, addend: AttributeValue) -> AttributeValue:
    """Return an attribute after an ADD: to a number, or of elements to a set."""
    ((kind, content),) = addend.items()
    if kind != "N":
        before = image.get(name, {kind: []})
        if kind not in before:
            raise RequestRefused(f"attribute {name!r} must be of type {kind}")
        return {
            kind: [*before[kind], *(member for member in content if member not in before[kind])]
        }
    try:
        number = number_of(image, name) if name in image else Decimal(0)
        return {"N": amounts.to_text(amounts.total([number, amounts.of_text(content)]))}
    except (AmountOverflow, DamagedItem) as error:
        raise RequestRefused(str(error)) from None
