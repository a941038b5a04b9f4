"""`CreditKeeper`: the credit grants that one process has of one budget, and their taking in.

::

    credit ── entry names the grant at hand ──> each region is read, once a second ──> one write
                └─ too old, or none ── one write: it goes on, or another is taken      of all that
                                                                                       they show

A grant at hand goes on while it is used, and is closed once something newer is at hand and all that
was put under it was taken in. What is left is closed by reading.
"""

import logging
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial

import anyio

from ledger.budgets import credit_rules, rights_plan
from ledger.budgets.calendar import Window, whole_seconds
from ledger.budgets.credit_grants import KEYED_MAX, CreditGrant, CreditGrants, WaitingCredit
from ledger.budgets.grant_allowance import IDLE_SECONDS, ROTATE_SECONDS
from ledger.budgets.grant_keeper import GRANT_SECONDS, NEW_UNTIL, missing
from ledger.budgets.initial_shares import first_rights
from ledger.budgets.region_access import RegionAccess
from ledger.budgets.rights import GrantName, Rights
from ledger.budgets.rights_plan import Crowded
from ledger.budgets.spend_record import SpendRecord, spend_of
from ledger.budgets.spend_request import CROWDED
from ledger.core import keys
from ledger.core.contract import Terms
from ledger.core.errors import DamagedItem, LedgerError, StoreError, Unreachable
from ledger.core.ids import EPOCH
from ledger.core.values import Entry, Spending
from ledger.runtime.tasks import run_requests
from ledger.store.port import Store
from ledger.store.reads import Get

READ_AT_ONCE = 100
"""How many entries are read at a time, each in one region after the other."""
READ_MAX = 2_000
"""How many credits of a budget are looked for in one round, the oldest first."""
LATE_SECONDS = 300.0
"""How long a credit waits until it is told that it does."""
_ZERO = Decimal(0)
log = logging.getLogger(__name__)


