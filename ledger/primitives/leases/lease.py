"""A lease held: acquired by one contender at a time, kept by heartbeats, lost before it is taken.

::

    async with lease.held(wait_seconds=60) as held:
        if isinstance(held, NotHeld):
            return                                   # held.owner leads
        while work:
            lease.check()                            # LeaseLost before another can have taken it
            await lease.transact(writes)             # LeaseLost if another has it: nothing written

`check` stops a holder whose heartbeats fail; the fence that `transact` adds stops one that stalls
after its check. What is judged is judged in `ledger.primitives.leases.state`; every write is
conditional on the record seen before it (`ledger.primitives.leases.item`), so of any number of
contenders one wins.
"""

import math
import random
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import anyio

from ledger.core.entry import AttributeValue, Item, Key
from ledger.core.errors import DamagedItem, InvalidInput, LeaseLost
from ledger.primitives.leases.item import LeaseItem
from ledger.primitives.leases.keeping import give_back, keep
from ledger.primitives.leases.state import (
    NO_OWNER,
    LeaseGrant,
    LeaseRecord,
    LeaseTerms,
    NotHeld,
    Watch,
    checked_data,
    checked_key,
    own_key,
    record_of,
)
from ledger.runtime.clock import Clock
from ledger.runtime.tasks import background_tasks
from ledger.store.port import Store
from ledger.store.writes import Action, Check, Outcome, Rejected

BEATS_MAX = 64
RELEASE_TRIES_MAX = 3
# No wait is shorter: a rounding error of a clock must not make a loop spin.
TICK_SECONDS = 0.001
ELSEWHERE = "contend for it through that region, or let its holder there hand it over"


@dataclass(frozen=True, slots=True)
class Beat:
    """One write of the lease that is known to have been applied, on our monotonic clock.

    It was applied between `sent` and `answered`: a region that shows `rvn` at a time t, and did
    not show it before, lags by between `t - answered` and `t - sent` seconds.
    """

    rvn: str
    sent: float
    answered: float


@dataclass(slots=True)
class _Holding:
    """The lease while it is ours: the record last known in the table, and until when it holds.

    `held_until` is on the monotonic clock, `safe_until` on the one that counts a suspension.
    """

    held: LeaseGrant
    record: LeaseRecord
    held_until: float
    safe_until: float


