"""The control items of budgets as one region shows them, and each change of one of them.

A change is planned on the item that was just read, strongly consistent, as of now (`rolling`), and
written on condition of that version. Where another was first it is read and planned again. After an
unknown outcome it is read again, too: a plan knows its own earlier write by what that left there.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from ledger.core.clock_offset import RegionTime
from ledger.core.errors import Unreachable
from ledger.limits.calendar import Window
from ledger.limits.control import ControlStore, time_in
from ledger.limits.reading import Shown, read_budget, read_own
from ledger.limits.rights import Account, Rights, of_late, write_of
from ledger.limits.rolling import dated, margin_of, rolled
from ledger.limits.windows import Limit
from ledger.runtime.call_deadlines import note_doubt
from ledger.runtime.services import Services
from ledger.settings.live import LiveSettings
from ledger.store.port import Store
from ledger.store.retrier import DEADLINE_BACKOFF, Retrier
from ledger.store.writes import Applied, Unknown

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

    async def read(self, counter: str) -> Shown:
        """Return all that the region shows of a budget, strongly consistent.

        Raises:
            DamagedItem: an item cannot be read whole.
            StoreError: DynamoDB could not do it.
        """
        return await read_budget(self.store, counter, self.as_of_now)

    async def limit(self, window: Window, shown: Shown) -> Limit | None:
        """Return the limit of a window's budget, with what was read of the window.

        Of a window it lies with the budget itself; None if the region shows none.

        Raises:
            As `read`.
        """
        return shown.limit if window.is_whole else (await self.read(window.budget)).limit

    async def rights(self, counter: str, account: Account) -> Rights:
        """Return one account's item, strongly consistent; version 0 if there is none.

        Raises:
            DamagedItem: it cannot be read whole.
            StoreError: DynamoDB could not do it.
        """
        found = await read_own(self.store, counter, account)
        return Rights(account) if found is None else self.as_of_now(found)

    @property
    def time(self) -> RegionTime:
        """Between which times the region's clock is now; to be asked after an answer of it."""
        return time_in(self.store, self._clock, self._settings.current.terms)

    def as_of_now(self, rights: Rights) -> Rights:
        """Return an item as of now: of a rolling limit, what has left the window is returned."""
        return rolled(rights, self.time, margin=margin_of(self._settings.current.terms))

    async def change(
        self,
        counter: str,
        account: Account,
        plan: Callable[[Rights], Rights | Refused],
        *,
        seconds: float,
        known: Rights | None = None,
    ) -> Rights | Refused:
        """Change the item of an account of this region; returns it as it is now, or the refusal.

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
            before = known or await self.rights(counter, account)
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
                    f"{account.sort_key} of budget {counter!r} was not changed in time: {cause}"
                )
