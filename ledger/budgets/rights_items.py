"""The control items of budgets as one region shows them, and each change of one of them.

A change is planned on the item that was just read, strongly consistent, as of now
(`rolling_limits`), and written on condition of that version. Where another was first it is read and
planned again. After an unknown outcome it is read again, too: a plan knows its own earlier write by
what that left there.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from ledger.budgets.calendar import Window
from ledger.budgets.control import ControlStore, time_in
from ledger.budgets.limit_windows import LIMIT_PREFIX, BudgetLimit, limit_of, newest_of
from ledger.budgets.rights import (
    RIGHTS_PREFIX,
    Holder,
    Rights,
    is_rights,
    key_of,
    of_late,
    partition_of,
    rights_of,
    write_of,
)
from ledger.budgets.rolling_limits import dated, roll_forward
from ledger.budgets.spend_record import View
from ledger.core import keys
from ledger.core.clock_offset import RegionTime
from ledger.core.entry import Item
from ledger.core.errors import Unreachable
from ledger.runtime.call_deadlines import note_doubt
from ledger.runtime.services import Services
from ledger.settings.live import LiveSettings
from ledger.store.port import Store
from ledger.store.reads import Get, Query, Scan
from ledger.store.retrier import DEADLINE_BACKOFF, Retrier
from ledger.store.writes import Applied, Unknown

EVENTUALLY = Scan()
"""A scan of whole items, each as the region showed it lately."""
_LAST = f"{RIGHTS_PREFIX}\U0010ffff"


@dataclass(frozen=True, slots=True)
class RightsView:
    """A budget's control items as one region showed them; `limit` is of the newest generation."""

    items: Mapping[Holder, Rights] = field(default_factory=dict)
    limit: BudgetLimit | None = None

    def of(self, holder: Holder) -> Rights:
        """Return the item of a holder; version 0 if there is none."""
        return self.items.get(holder) or Rights(holder)


def _as_read(rights: Rights) -> Rights:
    return rights


async def read_budget(
    store: Store, counter: str, as_of_now: Callable[[Rights], Rights] = _as_read
) -> RightsView:
    """Return all that a region shows of a budget, strongly consistent.

    Raises:
        DamagedItem: an item cannot be read whole.
        StoreError: the region cannot be read.
    """
    items: dict[Holder, Rights] = {}
    limits: list[BudgetLimit] = []
    query = Query(partition_of(counter))
    while True:
        page = await store.query(query)
        for item in page.items:
            sort_key = item["sk"]["S"]
            if is_rights(sort_key):
                rights = as_of_now(rights_of(item))
                items[rights.holder] = rights
            elif sort_key.startswith(LIMIT_PREFIX):
                limits.append(limit_of(item))
        if page.after is None:
            return RightsView(items, newest_of(limits))
        query = query.next(page)


async def read_rights(store: Store, counter: str) -> dict[Holder, Rights]:
    """Return the rights items of a counter's budget, strongly consistent, by holder.

    Raises:
        DamagedItem: one of them cannot be read whole.
        StoreError: the region cannot be read.
    """
    query = Query(partition_of(counter), first=RIGHTS_PREFIX, last=_LAST)
    found: dict[Holder, Rights] = {}
    while True:
        page = await store.query(query)
        found |= {rights.holder: rights for rights in map(rights_of, page.items)}
        if page.after is None:
            return found
        query = query.next(page)


async def scanned(store: Store, scan: Scan = EVENTUALLY) -> AsyncIterator[Item]:
    """Yield all items of the table, by default eventually consistent: each is read and charged.

    Raises:
        StoreError: the region cannot be read.
    """
    while True:
        page = await store.scan(scan)
        for item in page.items:
            yield item
        if page.after is None:
            return
        scan = scan.next(page)


def check_control(item: Item) -> None:
    """Read a control item of a budget, as each reader of the budget does.

    Raises:
        DamagedItem: it cannot be read whole.
    """
    sort_key = item["sk"]["S"]
    if is_rights(sort_key):
        rights_of(item)
    elif sort_key.startswith(LIMIT_PREFIX):
        limit_of(item)


def budget_of(item: Item) -> str | None:
    """Return the counter of the budget that an item controls; None if it is none of a budget."""
    partition = item["pk"]["S"]
    is_budgets = partition.startswith(keys.BUDGET_PREFIX)
    return partition.removeprefix(keys.BUDGET_PREFIX) if is_budgets else None


