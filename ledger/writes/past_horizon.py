"""Answers to calls made after the retry horizon, from the archive.

Past the horizon a keyed call is not repeated, because its entry may have been merged. With an
archive the answer can be looked up for as long as the archive is kept: applied, with the entry;
another change under this key; or never applied, if every change of that time has settled
(`ledger.core.archive_pointers`). The net is read once, so its chain and its `settled` time agree.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from ledger.core import ids, keys
from ledger.core.archive_pointers import ArchiveState
from ledger.core.entry import entry_of
from ledger.core.errors import NeverApplied, RetryHorizonPassed
from ledger.core.fold import named_by
from ledger.core.ids import moment_of
from ledger.core.parts import part_like, whole_of
from ledger.core.values import Entry, NetChange, same_asked
from ledger.reads.archive.access import ArchiveAccess, archived_of
from ledger.reads.archive.reader import archived_line
from ledger.reads.archive.segments import Line, microseconds
from ledger.reads.collection import read_known_net
from ledger.settings import Settings
from ledger.settings.live import LiveSettings
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.writes.entry_plan import conflict
from ledger.writes.hint_writer import HintWriter

_UNKNOWN = "whether it was applied is not known"
NOT_SETTLED = "some changes of that time are not merged yet: ask again in a few minutes"


@dataclass(frozen=True, slots=True)
class PastHorizon:
    """Answers for the late calls of one region's ledger."""

    store: Store
    settings: LiveSettings
    archive: ArchiveAccess
    hints: HintWriter

    async def applied(self, error: RetryHorizonPassed) -> Entry:
        """Return the entry of a call that was refused as too late, if it was applied.

        Raises:
            NeverApplied: it was not, in any region, and never will be.
            KeyConflict: another change has its id, or its item has other changes.
            InvalidEntry: it was acknowledged with others of its item, so nothing is asked.
            RetryHorizonPassed: there is no archive, or the outcome is not known (yet).
            ArchiveError, StoreError: the lookup failed.
        """
        asked, reader = error.entry, await self.archive.reader()
        if asked is None or reader is None:
            raise error
        if asked.shard is None:
            asked = replace(asked, shard=self._shard_of(asked))
        entry = whole_of(asked)
        partition = keys.partition_key(entry.counter, entry.shard or 0)
        item = await self.store.get(Get((partition, entry.id)))
        if item is not None:
            return part_like(_same(entry, entry_of(item)), asked)
        net = await read_known_net(self.store, partition, self.settings)
        head = archived_of(net, partition)
        line = await archived_line(reader, partition, head, entry.id)
        if line is not None:
            theirs = line.entry(entry.counter, entry.shard or 0)
            return part_like(_same(entry, theirs, line), asked)
        self._check_known(asked, net, head, self.settings.current)
        raise NeverApplied(
            f"entry {asked.id} of {asked.counter!r} was never applied, in any region, and is past"
            " the retry horizon: record the change under a new key",
            entry=asked,
        )

    async def all_applied(self, error: RetryHorizonPassed, entries: Sequence[Entry]) -> list[Entry]:
        """Return the entries of a call that was refused as too late, if all were applied.

        Raises:
            As `applied`, for the first that was not, or may not have been.
        """
        late = [RetryHorizonPassed(str(error), entry=entry) for entry in entries]
        return [await self.applied(refusal) for refusal in late]

    def _shard_of(self, entry: Entry) -> int:
        item_id, _ = ids.split(entry.id)
        shards = self.settings.current.shards_at(entry.counter, moment_of(item_id)) or 1
        return keys.shard_of(ids.suffix_in(item_id), shards)

    def _check_known(
        self, entry: Entry, net: NetChange | None, head: ArchiveState, settings: Settings
    ) -> None:
        """Raise unless an entry that is not in the archive was certainly never applied.

        Raises:
            RetryHorizonPassed: it may have been applied, with the reason.
        """
        lost = settings.terms.given_up_at
        reason = unknown_because(
            ids.split(entry.id)[0],
            head,
            named_by(net),
            lost=None if lost is None else lost + timedelta(seconds=settings.clock_skew),
        )
        if settings.terms.is_unmerged(entry.counter):
            reason = "its counter is not merged, and it may be on its way from another region"
        if reason == NOT_SETTLED:
            self.hints.asked(entry.counter)
        if reason:
            error = RetryHorizonPassed(
                f"entry {entry.id} of {entry.counter!r} is past the retry horizon, and"
                f" {_UNKNOWN}: {reason}",
                entry=entry,
            )
            error.retryable = reason == NOT_SETTLED
            raise error


def unknown_because(
    entry_id: str, head: ArchiveState, named: Sequence[str], *, lost: datetime | None
) -> str:
    """Return why an id that is in no segment of a chain may have been applied; empty if it was not.

    `named` are the ids in the net; `lost` is when a region was last given up, if any was.
    """
    if entry_id <= head.since or entry_id in named:
        return "it is older than the archive"
    if lost is not None and moment_of(entry_id) <= lost:
        return "it may have been lost with a region"
    return NOT_SETTLED if microseconds(entry_id) > head.settled else ""


def _same(ours: Entry, theirs: Entry, line: Line | None = None) -> Entry:
    """Return the entry that was found, if it is the same change; an erased note matches any.

    Raises:
        KeyConflict: it is another change.
    """
    is_erased = line is not None and line.is_erased
    if not same_asked(replace(ours, note=None) if is_erased else ours, theirs):
        raise conflict(ours, theirs)
    return replace(theirs, repeated=True)
