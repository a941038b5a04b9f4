"""How a contender comes to hold a lease: it looks, waits, and writes the next epoch.

The contender takes a lease that is free, or whose record has stayed the same for as long as its
owner declared. `lease_rules` judges that, `poll_pace` says how long the contender pauses, and the
write is conditional on the record that it saw (`item`).
"""

import math
from collections.abc import Callable

from ledger.core.entry import Item
from ledger.core.errors import LeaseLost
from ledger.primitives.leases.heartbeats import TICK_SECONDS
from ledger.primitives.leases.holding import Holding
from ledger.primitives.leases.item import LeaseItem
from ledger.primitives.leases.lease_rules import (
    NO_OWNER,
    LeaseGrant,
    LeaseRecord,
    LeaseTerms,
    LeaseWatch,
    NotHeld,
    next_epoch,
)
from ledger.primitives.leases.poll_pace import PollPace
from ledger.runtime.call_deadlines import has_ended, until_end
from ledger.runtime.services import Services


class Contention:
    """The looks of one contender at a lease, and its tries to take it.

    `elsewhere` is the advice in the error of a lease that belongs to another region. `begin` makes
    the holding of a grant whose record is written.
    """

    def __init__(
        self,
        name: str,
        *,
        owner: str,
        terms: LeaseTerms,
        item: LeaseItem,
        services: Services,
        elsewhere: str,
        begin: Callable[[LeaseGrant, LeaseRecord], Holding],
    ) -> None:
        self._name = name
        self._owner = owner
        self._terms = terms
        self._item = item
        self._clock = services.clock
        self._random = services.randomness
        self._elsewhere = elsewhere
        self._begin = begin
        self._watch = LeaseWatch()
        self._highest_epoch = 0
        self._pace = PollPace(terms.poll_seconds)

    async def acquire(
        self, wait: float, stored: Item | None, *, take_expired: bool
    ) -> LeaseGrant | NotHeld:
        """Take the lease within so many seconds, with this data; see `Lease.acquire`.

        Raises:
            LeaseLost: the lease belongs to another region.
            DamagedItem, StoreError: as `LeaseItem.take`.
        """
        give_up = self._clock.monotonic() + wait
        while True:  # bounded by `give_up`; without it, by the wish of the caller
            self._observe(self._checked_home(await self._item.read()))
            record = self._watch.record
            self._pace.looked(None if record is None else record.epoch)
            if self._may_take(take_expired=take_expired):
                if (held := await self._take(stored)) is not None:
                    return held
                if self._wait_seconds() > 0:
                    self._pace.beaten()
            now = self._clock.monotonic()
            if now >= give_up:
                return self._not_held()
            expires = self._wait_seconds() if take_expired else 0.0
            pause = self._pace.pause_seconds(self._random.random())
            pause = min(expires or math.inf, pause, give_up - now)
            await until_end(self._clock.sleep(max(pause, TICK_SECONDS)))
            if has_ended():
                return self._not_held()

    def _observe(self, record: LeaseRecord | None) -> None:
        """Take in what an answer that has just come showed."""
        self._watch = self._watch.observe(record, at=self._clock.monotonic())
        self._highest_epoch = max(self._highest_epoch, record.epoch if record else 0)

    def _checked_home(self, record: LeaseRecord | None) -> LeaseRecord | None:
        """Refuse a lease of another region: only that region decides it."""
        if record is not None and record.home != self._item.region:
            raise LeaseLost(
                f"lease {self._name!r} belongs to {record.home}, not to {self._item.region}:"
                f" {self._elsewhere}"
            )
        return record

    def _is_our_own(self) -> bool:
        """Return whether the lease shows a record that we wrote ourselves.

        Such a record is an acquisition whose answer was lost, or a holding that we gave up as
        too old. No process acts on it, and taking it makes a new epoch.
        """
        seen = self._watch.record
        return (
            seen is not None
            and seen.owner == self._owner
            and self._item.sending.sent(seen.rvn) is not None
        )

    def _wait_seconds(self) -> float:
        """Return how long we must still wait: not at all for our own record."""
        return 0.0 if self._is_our_own() else self._watch.left_seconds(now=self._clock.monotonic())

    def _may_take(self, *, take_expired: bool) -> bool:
        seen = self._watch.record
        may = take_expired or seen is None or seen.released or self._is_our_own()
        return may and self._wait_seconds() <= 0

    async def _take(self, data: Item | None) -> LeaseGrant | None:
        """Try to become the owner of the lease as last seen, under the next epoch."""
        seen = self._watch.record
        partition, sort_key = self._item.key
        found = seen.data if seen else {}
        now = self._clock.now()
        wanted = LeaseRecord(
            name=sort_key,
            partition=partition,
            data=found if data is None else data,
            owner=self._owner,
            rvn="",
            lease_seconds=self._terms.lease_seconds,
            epoch=next_epoch(seen, highest=self._highest_epoch, now=now),
            home=self._item.region,
            since=now,
        )
        left = self._item.sending.left_in(seen)
        written = await self._item.take(seen, wanted)
        self._observe(written.shown)
        if not written.applied:
            return None
        grant = LeaseGrant(self._item.key, self._owner, wanted.epoch, left)
        holding = self._begin(grant, wanted)
        holding.extend(written.shown)
        return grant if holding.safe_seconds() > 0 else None

    def _not_held(self) -> NotHeld:
        seen = self._watch.record
        if seen is None:
            return NotHeld(self._item.key, NO_OWNER, 0, self._wait_seconds())
        return NotHeld(self._item.key, seen.owner, seen.epoch, self._wait_seconds(), seen.data)