class Lease:
    """One contender for one lease, in the region of its store.

    Its item lies under `key`, by default in a partition of its own (`own_key`). `elsewhere` is
    the advice in the error of a lease that belongs to another region. `owner` must be unique to
    this object: a new one at each start of a process. `randomness` makes the rvns and must not
    repeat another contender's. `lost` is the event of the current holding, a new one at each
    acquisition; `beats` has the latest heartbeats. Its methods are for one task at a time, beside
    the heartbeats that `held` runs by itself; `check`, `fence`, `transact`, `look`, `lost` and
    `held_until` are for any task.

    Raises:
        InvalidInput: the owner is empty, the name breaks a rule of counter ids, or the key lies in
            a counter.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        *,
        owner: str,
        terms: LeaseTerms,
        clock: Clock,
        randomness: random.Random,
        key: Key | None = None,
        elsewhere: str = ELSEWHERE,
    ) -> None:
        if owner == NO_OWNER:
            raise InvalidInput(f"owner of lease {name!r} must not be empty: that means released")
        self.name = name
        self.owner = owner
        self.terms = terms
        self.lost = anyio.Event()
        self.beats: deque[Beat] = deque(maxlen=BEATS_MAX)
        self._store = store
        self._elsewhere = elsewhere
        place = own_key(name) if key is None else checked_key(key)
        self._item = LeaseItem(store, place, clock=clock, randomness=randomness)
        self._clock = clock
        self._watch = Watch()
        self._holding: _Holding | None = None
        self._why = "it was not acquired"

    @property
    def held_until(self) -> float:
        """Until when no other can take it, on our monotonic clock; minus infinity if not held.

        That is a full lease from before the last heartbeat known to be applied was sent.
        """
        if self._holding is None or self.lost.is_set():
            return -math.inf
        return self._holding.held_until

    async def acquire(
        self,
        wait_seconds: float | None = None,
        *,
        data: Mapping[str, AttributeValue] | None = None,
    ) -> LeaseGrant | NotHeld:
        """Take the lease, waiting up to `wait_seconds` for it: 0 looks once, None waits for ever.

        `data` is stored with it, in place of what is there, which `LeaseGrant.data` has; without it
        that stays. Returns the same `LeaseGrant` again while it is held, and stores nothing then.

        Raises:
            InvalidInput: the data is over 400 KB.
            LeaseLost: the lease belongs to another region.
            DamagedItem: the item in the table is not a lease.
            StoreError: the table could not be read or written; nothing is held.
        """
        stored = None if data is None else checked_data(data)
        if self._holding is not None and self._safe_seconds() > 0:
            return self._holding.held
        give_up = math.inf if wait_seconds is None else self._clock.monotonic() + wait_seconds
        while True:  # bounded by `give_up`; without it, by the wish of the caller
            self._observe(self._checked_home(await self._item.read()))
            if self._wait_seconds() <= 0 and (held := await self._take(stored)) is not None:
                return held
            now = self._clock.monotonic()
            if now >= give_up:
                return self._not_held()
            pause = min(self._wait_seconds() or math.inf, self.terms.poll_seconds, give_up - now)
            await self._clock.sleep(max(pause, TICK_SECONDS))

    async def hand_over(self, home: str) -> bool:
        """Transfer the lease to contenders of another region, under the next epoch.

        Returns whether that is known to be applied; if not, look again and repeat. From then on
        no contender of this region can take it, and no fence of an earlier epoch holds here.

        Raises:
            LeaseLost: the lease is not surely ours.
            StoreError: the table could not be read or written.
        """
        holding = self._checked()
        record = holding.record
        wanted = replace(record, owner=NO_OWNER, epoch=record.epoch + 1, home=home)
        written = await self._item.take(record, wanted)
        if written.applied:
            self._holding = None
            self._why = f"it was handed over to {home}"
            return True
        if not self._is_ours(written.shown, holding):
            self._holding = None
            raise self._lose(f"{_holder(written.shown)} has it")
        self._extend(holding, written.shown)
        return False

    async def look(self) -> LeaseRecord | None:
        """Read who has the lease, and what is stored with it, without contending for it.

        Strongly consistent in its own region; None if it was never held.

        Raises:
            DamagedItem, StoreError: as `acquire`.
        """
        return await self._item.read()

    async def heartbeat(self, *, data: Mapping[str, AttributeValue] | None = None) -> bool:
        """Hold the lease for another `lease_seconds` from now, and store new data with it, if any.

        Returns whether this heartbeat is known to be applied. If not, the lease is ours as before
        until `held_until`: try again soon.

        Raises:
            InvalidInput: the data is over 400 KB.
            LeaseLost: another has taken it, or may have by now; it is then not held any more.
            StoreError: the table could not be read or written; ours as before until `held_until`.
        """
        holding = self._checked()
        stored = None if data is None else checked_data(data)
        try:
            written = await self._item.renew(holding.record, owner=self.owner, data=stored)
        except DamagedItem as error:
            raise self._lose(str(error)) from None
        if not self._is_ours(written.shown, holding):
            self._holding = None
            raise self._lose(f"{_holder(written.shown)} has it")
        self._extend(holding, written.shown)
        self._checked()  # the answer may have come too late
        return written.applied

    async def release(self) -> bool:
        """Release the lease, so that the next contender need not wait; no harm if not held.

        The item and its epoch stay. Returns whether the lease is known to be ours no longer; if
        not, it runs out by itself.

        Raises:
            DamagedItem: the item in the table is not a lease.
            StoreError: the table could not be read or written; the lease runs out by itself.
        """
        holding, self._holding = self._holding, None
        if holding is None:
            return True
        self._why = "it was released"
        for _ in range(RELEASE_TRIES_MAX):
            written = await self._item.renew(holding.record, owner=NO_OWNER)
            if written.applied or not self._is_ours(written.shown, holding):
                return True
            self._extend(holding, written.shown)
        return False

    def check(self) -> None:
        """Return if the lease is surely ours for at least `terms.margin_seconds` from now.

        Raises:
            LeaseLost: another has taken it, or may soon; `lost` is set as well.
        """
        self._checked()

    def fence(self) -> Check:
        """Return the check of our epoch for a transaction, as `LeaseGrant.fence` does.

        Raises:
            LeaseLost: as `check`.
        """
        return self._checked().held.fence()

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Do up to 99 actions, all or none, only while our epoch is the current one.

        The outcome is as the store's, and `Rejected` names the places of these actions. `token`
        makes repeats harmless that arrive within ten minutes, of the same holding.

        Raises:
            LeaseLost: as `check`; or another has taken the lease, and nothing was written by this
                call.
            StoreError: nothing was written, nor will be.
        """
        holding = self._checked()
        outcome = await self._store.transact([holding.held.fence(), *actions], token=token)
        if not isinstance(outcome, Rejected):
            return outcome
        if 0 in outcome.found:
            raise self._fenced_off(holding, outcome.found[0])
        return Rejected(found={place - 1: item for place, item in outcome.found.items()})

    def _fenced_off(self, holding: _Holding, found: Item | None) -> LeaseLost:
        """Return the error of a fence that did not hold; a later holding of ours is left alone."""
        try:
            why = f"{_holder(None if found is None else record_of(found))} has it"
        except DamagedItem as error:
            why = str(error)
        if holding is not self._holding:
            return LeaseLost(f"lease {self.name!r} was lost to {self.owner!r}: {why}")
        self._holding = None
        return self._lose(why)

    @asynccontextmanager
    async def held(
        self,
        wait_seconds: float | None = None,
        *,
        data: Mapping[str, AttributeValue] | None = None,
    ) -> AsyncIterator[LeaseGrant | NotHeld]:
        """Acquire the lease, keep it by heartbeats while the body runs, and release it at the end.

        The body gets what `acquire` returned, and runs in both cases. `lost` is set before
        another can take the lease; the body is not stopped: it asks `check`, or waits for `lost`.
        The release happens on errors and on cancellation too, within `RELEASE_SECONDS_MAX`.

        Raises:
            InvalidInput, LeaseLost, DamagedItem, StoreError: as `acquire`, before the body runs.
        """
        outcome = await self.acquire(wait_seconds, data=data)
        if isinstance(outcome, NotHeld):
            yield outcome
            return
        try:
            async with background_tasks() as tasks:
                tasks.start_soon(keep, self, self._clock)
                tasks.start_soon(self._expire)
                yield outcome
        finally:
            with anyio.CancelScope(shield=True):
                await give_back(self, self._clock)

    async def _expire(self) -> None:
        """Set `lost` in time, even while a heartbeat waits for its answer.

        A suspended machine stops its timers too, so a long sleep would end late: the time left is
        looked at every `poll_seconds`.
        """
        while (left := self._safe_seconds()) > TICK_SECONDS:
            await self._clock.sleep(min(left, self.terms.poll_seconds))
        if self._holding is not None:
            self._lose(self._too_late())

    def _observe(self, record: LeaseRecord | None) -> None:
        """Take in what an answer that has just come showed."""
        self._watch = self._watch.observe(record, at=self._clock.monotonic())

    def _checked_home(self, record: LeaseRecord | None) -> LeaseRecord | None:
        """Refuse a lease that lives in another region: it is decided there alone."""
        if record is not None and record.home != self._item.region:
            raise LeaseLost(
                f"lease {self.name!r} belongs to {record.home}, not to {self._item.region}:"
                f" {self._elsewhere}"
            )
        return record

    def _wait_seconds(self) -> float:
        """Return how long we must still wait: not at all for a record that we wrote ourselves.

        Such a record is an acquisition whose answer was lost, or a holding that we gave up as
        too old. No process acts on it, and taking it makes a new epoch.
        """
        seen = self._watch.record
        if seen and seen.owner == self.owner and self._item.sent(seen.rvn) is not None:
            return 0.0
        return self._watch.left_seconds(now=self._clock.monotonic())

    async def _take(self, data: Item | None) -> LeaseGrant | None:
        """Try to become the owner of the lease as last seen, under the next epoch."""
        seen = self._watch.record
        partition, sort_key = self._item.key
        found = seen.data if seen else {}
        wanted = LeaseRecord(
            name=sort_key,
            partition=partition,
            data=found if data is None else data,
            owner=self.owner,
            rvn="",
            lease_seconds=self.terms.lease_seconds,
            epoch=seen.epoch + 1 if seen else 1,
            home=self._item.region,
        )
        left = self._item.left_in(seen)
        written = await self._item.take(seen, wanted)
        self._observe(written.shown)
        if written.shown is None or not written.applied:
            return None
        held = LeaseGrant(self._item.key, self.owner, wanted.epoch, left)
        self._holding, self.lost = _Holding(held, wanted, -math.inf, -math.inf), anyio.Event()
        self._extend(self._holding, written.shown)
        return held if self._safe_seconds() > 0 else None

    def _extend(self, holding: _Holding, shown: LeaseRecord | None) -> None:
        """Hold on from before the record that the table shows was sent."""
        if shown is None or shown.rvn == holding.record.rvn:
            return
        sent = self._item.sent(shown.rvn)
        if sent is not None:
            holding.record, holding.held_until = shown, sent.at + self.terms.lease_seconds
            holding.safe_until = sent.elapsed + self.terms.lease_seconds
            self.beats.append(Beat(shown.rvn, sent.at, self._clock.monotonic()))

    def _is_ours(self, shown: LeaseRecord | None, holding: _Holding) -> bool:
        """Return whether the table shows our holding, under this rvn or another that we sent."""
        if shown is None or (shown.owner, shown.epoch) != (self.owner, holding.held.epoch):
            return False
        return shown.rvn == holding.record.rvn or self._item.sent(shown.rvn) is not None

    def _safe_seconds(self) -> float:
        """Return how long the holding may still be relied on; 0 or less if it may not."""
        if self._holding is None or self.lost.is_set():
            return -math.inf
        left = self._holding.safe_until - self._item.elapsed_seconds()
        return left - self.terms.margin_seconds

    def _checked(self) -> _Holding:
        if self._holding is None or self.lost.is_set():
            raise LeaseLost(f"lease {self.name!r} is not held by {self.owner!r}: {self._why}")
        if self._safe_seconds() <= 0:
            raise self._lose(self._too_late())
        return self._holding

    def _lose(self, why: str) -> LeaseLost:
        """Set `lost`. The holding is kept for `release`, in case the lease was not taken."""
        if not self.lost.is_set():
            self._why = why
            self.lost.set()
        return LeaseLost(f"lease {self.name!r} is lost to {self.owner!r}: {why}")

    def _too_late(self) -> str:
        usable = self.terms.lease_seconds - self.terms.margin_seconds
        return f"no heartbeat is known to be applied in the last {usable:g} s"

    def _not_held(self) -> NotHeld:
        seen = self._watch.record
        if seen is None:
            return NotHeld(self._item.key, NO_OWNER, 0, self._wait_seconds())
        return NotHeld(self._item.key, seen.owner, seen.epoch, self._wait_seconds(), seen.data)


def _holder(record: LeaseRecord | None) -> str:
    if record is None:
        return "no owner (its item was deleted)"
    return repr(record.owner) if not record.released else "no owner (released)"