async def read_local_rights(store: Store, counter: str, holder: Holder) -> Rights | None:
    """Return one rights item, strongly consistent; None if there is none.

    Raises:
        DamagedItem: it cannot be read whole.
        StoreError: the region cannot be read.
    """
    item = await store.get(Get(key_of(counter, holder)))
    return None if item is None else rights_of(item)


async def read_view(store: Store, counter: str, budgets: Iterable[str]) -> View:
    """Return what a region shows of budgets that entries of a counter name, "" is its own.

    Raises:
        DamagedItem, StoreError: as `read_rights`.
    """
    shown: Mapping[str, dict[Holder, Rights]] = {
        budget: await read_rights(store, budget or counter) for budget in sorted(budgets)
    }
    return {
        (budget, holder): rights
        for budget, items in shown.items()
        for holder, rights in items.items()
    }


Refused = TypeVar("Refused")


class ControlItems:
    """Reads and changes the control items of budgets through one region."""

    def __init__(self, store: Store, *, settings: LiveSettings, services: Services) -> None:
        self.store = ControlStore(store, lambda: settings.current.terms)
        self._settings = settings
        self._clock = services.clock
        self._retrier = Retrier.of(
            store,
            clock=services.clock,
            randomness=services.randomness,
            backoff=DEADLINE_BACKOFF,
        )

    async def read(self, counter: str) -> RightsView:
        """Return all that the region shows of a budget, strongly consistent.

        Raises:
            DamagedItem: an item cannot be read whole.
            StoreError: DynamoDB could not do it.
        """
        return await read_budget(self.store, counter, self.as_of_now)

    async def limit(self, window: Window, shown: RightsView) -> BudgetLimit | None:
        """Return the limit of a window's budget, with what was read of the window.

        Of a window it lies with the budget itself; None if the region shows none.

        Raises:
            As `read`.
        """
        return shown.limit if window.is_whole else (await self.read(window.budget)).limit

    async def rights(self, counter: str, holder: Holder) -> Rights:
        """Return one holder's item, strongly consistent; version 0 if there is none.

        Raises:
            DamagedItem: it cannot be read whole.
            StoreError: DynamoDB could not do it.
        """
        found = await read_local_rights(self.store, counter, holder)
        return Rights(holder) if found is None else self.as_of_now(found)

    @property
    def time(self) -> RegionTime:
        """Between which times the region's clock is now; to be asked after an answer of it."""
        return time_in(self.store, self._clock, self._settings.current.terms)

    def as_of_now(self, rights: Rights) -> Rights:
        """Return an item as of now: of a rolling limit, what has left the window is returned."""
        return roll_forward(rights, self.time, margin=self._settings.current.terms.rolling_margin)

    async def change(
        self,
        counter: str,
        holder: Holder,
        plan: Callable[[Rights], Rights | Refused],
        *,
        seconds: float,
        known: Rights | None = None,
    ) -> Rights | Refused:
        """Change the item of a holder of this region; returns it as it is now, or the refusal.

        `plan` returns what was read if there is nothing to write. It is asked again after a lost
        race or answer, for `seconds` at most; the first time on what is `known`, if that was read.

        Raises:
            DamagedItem: the item cannot be read whole; nothing of it may be granted.
            ClockOff: this machine's clock is off; nothing was written.
            StoreError: DynamoDB could not do it in time; a write without an answer may be there.
        """
        deadline = self._clock.monotonic() + seconds
        tries = self._retrier.begin("write", deadline=deadline)
        while True:
            before = known or await self.rights(counter, holder)
            known = None
            after = plan(before)
            if not isinstance(after, Rights) or after.version == before.version:
                return after
            time = self.time
            late = of_late(after.resolved, time.earliest)
            after = dated(replace(after, resolved=late), time.most)
            outcome = await self.store.write(write_of(before, after, counter))
            if isinstance(outcome, Applied):
                tries.succeeded()
                return after
            cause, requests = "contention", 1
            if isinstance(outcome, Unknown):
                cause, requests = "unanswered", outcome.requests
                note_doubt()
            if not await tries.again(cause, requests=requests):
                raise Unreachable(
                    f"{holder.sort_key} of budget {counter!r} was not changed in time: {cause}"
                )
