"""One member's share of the slices: read, watched, taken and given up through the home region.

Every write is one transaction that checks the member's own lease, so what a member sent before it
lost that never lands; and slices are taken from a dead member only if it still has no heartbeat
item. A member leads what it has read as its own, or taken, while its lease is held.
"""

import logging
from collections.abc import Sequence

import anyio

from compactor.context import MergeContext
from compactor.observation import lease_name
from compactor.slices import (
    HEAD,
    Directory,
    Slice,
    bounds,
    directory_of,
    fence_of,
    giving,
    slice_of,
    taking,
    turn_of,
)
from ledger.core import keys
from ledger.core.entry import Item
from ledger.core.errors import LeaseLost, LedgerError
from ledger.primitives.leases.lease import Lease
from ledger.primitives.leases.lease_rules import LeaseWatch, lease_key, record_of
from ledger.runtime.tasks import sleep_or_stop
from ledger.settings import Settings
from ledger.store.conditions import Equals
from ledger.store.port import Store
from ledger.store.reads import Query
from ledger.store.writes import Applied, Check, Delete

log = logging.getLogger(__name__)


async def read_directory(store: Store, lease: str, slices: int) -> Directory:
    """Read who leads which slice, and the members' items, from the home region.

    Raises:
        DamagedItem: an item of a slice is not one.
        StoreError: the region cannot be read.
    """
    first, last = bounds(lease)
    query = Query(keys.LEASE_PARTITION, first=first, last=last)
    items: list[Item] = []
    while True:
        page = await store.query(query)
        items += page.items
        if page.after is None:
            return directory_of(items, lease, slices)
        query = query.next(page)


class HeartbeatWatches:
    """Since when each member's heartbeat item shows the same record, by our monotonic clock."""

    def __init__(self) -> None:
        self._seen: dict[str, LeaseWatch] = {}
        self._beating: set[str] = set()

    def look(self, directory: Directory, *, now: float) -> None:
        """Record what a new answer showed; members that are gone are forgotten.

        Raises:
            DamagedItem: an item is not that of a lease.
        """
        before = self._seen
        self._seen = {
            name: before.get(name, LeaseWatch()).observe(record_of(item), at=now)
            for name, item in directory.members.items()
        }
        beats = {
            name
            for name, watch in self._seen.items()
            if name in before and watch.since != before[name].since
        }
        self._beating = (self._beating | beats) & self._seen.keys()

    @property
    def are_clear(self) -> bool:
        """Whether every member has been seen to beat: one look alone does not show it."""
        return self._beating == self._seen.keys()

    def expired(self, *, now: float) -> list[tuple[str, str]]:
        """Return the members whose items did not change for a lease, with the record shown."""
        return [
            (name, watch.record.rvn)
            for name, watch in self._seen.items()
            if watch.record is not None and watch.left_seconds(now=now) <= 0
        ]

    def next_seconds(self, *, now: float) -> float:
        """Return in how many seconds the next item may have been unchanged for a lease."""
        left = (watch.left_seconds(now=now) for watch in self._seen.values())
        return min((seconds for seconds in left if seconds > 0), default=float("inf"))


