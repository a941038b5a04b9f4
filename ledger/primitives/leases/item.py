"""The item of a lease, read and written: every write conditional, every lost answer read again.

A write that got no answer is neither given up nor guessed: the item is read again, strongly
consistent, and what it shows counts. The request may still be in flight and land later; so every
record version number (rvn) sent is remembered with the time before it was sent, and a later write
that is rejected because of it recognizes it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from threading import Lock

from ledger.core.entry import AttributeValue, Item, Key
from ledger.primitives.leases.lease_rules import LeaseRecord, holds_on, record_item, record_of
from ledger.runtime.clock import ElapsedTime
from ledger.runtime.services import Services
from ledger.store.conditions import Absent, Condition, Equals
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.store.writes import Applied, Delete, Outcome, Put, Rejected, Update

SENT_MAX = 64
_RVN_BITS = 128


@dataclass(frozen=True, slots=True)
class Written:
    """The result of a write: the wanted record, and the one that the table shows."""

    wanted: LeaseRecord
    shown: LeaseRecord | None

    @property
    def applied(self) -> bool:
        """Whether the table is known to show what we wanted: no two writes have the same rvn."""
        return self.shown is not None and self.shown.rvn == self.wanted.rvn


@dataclass(frozen=True, slots=True)
class LeaseSent:
    """A write of ours: when it was sent, and for an acquisition the data that it found."""

    at: float
    elapsed: float
    found: Item | None = None


class Sending:
    """The rvns that one contender has sent, and when; for any thread."""

    def __init__(self, services: Services) -> None:
        self._clock = services.clock
        self._randomness = services.randomness
        self._elapsed = ElapsedTime(services.clock)
        self._sent: dict[str, LeaseSent] = {}
        self._lock = Lock()

    def sent(self, rvn: str) -> LeaseSent | None:
        """Return when we sent this rvn; None if we did not, or long ago."""
        with self._lock:
            return self._sent.get(rvn)

    def elapsed_seconds(self) -> float:
        """Return seconds of the clock that `LeaseSent.elapsed` is taken from."""
        with self._lock:
            return self._elapsed.seconds()

    def new_rvn(self, *, found: Item | None = None) -> str:
        """Return a new rvn and remember that it is sent now; the oldest of many is forgotten."""
        with self._lock:
            rvn = f"{self._randomness.getrandbits(_RVN_BITS):0{_RVN_BITS // 4}x}"
            self._sent[rvn] = LeaseSent(self._clock.monotonic(), self._elapsed.seconds(), found)
            if len(self._sent) > SENT_MAX:
                del self._sent[next(iter(self._sent))]
            return rvn

    def left_in(self, seen: LeaseRecord | None) -> Item:
        """Return the data that the holder before us left in a record.

        If the record is our own unanswered acquisition, that is the data it replaced.
        """
        if seen is None:
            return {}
        sent = self.sent(seen.rvn)
        return seen.data if sent is None or sent.found is None else sent.found


class LeaseItem:
    """The item of one lease, as one contender reads and writes it through one store."""

    def __init__(self, store: Store, key: Key, sending: Sending) -> None:
        self.key = key
        self.region = store.region
        self.sending = sending
        self._store = store

    def through(self, store: Store) -> "LeaseItem":
        """Return the same item, of the same contender, through another connection."""
        return LeaseItem(store, self.key, self.sending)

    async def read(self) -> LeaseRecord | None:
        """Return what the table shows, None for no item.

        Raises:
            DamagedItem: the item is not a lease.
            StoreError: the table could not be read.
        """
        item = await self._store.get(Get(self.key, consistent=True))
        return None if item is None else record_of(item)

    async def take(self, seen: LeaseRecord | None, wanted: LeaseRecord) -> Written:
        """Put a record in place of the one seen, if it is still the same; its rvn is made new.

        Raises:
            DamagedItem, StoreError: as `read`; with a StoreError of the write nothing was written.
        """
        found = self.sending.left_in(seen)
        wanted = replace(wanted, rvn=self.sending.new_rvn(found=found))
        outcome = await self._store.write(Put(record_item(wanted), _unchanged(seen)))
        return Written(wanted, await self._shown(outcome, wanted))

    async def renew(self, seen: LeaseRecord, *, owner: str, data: Item | None = None) -> Written:
        """Write a new rvn, this owner and any new data into the record seen, and nothing else.

        Raises:
            DamagedItem, StoreError: as `take`.
        """
        wanted, values = self._renewed(seen, owner, data)
        outcome = await self._store.write(Update(self.key, set=values, condition=_unchanged(seen)))
        return Written(wanted, await self._shown(outcome, wanted))

    def renewal(self, seen: LeaseRecord, *, data: Item) -> tuple[LeaseRecord, Update]:
        """Return an action of a transaction that stores data while the holding is current."""
        wanted, values = self._renewed(seen, seen.owner, data)
        return wanted, Update(self.key, set=values, condition=holds_on(seen.owner, seen.epoch))

    async def delete(self, seen: LeaseRecord) -> tuple[bool, LeaseRecord | None]:
        """Delete the record seen, if it is still the same; return whether it is known to be gone.

        Otherwise, with it, what the table shows.

        Raises:
            DamagedItem, StoreError: as `take`.
        """
        outcome = await self._store.write(Delete(self.key, _unchanged(seen)))
        if isinstance(outcome, Applied):
            return True, None
        shown = await self._shown(outcome, seen)
        return shown is None, shown

    def _renewed(
        self, seen: LeaseRecord, owner: str, data: Item | None
    ) -> tuple[LeaseRecord, Mapping[str, AttributeValue]]:
        rvn = self.sending.new_rvn()
        values: dict[str, AttributeValue] = {"rvn": {"S": rvn}, "owner": {"S": owner}}
        if data is not None:
            values["data"] = {"M": data}
        return replace(seen, rvn=rvn, owner=owner, data=seen.data if data is None else data), values

    async def _shown(self, outcome: Outcome, wanted: LeaseRecord) -> LeaseRecord | None:
        match outcome:
            case Applied():
                return wanted
            case Rejected(found=found):
                return None if found[0] is None else record_of(found[0])
            case _:
                return await self.read()


def _unchanged(seen: LeaseRecord | None) -> Condition:
    return Absent() if seen is None else Equals("rvn", {"S": seen.rvn})
