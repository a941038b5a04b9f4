"""Charging what was let through: spends that no grant pays for, made while none could be had.

Such an entry names grant 0 of its region's holder, for each of its budgets. It is charged to the
rights items of that holder in one transaction that marks it: so once, by the first process. That
is the process that made it, once the items can be had; and of one that crashed, or never learned
that its entry is there, a pass of the compactor. It is not folded before (`spend_record.may_fold`).

::

    let through ── by its process, or a pass ──> charged ── every region shows that ──> folded
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from itertools import islice

import anyio

from ledger.budgets.amount_rules import fits
from ledger.budgets.calendar import Window
from ledger.budgets.initial_shares import first_rights
from ledger.budgets.region_access import RegionAccess
from ledger.budgets.rights import NO_GRANT, GrantName, Holder, Rights, write_of
from ledger.budgets.rights_items import RightsView
from ledger.budgets.rights_plan import charge
from ledger.budgets.rolling_limits import dated
from ledger.budgets.spend_record import SpendRecord, as_read, is_open, spend_attributes, spend_of
from ledger.budgets.spend_request import BUDGETS_MAX
from ledger.core import amounts
from ledger.core.entry import ADJUSTED, RESOLVED, Key
from ledger.core.errors import BudgetUndecided, LedgerError, StoreError
from ledger.runtime.tasks import run_requests
from ledger.store.conditions import AllOf, Has, Not
from ledger.store.reads import Get
from ledger.store.writes import TRANSACTION_ACTIONS_MAX, Applied, Put, Update

ENTRIES_MAX = TRANSACTION_ACTIONS_MAX - BUDGETS_MAX
"""How many entries are charged in one transaction, with the rights items of their budgets."""
KEPT_MAX = 10_000
"""Entries that a process remembers to charge itself; any more are left to the compactor."""
READS_AT_ONCE = 16
LIMIT_NOT_READ = Decimal("1E22")
"""What a limit is taken to be at most by a process that has not read it."""


def may_let_through(amount: Decimal, limit: Decimal) -> bool:
    """Return whether an amount can be added up with whatever else is spent of a budget.

    `limit` is what the process has read, and has compared it with; 0 if it has read none.
    """
    return limit > 0 or (amount <= LIMIT_NOT_READ and fits(amount, LIMIT_NOT_READ))


@dataclass(frozen=True, slots=True)
class FailOpenCharge:
    """A rights item as it was read, and as it is to be charged: made, where it was absent."""

    before: Rights
    made: Rights


Reader = Callable[[str], Awaitable[RightsView]]
"""Reads a budget's control items through one region, strongly consistent."""


async def item_to_charge(
    window: Window, holder: Holder, *, own: Reader, limits: Reader
) -> FailOpenCharge | None:
    """Return the item of a holder that a budget's spends are charged to; None without a limit.

    `own` reads in the holder's region, `limits` where the budget's limit is looked for.

    Raises:
        BudgetUndecided: it is to be made, and its share is not decided.
        DamagedItem: an item cannot be read whole.
        StoreError: a region cannot be read.
    """
    before = (await own(window.counter)).of(holder)
    if before.version:
        return FailOpenCharge(before, before)
    limit = (await limits(window.budget)).limit
    if limit is None:
        return None
    return FailOpenCharge(before, first_rights(before, window=window, limit=limit) or before)


def charge_let_through(
    entries: Mapping[Key, SpendRecord],
    items: Mapping[str, FailOpenCharge],
    counter: str,
    *,
    now: float,
) -> list[Put | Update]:
    """Return the transaction that charges entries of a counter, all of which name the same budgets.

    `items` are those that they are charged to, by budget ("" is the counter's own); a budget that
    has no limit has none, and is charged nothing. `now` is in seconds since 1970.

    Raises:
        AmountOverflow: a sum does not fit in 38 digits, however it is rounded.
    """
    amount = amounts.total_wide(spend.amount for spend in entries.values())
    puts: list[Put | Update] = []
    written: list[GrantName] = []
    for name in next(iter(entries.values())).grants:
        item = items.get(name.budget)
        if item is None:
            written.append(name)
            continue
        after = dated(charge(item.made, amount), now)
        puts.append(write_of(item.before, after, name.budget or counter))
        written.append(GrantName(after.holder, after.version, name.budget))
    return [*puts, *(_mark(key, spend, tuple(written)) for key, spend in entries.items())]


def _mark(key: Key, spend: SpendRecord, written: tuple[GrantName, ...]) -> Update:
    """Return the update that marks an entry as charged; it must be as it was read."""
    attributes = spend_attributes(replace(spend, resolved="charged", adjusted=written))
    marks = {name: attributes[name] for name in (RESOLVED, ADJUSTED)}
    return Update(key, set=marks, condition=AllOf((*as_read(spend), Not(Has(RESOLVED)))))