class SliceShare:
    """What one member leads: `me`, which holds `own`.

    It stays with the home of `settings`, as leases do. Nothing is led before the first `turn`.
    """

    def __init__(
        self,
        context: MergeContext,
        own: Lease,
        *,
        me: str,
        settings: Settings,
        watches: HeartbeatWatches,
    ) -> None:
        self.led: dict[int, Slice] = {}
        self.slices: int = settings.compactor.slices
        self._store = context.stores[settings.home]
        self._own = own
        self.me = me
        self._lease = lease_name(settings)
        self._watches = watches
        self._clock = context.services.clock
        self._metrics = context.metrics
        self._giving: dict[int, Slice] = {}
        self._lock = anyio.Lock()

    @property
    def is_head(self) -> bool:
        """Whether this member is the head, which also searches the whole table."""
        return self.me == HEAD

    def leads(self, partition: str) -> bool:
        """Return whether a collection is in a slice that this member leads."""
        return slice_of(partition, self.slices) in self.led

    def fence(self, partition: str) -> Sequence[Check]:
        """Return the checks that this member still leads the collection's slice.

        Raises:
            LeaseLost: its own lease may be lost.
        """
        own = self._own.fence()
        number = slice_of(partition, self.slices)
        if number not in self.led:
            return (own,)
        return fence_of(own, number, self.led[number], lease=self._lease, slices=self.slices)

    async def settle(self, stop: anyio.Event) -> None:
        """Wait until every other member has been seen to beat, or is gone: for at most a lease.

        For a process that does one pass: a dead member's slices would be left to no process.

        Raises:
            LeaseLost, DamagedItem, StoreError: as `turn`.
        """
        terms = self._own.terms
        end = self._clock.monotonic() + terms.lease_seconds + terms.heartbeat_seconds
        while not self._watches.are_clear and self._clock.monotonic() < end:
            if await sleep_or_stop(self._clock, terms.poll_seconds, stop):
                return
            await self.turn()

    async def run(self) -> None:
        """Take turn after turn until cancelled; one that fails is taken again."""
        terms = self._own.terms
        while True:
            next_seconds = self._watches.next_seconds(now=self._clock.monotonic())
            await self._clock.sleep(
                min(terms.heartbeat_seconds, max(next_seconds, terms.poll_seconds))
            )
            try:
                await self.turn()
            except LeaseLost:
                return
            except LedgerError as error:
                log.warning("slices: %s", error)
                self._metrics.error(error)

    async def turn(self) -> None:
        """Read who leads what, remove members that are gone, and take or give up slices.

        Raises:
            LeaseLost: our own lease may be lost.
            DamagedItem: an item of a slice or member is not one.
            StoreError: the home region failed; what was led before still is.
        """
        async with self._lock:
            await self._turn()

    async def _turn(self) -> None:
        directory = await read_directory(self._store, self._lease, self.slices)
        now = self._clock.monotonic()
        self._watches.look(directory, now=now)
        expired = self._watches.expired(now=now)
        buried = {name for name, rvn in expired if await self._bury(name, rvn)}
        members = directory.members.keys() - buried
        led = directory.led_by(self.me)
        # A release without an answer may still land: it is repeated, and the slice is not led.
        self._giving = {n: one for n, one in self._giving.items() if led.get(n) == one}
        self._lead({n: one for n, one in led.items() if n not in self._giving})
        turn = turn_of(directory.slices, members=members, me=self.me)
        if turn.give or self._giving:
            await self._give_up({n: led[n] for n in (*turn.give, *self._giving)})
        elif turn.take:
            await self._take({number: directory.slices[number] for number in turn.take})

    async def _bury(self, name: str, rvn: str) -> bool:
        """Delete the heartbeat item of a member that is gone; return whether it is deleted."""
        if name == self.me:
            return False
        key = lease_key(f"{self._lease}/{name}")
        outcome = await self._store.write(Delete(key, Equals("rvn", {"S": rvn})))
        if isinstance(outcome, Applied):
            log.info("%s is gone: its slices are free", name)
        return isinstance(outcome, Applied)

    async def _give_up(self, given: dict[int, Slice]) -> None:
        """Give slices up; from here on they are not led, even if it is not known to be applied."""
        self._giving = given
        self._lead({number: one for number, one in self.led.items() if number not in given})
        own = self._own.fence()
        await self._store.transact(giving(own, given, lease=self._lease, slices=self.slices))

    async def _take(self, before: dict[int, Slice]) -> None:
        own = self._own.fence()
        actions = taking(own, before, me=self.me, lease=self._lease, slices=self.slices)
        if isinstance(await self._store.transact(actions), Applied):
            new = {number: Slice(self.me, one.epoch + 1) for number, one in before.items()}
            self._lead({**self.led, **new})

    def _lead(self, led: dict[int, Slice]) -> None:
        if led.keys() != self.led.keys():
            log.info("leads %d of %d slices", len(led), self.slices)
        self.led = led
        self._metrics.slices(len(led))
