"""The last folds of this process by collection, to be deleted without reading them again.

The visit that folded them saw the entries in every region. Once every region shows that net, they
may be deleted at home, whatever else is there: so the next visit reads only the nets. Folds that
are not known here any more (another process folded, or this one restarted) are read whole, as
usual.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from compactor.merge_plan import MergePlan
from ledger.core.fold import Stamp, named_by, stamp_of
from ledger.core.values import NetChange

IDS_MAX = 500_000
"""Entries whose sort keys are kept, 45 bytes each; further folds are not kept."""
AGAIN_MIN = 100
"""If this many were folded, as many may have settled since: the pass visits it again."""
_BETWEEN = ","


@dataclass(frozen=True, slots=True)
class OwnFold:
    """The entries that a fold added to the net of this stamp: their sort keys, as one text."""

    stamp: Stamp
    text: str
    count: int

    def is_committed(self, nets: Mapping[str, NetChange | None]) -> bool:
        """Return whether every region shows the net that names them."""
        return all(stamp_of(net) == self.stamp for net in nets.values())

    def plan(self) -> MergePlan:
        """Return what to do once it is committed; entries settled since are left to the next visit.

        That visit is in the same pass if there may be many: otherwise a hot counter would be folded
        only in every second pass, and be read with twice as many entries.
        """
        return MergePlan(deletes=tuple(self.text.split(_BETWEEN)), is_cut=self.count >= AGAIN_MIN)


class OwnFolds:
    """The folds of one process that it has not deleted yet, by collection."""

    def __init__(self, ids_max: int = IDS_MAX) -> None:
        self._ids_max = ids_max
        self._ids = 0
        self._folds: dict[str, OwnFold] = {}

    def add(self, partition: str, before: NetChange | None, fold: NetChange) -> None:
        """Keep what a fold, known to be applied, added to the net before it."""
        self.take(partition)
        named = named_by(fold)
        known = set(named_by(before)) if named else ()
        entries = [key for key in named if key not in known]
        if entries and self._ids + len(entries) <= self._ids_max:
            text = _BETWEEN.join(entries)
            self._folds[partition] = OwnFold(stamp_of(fold), text, len(entries))
            self._ids += len(entries)

    def of(self, partition: str) -> OwnFold | None:
        """Return the fold of a collection; None if none is known."""
        return self._folds.get(partition)

    def take(self, partition: str) -> OwnFold | None:
        """Return the fold of a collection, and forget it."""
        fold = self._folds.pop(partition, None)
        self._ids -= fold.count if fold else 0
        return fold
