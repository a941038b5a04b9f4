"""Reversing an entry: the opposite change, linked to it, once however often it is asked for.

::

    look     the record of this entry's reversal; the entry, in the table or in the archive
    write    one transaction, at home: { put the record, if absent; put the opposite entry }

The record (`~reverse~<counter>`, under the entry's id) stays, which makes every later repeat
harmless: it returns the first reversal, long after both entries were merged.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random

from ledger.archive.access import ArchiveAccess, archived_of
from ledger.archive.reading import archived_line
from ledger.contract.home import check_home
from ledger.core import keys
from ledger.core.entry import Item, damaged, entry_item, entry_of
from ledger.core.errors import InvalidInput, OutcomeUnknown, StateConflict
from ledger.core.values import Entry
from ledger.runtime.clock import Clock
from ledger.runtime.deadline import NEVER, TIMEOUT, bounded
from ledger.runtime.validity import signed_within
from ledger.settings.live import LiveSettings
from ledger.store.conditions import Absent
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.store.retrier import Retrier
from ledger.store.writes import Applied, Outcome, Put, Unknown
from ledger.totals.collection import read_known_net
from ledger.writing.plan import Change, Planned
from ledger.writing.planner import Planner

_ERASED = "erased"
TRIES_MAX = 3
"""Attempts of one call, each of which lost to another reversal."""


class Reverser:
    """Reverses entries through the home region's store."""

    def __init__(
        self,
        store: Store,
        settings: LiveSettings,
        clock: Clock,
        randomness: Random,
        *,
        archive: ArchiveAccess,
        on_entry: Callable[[Entry], None],
    ) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._archive = archive
        self._on_entry = on_entry
        self._planner = Planner(store.region, settings=settings, clock=clock, randomness=randomness)
        self._retrier = Retrier.of(store, clock=clock, randomness=randomness)

    async def reverse(self, entry: Entry, *, note: str | None, end: float = NEVER) -> Entry:
        """Write the opposite of an entry; see `Ledger.reverse`.

        `end` is the event loop's time at which the outcome is reported as unknown.
        """
        _check(entry)
        check_home(self._store, self._settings.current, what="an entry is reversed")
        with signed_within(self._settings.validity, self._clock):
            work = self._reversed(entry, note)
            return await bounded(end, work, partial(_unknown, entry, TIMEOUT))

    async def _reversed(self, entry: Entry, note: str | None) -> Entry:
        for _ in range(TRIES_MAX):
            record = await self._store.get(Get(reversal_key(entry.counter, entry.id)))
            if record is not None:
                return _repeated(entry, note, record)
            found = await self._written(entry, note)
            if found is not None:
                return found
        raise StateConflict(
            f"entry {entry.id} of {entry.counter!r} is being reversed by other calls: repeat the"
            " call"
        )

    async def _written(self, entry: Entry, note: str | None) -> Entry | None:
        """Write a reversal; return None if there is one already.

        Raises:
            StateConflict: there is no such entry, or it is an open hold.
            OutcomeUnknown: no answer.
        """
        original = await self._original(entry)
        _check(original)
        _check_resolved(original)
        planned = self._planned(original, note)
        reversal = planned.entry
        actions = [Put(record_of(reversal), Absent(), not_after=planned.latest), planned.put]

        async def attempt() -> Outcome:
            return await self._store.transact(actions)

        match (await self._retrier.until_answered(attempt)).outcome:
            case Applied():
                self._on_entry(reversal)
                return reversal
            case Unknown(cause):
                raise _unknown(entry, cause)
        return None

    def _planned(self, original: Entry, note: str | None) -> Planned:
        opposite = original.change.copy_negate()
        planned = self._planner.plan(Change(original.counter, opposite, note=note), is_new=False)
        reversal = replace(planned.entry, reverses=original.id)
        return planned._replace(entry=reversal, item=entry_item(reversal))

    async def _original(self, entry: Entry) -> Entry:
        """Return the entry as the table, or the archive, has it.

        Raises:
            StateConflict: neither has it.
        """
        settings = self._settings.current
        shards = range(settings.shards_max(entry.counter)) if entry.shard is None else [entry.shard]
        reader = await self._archive.reader()
        for shard in shards:
            partition = keys.partition_key(entry.counter, shard)
            item = await self._store.get(Get((partition, entry.id)))
            if item is not None:
                return entry_of(item)
            if reader is not None:
                net = await read_known_net(self._store, partition, self._settings)
                head = archived_of(net, partition)
                line = await archived_line(reader, partition, head, entry.id)
                if line is not None:
                    return line.entry(entry.counter, shard)
        raise StateConflict(
            f"counter {entry.counter!r} has no entry {entry.id} in {self._store.region}: it never"
            " was one, or was merged without an archive, or has not come home yet"
        )


def _unknown(entry: Entry, cause: str) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"no answer for the reversal of {entry.id} of {entry.counter!r} ({cause}): repeat the call,"
        " which reverses it once",
        entries=[],
        retryable=True,
    )


def record_of(reversal: Entry, *, is_erased: bool = False) -> Item:
    """Return the record of a reversal, which stays when both entries are merged.

    `is_erased` if its note was erased: a repeat may have any.

    Raises:
        ValueError: the entry does not reverse another.
    """
    if reversal.reverses is None:
        raise ValueError(f"entry {reversal.id} is not a reversal")
    partition, sort_key = reversal_key(reversal.counter, reversal.reverses)
    own = {"pk": {"S": partition}, "sk": {"S": sort_key}, "entry": {"S": reversal.id}}
    erased: Item = {_ERASED: {"BOOL": True}} if is_erased else {}
    return {**entry_item(reversal), **own, **erased}


def without_note(record: Item) -> Item:
    """Return the record of a reversal whose note is erased."""
    kept = {name: value for name, value in record.items() if name != "note"}
    return {**kept, _ERASED: {"BOOL": True}}


def _check(entry: object) -> None:
    if not isinstance(entry, Entry):
        raise InvalidInput(f"only an entry is reversed, got {entry!r}")
    if entry.at is None:
        raise InvalidInput(f"entry {entry.id!r} has an id that the ledger did not make")
    if entry.reverses is not None:
        raise StateConflict(
            f"entry {entry.id} is itself the reversal of {entry.reverses}: record a new change"
        )


def _check_resolved(original: Entry) -> None:
    """Refuse a hold that can still be settled or voided: what it comes to is not known."""
    spending = original.spending
    if spending is not None and spending.hold is not None and spending.resolved is None:
        raise StateConflict(
            f"entry {original.id} of {original.counter!r} is an open hold: void it, or settle it"
            " before it is reversed"
        )


def reversal_key(counter: str, entry_id: str) -> tuple[str, str]:
    """Return the key of the record of an entry's reversal."""
    return f"{keys.REVERSE_PREFIX}{counter}", entry_id


def _repeated(entry: Entry, note: str | None, record: Item) -> Entry:
    """Return the reversal that a record stands for.

    Raises:
        StateConflict: it has another note.
    """
    found = record.get("entry", {}).get("S")
    if not isinstance(found, str):
        raise damaged(record, "the record of a reversal must have entry")
    reversal = replace(
        entry_of({**record, "pk": {"S": entry.counter}, "sk": {"S": found}}),
        shard=None,
        repeated=True,
    )
    if _ERASED not in record and note is not None and note != reversal.note:
        raise StateConflict(
            f"entry {entry.id} of {entry.counter!r} was reversed before, by {found} with the note"
            f" {reversal.note!r}, not {note!r}"
        )
    return reversal
