"""Reversing an entry: the opposite change, linked to it, once however often it is asked for.

::

    look     its reversal, in any region (`ledger.writes.earlier_calls`); the entry, alike in all
    write    one transaction, at home: { put the record, if it is as read; put the opposite entry }

The reversal itself is what makes a repeat harmless; see `ledger.core.once`. An entry is reversed
once every region shows it alike, as it is merged then: of one key that two regions used at once for
different changes one is lost, and its reversal would stay.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import partial
from typing import Protocol

from ledger.contract.view import check_home
from ledger.core import books, ids, keys, once
from ledger.core.entry import Item, entry_item, entry_of, spending_of
from ledger.core.errors import InvalidInput, OutcomeUnknown, StateConflict, StoreError
from ledger.core.fold import is_alike, named_by
from ledger.core.ids import MICROSECOND
from ledger.core.parts import part_named
from ledger.core.values import Entry, Spending
from ledger.reads.archive.access import OpenArchive, archived_of
from ledger.reads.archive.reader import archived_line
from ledger.reads.collection import read_known_net
from ledger.runtime.call_deadlines import NEVER, TIMEOUT, bounded, changing
from ledger.runtime.services import Services
from ledger.runtime.tasks import run_requests
from ledger.runtime.validity import signed_within
from ledger.settings.live import LiveSettings
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.store.retrier import Retrier
from ledger.store.writes import Applied, Outcome, Put, Unknown
from ledger.writes.earlier_calls import EarlierCalls, Made, as_read, leads_to
from ledger.writes.entry_plan import Change, PlannedEntry, checked_date, checked_note
from ledger.writes.planner import Planner

TRIES_MAX = 3
"""Attempts of one call, each of which lost to another reversal."""


@dataclass(frozen=True, slots=True)
class ReversalRequest:
    """What a reversal is asked to say of itself; of a repeat None stands for whatever it says."""

    note: str | None = None
    effective: date | None = None

    def check(self) -> None:
        """Raise unless an entry may say so.

        Raises:
            InvalidEntry: the message names value and rule.
        """
        if self.note is not None:
            checked_note(self.note)
        if self.effective is not None:
            checked_date(self.effective)


class GivenBack(Protocol):
    """What the reversal of a spend says of the rights that it gives back."""

    @property
    def spending(self) -> Spending:
        """What the entry names."""

    def put(self, entry: Entry) -> None:
        """Note that the entry is durable, or may be."""

    def not_put(self) -> None:
        """Note that it was not written, nor will be."""


class Reverser:
    """Reverses entries through the home region's store; `others` opens the other regions.

    `gives_back` says what the reversal of a spend names, where its budget takes credits.
    """

    def __init__(
        self,
        store: Store,
        settings: LiveSettings,
        services: Services,
        *,
        archive: OpenArchive,
        others: Callable[[], Awaitable[Mapping[str, Store]]],
        on_entry: Callable[[Entry], None],
        gives_back: Callable[[Entry], Awaitable[GivenBack | None]],
    ) -> None:
        self._store = store
        self._settings = settings
        self._clock = services.clock
        self._archive = archive
        self._on_entry = on_entry
        self._gives_back = gives_back
        self._earlier = EarlierCalls(store, settings, services.clock, archive, others)
        self._planner = Planner(store.region, settings=settings, services=services)
        self._retrier = Retrier.of(store, clock=services.clock, randomness=services.randomness)

    async def reverse(self, entry: Entry, wanted: ReversalRequest, *, end: float = NEVER) -> Entry:
        """Write the opposite of an entry; see `Ledger.reverse`.

        `end` is the event loop's time at which the outcome is reported as unknown.
        """
        _check(entry)
        wanted.check()
        check_home(self._store, self._settings.current, what="an entry is reversed")
        with signed_within(self._settings.validity, self._clock), changing(None):
            work = self._reversed(entry, wanted)
            return await bounded(end, work, partial(_unknown, entry, TIMEOUT))

    async def _reversed(self, entry: Entry, wanted: ReversalRequest) -> Entry:
        key = once.reversal_key(entry.counter, entry.id)
        partitions = self._partitions(entry)
        for _ in range(TRIES_MAX):
            record = await self._store.get(Get(key))
            made = None if record is None else await self._earlier.made_by(record)
            if made is None:
                shown = await self._earlier.shown(partitions, first=entry.id)
                made = leads_to(key, shown)
            if made is not None:
                return _repeated(entry, wanted, made)
            found = await self._written(entry, partitions, wanted, record)
            if found is not None:
                return found
        raise StateConflict(
            f"entry {entry.id} of {entry.counter!r} is being reversed by other calls: repeat the"
            " call"
        )

    def _partitions(self, entry: Entry) -> list[str]:
        """Return the collections that the entry may be in: its reversal is in the same."""
        shards = self._settings.current.shards_max(entry.counter)
        known = range(shards) if entry.shard is None else [entry.shard]
        return [keys.partition_key(entry.counter, shard) for shard in known]

    async def _written(
        self, entry: Entry, partitions: Sequence[str], wanted: ReversalRequest, record: Item | None
    ) -> Entry | None:
        """Write a reversal; return None if there is one already.

        Raises:
            StateConflict: there is no such entry, it is an open hold, regions show it differently,
                or whether it was reversed is not known.
            OutcomeUnknown: no answer.
        """
        if record is not None:
            await self._earlier.check_never_merged(record)
        original = await self._original(entry, partitions)
        self._earlier.check_arrived(
            original.at, what=f"whether entry {original.id} of {original.counter!r} was reversed"
        )
        back = await self._gives_back(original)
        planned = self._planned(original, wanted, None if back is None else back.spending)
        reversal = planned.entry
        put = Put(once.record_of(planned.item), as_read(record), not_after=planned.latest)
        match await self._sent([put, planned.put], reversal, back):
            case Applied():
                self._on_entry(reversal)
                return reversal
            case Unknown(cause):
                raise _unknown(entry, cause)
        return None

    async def _sent(
        self, actions: Sequence[Put], reversal: Entry, back: GivenBack | None
    ) -> Outcome:
        """Send a reversal until it is answered, and let those know whose grants it names."""

        async def attempt() -> Outcome:
            return await self._store.transact(actions)

        may_be_there = True
        try:
            final = await self._retrier.until_answered(attempt)
            may_be_there = isinstance(final.outcome, Applied | Unknown) or final.doubt is not None
        except StoreError:
            may_be_there = False
            raise
        finally:
            if back is not None and may_be_there:
                back.put(reversal)
            elif back is not None:
                back.not_put()
        return final.outcome

    def _planned(
        self, original: Entry, wanted: ReversalRequest, spending: Spending | None
    ) -> PlannedEntry:
        """Plan the opposite entry in the collection of the original, with an id after its."""
        change = Change(
            original.counter,
            original.change.copy_negate(),
            wanted.note,
            wanted.effective,
            legs=books.opposite(original.legs) or None,
        )
        suffix = once.suffix_of(once.reversal_key(original.counter, original.id))
        planned = self._planner.plan(change, is_new=False, suffix=suffix, spending=spending)
        after = ids.sort_key(ids.moment_of(ids.split(original.id)[0]) + MICROSECOND, suffix)
        reversal = replace(
            planned.entry,
            id=max(planned.entry.id, after),
            reverses=original.id,
            shard=original.shard,
        )
        return planned._replace(entry=reversal, item=entry_item(reversal))

    async def _original(self, entry: Entry, partitions: Sequence[str]) -> Entry:
        """Return the entry as all regions, or the archive, have it.

        Raises:
            StateConflict: home has it in neither, another region shows it differently, or it may
                not be reversed.
        """
        reader, item_id = await self._archive(), ids.split(entry.id)[0]
        for partition in partitions:
            net = await read_known_net(self._store, partition, self._settings)
            item = await self._store.get(Get((partition, item_id)))
            if item is not None and item_id not in named_by(net):
                original = self._named(entry, entry_of(item))
                await self._check_agreed(item)
                return original
            if reader is not None:
                net = await read_known_net(self._store, partition, self._settings)
                head = archived_of(net, partition)
                line = await archived_line(reader, partition, head, item_id)
                if line is not None:
                    place = keys.counter_of(partition)
                    whole = line.entry(entry.counter, place[1] if place else 0)
                    # What paid for it says whose rights its reversal gives back.
                    whole = replace(whole, spending=spending_of(line.other))
                    return self._named(entry, whole)
            if item is not None:
                self._check_as_merged(entry)
                return self._named(entry, entry_of(item))
        raise self._missing(entry)

    def _named(self, entry: Entry, whole: Entry) -> Entry:
        """Return the change that is to be reversed, of the item that was found.

        Raises:
            InvalidEntry: the item has several changes, and none is named.
            StateConflict: the item has no such change, or it may not be reversed.
        """
        original = part_named(whole, entry.id)
        if original is None:
            raise self._missing(entry)
        return _checked(original)

    def _missing(self, entry: Entry) -> StateConflict:
        return StateConflict(
            f"counter {entry.counter!r} has no entry {entry.id} in {self._store.region}: it never"
            " was one, or was merged without an archive, or has not come home yet"
        )

    def _check_as_merged(self, entry: Entry) -> None:
        """Raise unless what the table shows of a merged entry is what was merged.

        Raises:
            StateConflict: a region that is gone may have sent another change under its key since.
        """
        gone_at = self._settings.current.terms.given_up_at
        skew = timedelta(seconds=self._settings.current.clock_skew)
        if gone_at is not None and entry.at is not None and entry.at <= gone_at + skew:
            raise StateConflict(
                f"entry {entry.id} of {entry.counter!r} was merged without an archive, and what the"
                " table shows under its id may have come since from a region that is gone: record"
                " the opposite of what it was"
            )

    async def _check_agreed(self, item: Item) -> None:
        """Raise unless every region shows an entry as home does.

        Raises:
            StateConflict: one does not, yet.
        """
        key = item["pk"]["S"], item["sk"]["S"]
        stores = await self._earlier.everywhere()
        reads = [
            partial(self._earlier.read, store, store.get(Get(key))) for store in stores.values()
        ]
        shown = await run_requests(reads, at_once=len(reads))
        if others := [
            region
            for region, its in zip(stores, shown, strict=True)
            if its is None or not is_alike(item, its)
        ]:
            error = StateConflict(
                f"entry {key[1]} of {key[0]!r} is not shown alike by {', '.join(others)} yet:"
                " repeat the call once it has arrived there"
            )
            error.retryable = True
            raise error


def _unknown(entry: Entry, cause: str) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"no answer for the reversal of {entry.id} of {entry.counter!r} ({cause}): repeat the call,"
        " which reverses it once",
        entries=[],
        retryable=True,
    )


def _check(entry: object) -> None:
    if not isinstance(entry, Entry):
        raise InvalidInput(f"only an entry is reversed, got {entry!r}")
    keys.checked_counter(entry.counter)
    if entry.at is None:
        raise InvalidInput(f"entry {entry.id!r} has an id that the ledger did not make")
    if entry.reverses is not None:
        raise StateConflict(
            f"entry {entry.id} is itself the reversal of {entry.reverses}: record a new change"
        )


def _checked(original: Entry) -> Entry:
    """Return an entry that may be reversed: no reversal, and no hold that is open.

    What such a hold comes to is not known.
    """
    _check(original)
    spending = original.spending
    if spending is not None and spending.hold is not None and spending.resolved is None:
        raise StateConflict(
            f"entry {original.id} of {original.counter!r} is an open hold: void it, or settle it"
            " before it is reversed"
        )
    return original


def _repeated(entry: Entry, wanted: ReversalRequest, made: Made) -> Entry:
    """Return the reversal that an earlier call made.

    Raises:
        StateConflict: it says something else than is asked for.
    """
    first = replace(entry_of(made.item), repeated=True)
    for name, ours, theirs in (
        ("note", None if made.is_erased else wanted.note, first.note),
        ("effective date", wanted.effective, first.effective),
    ):
        if ours is not None and ours != theirs:
            was = f"entry {entry.id} of {entry.counter!r} was reversed before, by {first.id}"
            error = StateConflict(f"{was} with the {name} {_shown(theirs)}, not {_shown(ours)}")
            error.unread = entry.counter, f"{was} with another {name}"
            raise error
    return first


def _shown(value: date | str | None) -> str:
    return value.isoformat() if isinstance(value, date) else repr(value)