@dataclass(frozen=True, slots=True)
class FailOpenSpend:
    """What spends are let through from: windows of budgets, and the names of no grant of them.

    `counter` is the one whose entries they are.
    """

    counter: str
    windows: tuple[Window, ...]
    names: tuple[str, ...]

    @staticmethod
    def of(counter: str, windows: Sequence[Window], holder: Holder) -> "FailOpenSpend":
        """Return that of spends which are to be charged to a holder."""
        budgets = ["" if window.counter == counter else window.counter for window in windows]
        names = [str(GrantName(holder, NO_GRANT, budget)) for budget in budgets]
        return FailOpenSpend(counter, tuple(windows), tuple(names))


class FailOpen:
    """What one process let through, until it is charged, or found to be another's to charge.

    `noted` is told what is charged of entries that were not counted as let through before: of a
    call whose outcome was not known.
    """

    def __init__(
        self,
        access: RegionAccess,
        *,
        noted: Callable[["FailOpenSpend", Decimal], None] = lambda _, __: None,
    ) -> None:
        self._access = access
        self._items = access.here
        self._noted = noted
        self._lock = anyio.Lock()
        self._kept: dict[FailOpenSpend, dict[Key, bool]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, key: Key, through: FailOpenSpend, *, is_counted: bool = False) -> None:
        """Remember an entry that was let through, whether it is there or may be."""
        kept = self._kept.get(through, {})
        if key in kept:
            kept[key] |= is_counted
        elif self._count < KEPT_MAX:
            self._kept.setdefault(through, kept)[key] = is_counted
            self._count += 1

    async def charge(self) -> None:
        """Charge what is there of it, as far as budgets have a limit; the rest is a pass's.

        Raises:
            StoreError: the region does not answer: nothing more is tried.
            LedgerError: an item cannot be read whole: what is charged to it is kept.
        """
        errors: list[LedgerError] = []
        for through in list(self._kept):
            try:
                while await self.charge_some(through):
                    pass
            except StoreError:
                raise  # in an outage each of thousands would wait for its own
            except LedgerError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    async def charge_some(self, through: FailOpenSpend) -> bool:
        """Charge what was let through from the same, in one transaction; return whether more is.

        Raises:
            LedgerError: as `charge`.
        """
        if through not in self._kept:
            return False
        async with self._lock:
            return await self._charge(through)

    async def _charge(self, through: FailOpenSpend) -> bool:
        """Charge some that were let through from the same; return whether more may be charged."""
        kept = self._kept.get(through)
        if kept is None:
            return False
        keys = list(islice(kept, ENTRIES_MAX))
        with self._access.signed():
            items = await self._items_of(through)
            entries = await self._open(keys, through.names) if items is not None else {}
            if items is not None and entries:
                now = self._items.time.most
                writes = charge_let_through(entries, items, through.counter, now=now)
                if not isinstance(await self._items.store.transact(writes), Applied):
                    return False  # another wrote in between, or that is not known: read again
                new = [spend.amount for key, spend in entries.items() if not kept[key]]
                if new:
                    self._noted(through, amounts.total_wide(new))
        self._count -= len(keys)
        for key in keys:
            del kept[key]
        if not kept:
            del self._kept[through]
        return bool(kept)

    async def _open(self, keys: Sequence[Key], names: tuple[str, ...]) -> dict[Key, SpendRecord]:
        """Return those entries that are there, as they were let through, and not charged."""
        reads = [partial(self._items.store.get, Get(key)) for key in keys]
        found = await run_requests(reads, at_once=READS_AT_ONCE)
        entries: dict[Key, SpendRecord] = {}
        for key, item in zip(keys, found, strict=True):
            spend = spend_of(item) if item is not None and is_open(item) else None
            if spend is not None and tuple(map(str, spend.grants)) == names:
                entries[key] = spend
        return entries

    async def _items_of(self, through: FailOpenSpend) -> dict[str, FailOpenCharge] | None:
        """Return the items that an entry is charged to, by budget; None if that is a pass's."""
        items: dict[str, FailOpenCharge] = {}
        for name, window in zip(map(GrantName.parse, through.names), through.windows, strict=True):
            if self._access.settings.current.terms.is_over(name.holder.region, name.holder.epoch):
                return None
            try:
                item = await item_to_charge(
                    window, name.holder, own=self._items.read, limits=self._items.read
                )
            except BudgetUndecided:
                return None
            if item is None:
                return None
            items[name.budget] = item
        return items