class CreditKeeper:
    """The credits of a budget in this process, for entries of `counter`.

    `lock` is that of the budget's item, which the keeper of its grants has, too.
    """

    def __init__(
        self, window: Window, counter: str, access: RegionAccess, *, lock: anyio.Lock
    ) -> None:
        self.window = window
        self.counter = counter
        self.pattern = access.settings.current.terms.budget_pattern_of(window.budget) or ""
        self.unshown_by = ""
        """The region that did not show, or could not be read for, the oldest that waits.

        Empty while none is known: before the first look, and for the day after a loss.
        """
        self._access = access
        self._items = access.here
        self._clock = access.services.clock
        self._metrics = access.services.metrics
        self._lock = lock
        self._grants = CreditGrants()
        self._until = EPOCH
        self._token: str | None = None
        self._gone_at: datetime | None = None
        self._used_at = self._clock.monotonic()
        self._is_late = False

    @property
    def budget(self) -> str:
        """The counter of the budget."""
        return self.window.counter

    @property
    def waiting(self) -> list[WaitingCredit]:
        """What this process credited, and is not taken in; the oldest first."""
        return self._grants.waiting

    @property
    def open_grants(self) -> int:
        """How many credit grants of it this process has open."""
        return len(self._grants)

    @property
    def is_idle(self) -> bool:
        """Whether it holds nothing, and nothing was credited of late."""
        return not self._grants and self._clock.monotonic() - self._used_at > IDLE_SECONDS

    # Crediting.

    async def begin(self) -> tuple[CreditGrant, Spending]:
        """Return a grant that an entry may name now, with what it says of that; it is in flight.

        Raises:
            BudgetMissing: the budget has no limit, as far as this region shows.
            Unreachable: the item has no place for one more grant, or cannot be written in time.
            StoreError: it cannot be read or written.
        """
        async with self._lock:
            self._grants.keep_of(self._access.holder)
            grant = self._grants.at_hand
            if grant is None or self._clock.now() > self._until:
                grant = await self._open()
        self._used_at = self._clock.monotonic()
        grant.in_flight += 1
        until = EPOCH + timedelta(seconds=grant.grant.expires)
        return grant, Spending((str(grant.name),), until=until)

    def not_put(self, grant: CreditGrant) -> None:
        """Note that no entry was put under a grant, nor will be."""
        grant.in_flight -= 1

    def put(self, grant: CreditGrant, entry: Entry, *, keyed: bool) -> WaitingCredit | None:
        """Note that an entry is durable, or may be; return it as it waits to be taken in.

        None if it was taken in before, or is found by reading alone.
        """
        grant.in_flight -= 1
        if self._grants.is_full and entry.id not in grant.keyed:
            grant.is_doubtful = True
            return None
        key = keys.partition_key(entry.counter, entry.shard or 0), entry.id
        names = () if entry.spending is None else entry.spending.grants  # those of a bundle, too
        granted = tuple(map(GrantName.parse, names))
        record = SpendRecord(entry.id, entry.change.copy_negate(), granted)
        credit = WaitingCredit(key, record, self._clock.monotonic())
        return grant.put(credit, keyed=keyed)

    async def shows_taken_in(self, entry: Entry) -> bool:
        """Return whether a credit was taken in, as far as this process and its region know.

        By this process, or the grant that it names is closed.
        """
        names = () if entry.spending is None else map(GrantName.parse, entry.spending.grants)
        for name in names:
            if (name.budget or entry.counter) != self.budget:
                continue
            if (grant := self._grants.named(name)) is not None:
                return grant.took(entry.id)
            try:
                rights = await self._items.rights(self.budget, name.holder)
            except LedgerError:
                return False
            return rights.shows_closed(name.version)
        return True  # it was merged, for which its grant had to be closed

    async def _open(self) -> CreditGrant:
        shown = await self._items.read(self.budget)
        limit = await self._items.limit(self.window, shown)
        if limit is None:
            raise missing(self.window.budget, self._access.store.region)
        now, rule = self._clock.now(), self._access.settings.current.terms.budget_of(self.budget)
        life = int(rule.grant_life) if rule else 1
        expires = whole_seconds(now) + life
        held = self._grants.at_hand
        if held is not None and self._is_old(held, whole_seconds(now)):
            self._grants.retire()
            held = None
        token = self._token = self._token or self._access.new_token()  # one asked for may be there
        make: rights_plan.Step = partial(first_rights, window=self.window, limit=limit)

        def planned(rights: Rights) -> Rights | rights_plan.Refusal:
            if rights_plan.granted_to(rights, token) is not None:
                return rights  # by a write that was not answered
            grant = None if held is None else rights.grants.get(held.name.version)
            if held is not None and grant is not None:
                latest, version = max(expires, grant.expires), held.name.version
                last: rights_plan.Step = partial(
                    rights_plan.top_up, version=version, amount=_ZERO, expires=latest
                )
            else:
                last = partial(
                    rights_plan.take,
                    amount=_ZERO,
                    since=whole_seconds(now),
                    expires=expires,
                    token=token,
                    counter="" if self.counter == self.budget else self.counter,
                )
            return rights_plan.in_one_write(rights, [make, *self._grants.steps({}), last])

        done = await self._change(planned)
        if isinstance(done, Crowded):
            raise Unreachable(f"budget {self.budget!r} takes no credit now: {CROWDED}")
        assert isinstance(done, Rights)  # noqa: S101 (a grant of 0 is always there to be had)
        self._token = None
        self._grants.opened(done, token, "" if self.counter == self.budget else self.budget)
        self._grants.written(done, {})
        grant = self._grants.at_hand
        assert grant is not None  # noqa: S101 (it is the one that was written)
        last_seconds = min(self._access.settings.current.write_deadline, NEW_UNTIL * life)
        self._until = EPOCH + timedelta(seconds=grant.grant.expires - last_seconds)
        return grant

    def _is_old(self, held: CreditGrant, now: int) -> bool:
        is_late = now - held.grant.since >= ROTATE_SECONDS and not self._grants.has_earlier
        return is_late or len(held.keyed) >= KEYED_MAX

    # Taking in.

    async def tend(self) -> None:
        """Take in what every region shows, and close what is done.

        What waits for long may have been taken in by a close by reading: then it waits no more.

        Raises:
            LedgerError: the rights cannot be read or written.
        """
        async with self._lock:  # a call may be about to let the grant at hand go on
            if self._clock.monotonic() - self._used_at > IDLE_SECONDS:
                self._grants.retire()
        shown = await self._shown() if self._grants.waiting else {}
        if shown or self._grants.can_close or self._is_late:
            await self._write(shown)
        self._tell()

    def _tell(self) -> None:
        """Say once that credits wait for long, and which region keeps them from being spent."""
        waiting = self._grants.waiting
        is_late = bool(waiting) and self._clock.monotonic() - waiting[0].since > LATE_SECONDS
        if is_late and not self._is_late:
            log.warning(
                "credits of budget %r cannot be spent: %s does not show them",
                self.budget,
                self.unshown_by or "a region",
            )
        self._is_late = is_late

    async def give_up(self) -> None:
        """Take in what can be, and close what is done; the rest is closed by reading, later.

        Raises:
            LedgerError: as `tend`.
        """
        async with self._lock:
            self._grants.retire()
        shown = await self._shown() if self._grants.waiting else {}
        await self._write(shown)

    async def _write(self, shown: Mapping[GrantName, list[WaitingCredit]]) -> None:
        async with self._lock:
            self._grants.keep_of(self._access.holder)
            if not self._grants:
                return
            steps = self._grants.steps(shown)

            def planned(rights: Rights) -> Rights:
                done = rights_plan.in_one_write(rights, steps)
                return done if isinstance(done, Rights) else rights

            before = len(self._grants.waiting)
            written = await self._change(planned)
            assert isinstance(written, Rights)  # noqa: S101 (so it is planned)
            now = self._clock.monotonic()
            for credit in (one for credits_ in shown.values() for one in credits_):
                self._metrics.budget_taken_in(self._access.store.region, now - credit.since)
            self._grants.written(written, shown)
            if before and not self._grants.waiting:
                self.unshown_by = ""

    async def _shown(self) -> dict[GrantName, list[WaitingCredit]]:
        """Return the credits that every region of the contract shows, by their grant."""
        terms = self._access.settings.current.terms
        if terms.given_up_at != self._gone_at:
            self._gone_at = terms.given_up_at
            for credit in self._grants.waiting:
                credit.seen = frozenset()  # it may have been the copy that lost
        now = self._items.time.least
        asked = [
            credit
            for credit in self._grants.waiting[:READ_MAX]
            if not credit_rules.may_have_twin(credit.record.id, terms, now)
        ]
        stores = {self._access.store.region: self._access.store, **await self._access.others()}
        await run_requests(
            [partial(self._look, credit, terms, stores) for credit in asked], at_once=READ_AT_ONCE
        )
        left = self._left(asked[0], terms) if asked and not asked[0].is_over else []
        self.unshown_by = left[0] if left else ""
        now_obeyed = self._access.settings.current.terms
        if (now_obeyed.regions, now_obeyed.given_up_at) != (terms.regions, terms.given_up_at):
            return {}  # others are to be asked
        shown = {credit for credit in asked if credit_rules.is_everywhere(credit.seen, terms)}
        by_grant = {
            grant.name: [one for one in grant.waiting.values() if one in shown]
            for grant in self._grants.all
        }
        return {name: credits_ for name, credits_ in by_grant.items() if credits_}

    async def _look(self, credit: WaitingCredit, terms: Terms, stores: Mapping[str, Store]) -> None:
        """Read an entry in each region in which it was not seen yet."""
        for region in self._left(credit, terms):
            shows = region in stores and await _shows(stores[region], credit)
            if shows:
                credit.seen |= {region}
            elif region == self._access.store.region:
                return  # it may never have landed

    def _left(self, credit: WaitingCredit, terms: Terms) -> list[str]:
        """Return the regions in which an entry was not seen yet, this process's own first."""
        own = self._access.store.region
        return sorted({*terms.regions} - credit.seen, key=lambda one: (one != own, one))

    async def _change(
        self, planned: Callable[[Rights], Rights | rights_plan.Refusal]
    ) -> Rights | rights_plan.Refusal:
        with self._access.signed():
            return await self._items.change(
                self.budget, self._access.holder, planned, seconds=GRANT_SECONDS
            )


async def _shows(store: Store, credit: WaitingCredit) -> bool:
    """Return whether a region shows an entry as it was put, strongly consistent."""
    try:
        item = await store.get(Get(credit.key))
        record = None if item is None else spend_of(item)
    except (StoreError, DamagedItem):
        return False
    return record is not None and credit_rules.shows(credit.record, [record])
