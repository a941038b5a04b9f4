"""Which entry an earlier call made, if any: in table, net or archive, never a record alone.

::

    record at home ──> its entry, in home's table, net or archive
    every region's table ──> an entry that the call made, on its way or without its record
    home's net ──> whether the entry of a record that leads nowhere can have been merged

Every region is read, because replication moves items one by one: after a move of home the entry may
lie in the former home alone. What a region that is lost, or was taken out, wrote last may arrive a
day later, so for that long a call that it may have answered is not made again.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from ledger.core import contract, keys, once
from ledger.core.entry import Item, Key, key_of
from ledger.core.errors import RegionUnreadable, StateConflict, StoreError, Unreachable
from ledger.core.fold import named_by
from ledger.reads.archive.access import OpenArchive, archived_of
from ledger.reads.archive.reader import archived_line
from ledger.reads.archive.segments import item_of
from ledger.reads.collection import read_known_net
from ledger.runtime.clock import Clock
from ledger.runtime.tasks import run_all
from ledger.settings.live import LiveSettings
from ledger.store.conditions import Absent, AllOf, Condition, Equals, Has, Not
from ledger.store.port import Store
from ledger.store.reads import Get, Query

Result = TypeVar("Result")
READS_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Made:
    """An entry that a call made; `is_erased` if its note was erased from the archive."""

    item: Item
    is_erased: bool = False


@dataclass(frozen=True, slots=True)
class EarlierCalls:
    """Looks for what was made once, from the home region; `others` opens the other regions."""

    store: Store
    settings: LiveSettings
    clock: Clock
    archive: OpenArchive
    others: Callable[[], Awaitable[Mapping[str, Store]]]

    async def everywhere(self) -> Mapping[str, Store]:
        """Return the stores of all regions of the table.

        Raises:
            Unreachable: one cannot be reached from here.
        """
        stores = {self.store.region: self.store, **await self.others()}
        regions = self.settings.current.terms.regions
        if missing := [region for region in regions if region not in stores]:
            raise Unreachable(f"region {missing[0]} cannot be reached from here")
        return {region: stores[region] for region in regions}

    async def shown(self, partitions: Sequence[str], *, first: str | None = None) -> list[Item]:
        """Return, of what calls make once, the entries in the tables of all regions, home first.

        Of these collections, from the id `first` on.

        Raises:
            RegionUnreadable: another region cannot be read.
        """
        stores = await self.everywhere()
        home = self.store.region
        reads = [
            partial(self.shown_in, stores[region], partition, first)
            for region in (home, *(region for region in stores if region != home))
            for partition in partitions
        ]
        found = await run_all(reads, at_once=READS_AT_ONCE)
        return [item for items in found for item in items]

    async def shown_in(self, store: Store, partition: str, first: str | None) -> list[Item]:
        """Return those in the table of one region, in one collection."""
        query = Query(partition, first=first, last=keys.RESERVED, attributes=once.ATTRIBUTES)
        found: list[Item] = []
        while True:
            page = await self.read(store, store.query(query))
            found += [item for item in page.items if once.record_key(item) is not None]
            if page.after is None:
                return found
            query = query.next(page)

    async def read(self, store: Store, reading: Awaitable[Result]) -> Result:
        """Await a read of a region.

        Raises:
            RegionUnreadable: it is another one than home, and cannot be read.
        """
        try:
            return await reading
        except StoreError as error:
            if store is self.store:
                raise
            raise RegionUnreadable(store.region, error) from error

    async def made_by(self, record: Item) -> Made | None:
        """Return the entry that a record leads to; None if it is not in table, net or archive."""
        item = once.entry_in(record)
        if item is None:
            return None
        partition, entry_id = key_of(item)
        there = await self.store.get(Get((partition, entry_id)))
        if there is not None:
            return Made(there) if once.record_key(there) == key_of(record) else None
        net = await read_known_net(self.store, partition, self.settings)
        reader = await self.archive()
        if reader is not None:
            line = await archived_line(reader, partition, archived_of(net, partition), entry_id)
            if line is not None:
                return Made(item_of(line, partition), line.is_erased)
        return Made(item) if entry_id in named_by(net) else None

    async def check_never_merged(self, record: Item) -> None:
        """Raise unless the entry of a record, which is nowhere to be found, was never merged.

        Raises:
            StateConflict: it may have been, and counts; whether it does is not known.
        """
        item = once.entry_in(record)
        if item is None:
            return
        partition, entry_id = key_of(item)
        net = await read_known_net(self.store, partition, self.settings)
        if net is None or entry_id > net.until:
            return
        is_archived = await self.archive() is not None
        if is_archived and entry_id > archived_of(net, partition).since:
            return  # every entry merged since is in the archive
        raise _unknown(
            f"entry {entry_id} of {partition!r} is in neither table nor archive: it was merged,"
            " and counts, or was lost with a region"
        )

    def check_arrived(self, since: datetime | None, *, what: str) -> None:
        """Refuse what a region that is gone may have done, while its last writes may arrive.

        `since` is the earliest time at which it may have; None if that is not known.

        Raises:
            StateConflict: it is not known yet; the message says until when.
        """
        terms = self.settings.current.terms
        gone_at = terms.given_up_at
        if gone_at is None:
            return
        skew = timedelta(seconds=terms.clock_skew)
        until = gone_at + timedelta(seconds=contract.REMEMBERED_SECONDS) + skew
        if (since is None or since <= gone_at + skew) and self.clock.now() <= until:
            error = _unknown(
                f"{what} before is not known until {until.isoformat()}: that may be on its way from"
                f" a region that is gone ({', '.join(dict.fromkeys(terms.lost))}); repeat the call"
                " then"
            )
            error.retryable = True
            raise error


def as_read(record: Item | None) -> Condition:
    """Return the condition that a record leads to the entry that it led to when it was read."""
    if record is None:
        return Absent()
    if once.ENTRY in record:
        return Equals(once.ENTRY, record[once.ENTRY])
    return AllOf((Has("sk"), Not(Has(once.ENTRY))))


def leads_to(key: Key, items: Sequence[Item]) -> Made | None:
    """Return the first of these entries that the call with a key made."""
    return next((Made(item) for item in items if once.record_key(item) == key), None)


def _unknown(message: str) -> StateConflict:
    error = StateConflict(message)
    error.outcome = "unknown"
    return error
