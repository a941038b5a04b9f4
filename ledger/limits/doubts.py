"""Spends that were let through, of which it is not known yet whether their entries are there.

::

    sent ──┬── answered ─────────────────────────────────> owed, if this call wrote the entry
           ├── not applied ──────────────────────────────> dropped
           └── unknown ── read, ever more rarely ─┬─ there ──> owed
                                                  └─ absent, and no request can land ──> dropped

Each is ended once, by whoever is first, so nothing is owed twice. The entry itself says which call
wrote it: one of the same key that another call wrote is that call's to charge.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from ledger.core import amounts
from ledger.core.entry import OVER, Key
from ledger.core.ids import EPOCH
from ledger.limits.reading import date_in
from ledger.runtime.clock import Clock
from ledger.settings.live import LiveSettings
from ledger.store.port import Store
from ledger.store.reads import Get

LOOK_SECONDS = 1.0
"""After which time an entry is first looked for; then each time after twice as long."""
LOOKS_MAX = 100
"""How many entries are looked for at a time."""
DOUBTS_MAX = 10_000
"""How many are kept of one budget: of more the oldest is given up."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """A spend that was let through by the `call` of this name, with the key of its entry.

    `at` is the time in the entry's id; no request for it is signed after `latest`, nor is one of
    `Ledger.retry`.
    """

    call: str
    key: Key
    amount: Decimal
    at: datetime
    latest: datetime


@dataclass(slots=True)
class _Open:
    """A doubt that is open `since` a time, and is looked for from `due` on; `absent` at last."""

    doubt: Doubt
    since: float
    due: float
    absent: datetime = EPOCH


class Doubts:
    """What one budget may be owed; `owe` is called with what it is, `give_up` with what may be."""

    def __init__(
        self,
        store: Store,
        settings: LiveSettings,
        clock: Clock,
        *,
        owe: Callable[[Decimal], None],
        give_up: Callable[[Decimal], None],
    ) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._owe = owe
        self._give_up = give_up
        self._open: dict[str, _Open] = {}

    def __len__(self) -> int:
        return len(self._open)

    @property
    def amount(self) -> Decimal:
        """What all of them come to."""
        return amounts.total_wide(one.doubt.amount for one in self._open.values())

    def add(self, doubt: Doubt) -> None:
        """Note a spend that is about to be sent."""
        now = self._clock.monotonic()
        self._open[doubt.call] = _Open(doubt, now, now + LOOK_SECONDS)
        if len(self._open) > DOUBTS_MAX:
            self._give_up(self._end(next(iter(self._open))))

    def written(self, call: str) -> None:
        """Note that the entry of a call is there."""
        if call in self._open:
            self._owe(self._end(call))

    def drop(self, call: str) -> None:
        """Note that the entry of a call is not there, and never will be."""
        if call in self._open:
            self._end(call)

    async def look(self, *, at_once: bool = False) -> None:
        """Look for the entries that it is time for, or for each `at_once`.

        Raises:
            StoreError: the region cannot be read.
        """
        now = self._clock.monotonic()
        due = [
            one
            for one in self._open.values()
            if at_once or now >= one.due or self._is_over(one.doubt)
        ]
        for one in due[:LOOKS_MAX]:
            call, is_over = one.doubt.call, self._is_over(one.doubt)  # before it is read
            item = await self._store.get(Get(one.doubt.key))
            if call not in self._open:
                continue  # it was answered meanwhile
            if item is not None and item.get(OVER, {}).get("S") == call:
                self.written(call)
            elif is_over:
                self._end_absent(one)
            else:
                one.due, one.absent = 2 * now - one.since, self._clock.now()

    def _is_over(self, doubt: Doubt) -> bool:
        """Whether no request for it can land any more, by the clock of the region."""
        settings = self._settings.current
        date = date_in(self._store, self._clock, clock_skew=settings.clock_skew)
        landed = doubt.latest + timedelta(seconds=settings.signature_lifetime)
        return EPOCH + timedelta(seconds=date) > landed

    def _end_absent(self, one: _Open) -> None:
        doubt = one.doubt
        amount = self._end(doubt.call)
        is_merged = self._clock.now() > doubt.at + timedelta(seconds=self._settings.current.settle)
        # It may be merged by now, and was not looked for between.
        if is_merged and one.absent <= doubt.latest:
            self._give_up(amount)

    def _end(self, call: str) -> Decimal:
        return self._open.pop(call).doubt.amount
