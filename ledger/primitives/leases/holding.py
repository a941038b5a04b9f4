"""A lease while it is ours: until when, by which record of the table, and how it ends.

Time alone does not end a holding. A process whose event loop was blocked, or whose machine slept,
may find its time over although no other took the lease: then its next heartbeat asks the table::

    holder     beat ── held up, past the end of its lease ──────── beat: is it still that record?
    contender                       counts ──────── may take it: a new record, a new epoch

The heartbeat is conditional on the record that was written last; to take the lease writes another,
and none is written twice. So one that is applied shows that no other held the lease in between. A
`check`, which cannot ask, refuses meanwhile.

Heartbeats may come from another thread than that of the work: what several threads change is
changed under a lock, and the event `lost` is set only by the thread of the work.
"""

import math
from collections import deque
from dataclasses import dataclass
from threading import Lock, get_ident

import anyio

from ledger.core.entry import Item
from ledger.core.errors import DamagedItem, LeaseLost
from ledger.primitives.leases.item import LeaseItem, Sending
from ledger.primitives.leases.lease_rules import NO_OWNER, LeaseGrant, LeaseRecord, LeaseTerms
from ledger.runtime.clock import Clock

BEATS_MAX = 64
RELEASE_TRIES_MAX = 3


@dataclass(frozen=True, slots=True)
class Beat:
    """One write of the lease that is known to have been applied, on our monotonic clock.

    It was applied between `sent` and `answered`: a region that shows `rvn` at a time t, and did
    not show it before, lags by between `t - answered` and `t - sent` seconds.
    """

    rvn: str
    sent: float
    answered: float


class Holding:
    """One holding of a lease, from its acquisition to its end.

    `held_until` is on the monotonic clock; `safe_seconds` counts a suspension too. `beats` takes
    up the latest heartbeats, over several holdings. `is_taken` if another has the lease.
    """

    def __init__(
        self,
        name: str,
        grant: LeaseGrant,
        record: LeaseRecord,
        *,
        terms: LeaseTerms,
        sending: Sending,
        clock: Clock,
        beats: deque[Beat],
    ) -> None:
        self.grant = grant
        self.record = record
        self.terms = terms
        self.held_until = -math.inf
        self.beats_applied = 0
        self.lost = anyio.Event()
        self.is_over = False
        self.is_lost = False
        self.is_taken = False
        self.why = ""
        self._name = name
        self._sending = sending
        self._clock = clock
        self._beats = beats
        self._safe_until = -math.inf
        self._lock = Lock()
        self._thread = get_ident()

    def elapsed_seconds(self) -> float:
        """Return seconds of the clock by which the holding is judged."""
        return self._sending.elapsed_seconds()

    def safe_seconds(self) -> float:
        """Return how long it may still be relied on; 0 or less if it may not."""
        if self.is_over:
            return -math.inf
        # The time first: a heartbeat of another thread may extend the holding between the two, and
        # the end as it was before, beside a later time, would look like a loss.
        now = self.elapsed_seconds()
        return self._safe_until - now - self.terms.margin_seconds

    def check(self) -> None:
        """Return if it may be relied on.

        Raises:
            LeaseLost: it may not, and is lost.
        """
        self.check_not_over()
        if self.safe_seconds() <= 0:
            raise self.lose(self.too_late())

    def check_not_over(self) -> None:
        """Return if it has not ended, although its time may be over.

        Raises:
            LeaseLost: it has.
        """
        if self.is_over:
            raise LeaseLost(f"lease {self._name!r} is not held by {self.grant.owner!r}: {self.why}")

    async def beat(self, item: LeaseItem, data: Item | None = None) -> bool:
        """Hold on for another lease; return whether that is known to be applied.

        Raises:
            LeaseLost: another has it, or the answer came too late to rely on it.
            StoreError: the table could not be read or written; ours as before.
        """
        self.check_not_over()
        try:
            written = await item.renew(self.record, owner=self.grant.owner, data=data)
        except DamagedItem as error:
            raise self.lose(str(error)) from None
        self.take_in(written.shown)
        if self.safe_seconds() <= 0:
            raise self.lose(self.too_late())
        return written.applied

    def take_in(self, shown: LeaseRecord | None) -> None:
        """Hold on from before the record that the table shows was sent, if we sent it.

        Raises:
            LeaseLost: another has the lease.
        """
        if not self.is_ours(shown):
            raise self.lose(f"{holder(shown)} has it", taken=True)
        self.extend(shown)

    def is_ours(self, shown: LeaseRecord | None) -> bool:
        """Return whether the table shows this holding, under its rvn or another that we sent."""
        if shown is None or (shown.owner, shown.epoch) != (self.grant.owner, self.grant.epoch):
            return False
        return shown.rvn == self.record.rvn or self._sending.sent(shown.rvn) is not None

    def extend(self, shown: LeaseRecord | None) -> None:
        """Hold on from before a record of ours was sent that the table shows, or has shown.

        No contender counts from before it landed, so of several the latest sent decides.
        """
        if shown is None or (sent := self._sending.sent(shown.rvn)) is None:
            return
        with self._lock:
            if shown.rvn == self.record.rvn:
                return
            self.record = shown
            self.held_until = max(self.held_until, sent.at + self.terms.lease_seconds)
            self._safe_until = max(self._safe_until, sent.elapsed + self.terms.lease_seconds)
            self.beats_applied += 1
            self._beats.append(Beat(shown.rvn, sent.at, self._clock.monotonic()))

    async def give_up(self, item: LeaseItem, *, delete: bool) -> bool:
        """Release the lease, or delete its item; return whether it is known to be ours no longer.

        Raises:
            DamagedItem, StoreError: as `LeaseItem.read`.
        """
        for _ in range(RELEASE_TRIES_MAX):
            if delete:
                is_free, shown = await item.delete(self.record)
            else:
                written = await item.renew(self.record, owner=NO_OWNER)
                is_free, shown = written.applied, written.shown
            if is_free or not self.is_ours(shown):
                return True
            self.extend(shown)
        return False

    def end(self, why: str) -> None:
        """End it by a wish of its holder's."""
        with self._lock:
            if not self.is_over:
                self.is_over, self.why = True, why

    def lose(self, why: str, *, taken: bool = False) -> LeaseLost:
        """Lose it, unless it has ended, and return the error."""
        with self._lock:
            self.is_taken = self.is_taken or taken
            if not self.is_over:
                self.is_over = self.is_lost = True
                self.why = why
        self.announce()
        return LeaseLost(f"lease {self._name!r} is lost to {self.grant.owner!r}: {why}")

    def announce(self) -> None:
        """Set `lost` if it is lost; in another thread than that of the work, leave it to that."""
        if self.is_lost and get_ident() == self._thread:
            self.lost.set()

    def too_late(self) -> str:
        """Return why a holding is lost whose time has ended."""
        usable = self.terms.lease_seconds - self.terms.margin_seconds
        return f"no heartbeat is known to be applied in the last {usable:g} s"


def holder(record: LeaseRecord | None) -> str:
    """Return who has a lease by its record, for messages."""
    if record is None:
        return "no owner (its item was deleted)"
    return repr(record.owner) if not record.released else "no owner (released)"
