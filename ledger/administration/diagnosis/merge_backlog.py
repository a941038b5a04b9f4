"""The entries that have settled and are not merged, by the keys of a sample of the table.

What passes have recorded says what they found. An entry that none of them was led to is seen only
in the table itself. Only what a fold would be worth counts: a few young entries wait by design.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ledger.core import ids, keys
from ledger.core.entry import Item
from ledger.settings import Settings


@dataclass(frozen=True, slots=True)
class Unmerged:
    """Of `sampled` collections those that are due for a fold: how many, with how many entries.

    `since` is when the first of them became due; None without any.
    """

    sampled: int = 0
    due: int = 0
    entries: int = 0
    since: datetime | None = None


NOTHING_SAMPLED = Unmerged()


@dataclass(slots=True)
class SampledKeys:
    """The keys of the items of some pages, and the ids that nets among them name."""

    entries: dict[str, set[str]] = field(default_factory=dict)
    _named: dict[str, set[str]] = field(default_factory=dict)

    def add(self, items: Iterable[Item]) -> None:
        """Add a page of items, with their `merged`."""
        for item in items:
            partition, sort_key = item["pk"]["S"], item["sk"]["S"]
            shown = self.entries.setdefault(partition, set())
            if sort_key < keys.RESERVED:
                shown.add(sort_key)
            elif sort_key.startswith(keys.NET_PREFIX):
                self._named.setdefault(partition, set()).update(_named_in(item))

    def leave_out(self, partition: str) -> None:
        """Forget a collection of which only a part was read: its net comes last."""
        self.entries.pop(partition, None)

    def unmerged(self, settings: Settings, *, now: datetime) -> Unmerged:
        """Return what waits to be merged, under the table's contract."""
        due = entries = sampled = 0
        since: list[datetime] = []
        settled = ids.earliest(now - timedelta(seconds=settings.settle))
        for partition, shown in self.entries.items():
            place = keys.counter_of(partition)
            if place is None:
                continue
            sampled += 1
            if settings.terms.is_unmerged(place[0]):
                continue
            merged = self._named.get(partition, ())
            waiting = ids.ours(sorted(key for key in shown if key < settled and key not in merged))
            moment = _due_since(waiting, settings, now=now)
            if moment is not None:
                due, entries = due + 1, entries + len(waiting)
                since.append(moment)
        return Unmerged(sampled, due, entries, min(since, default=None))


def _due_since(waiting: Sequence[str], settings: Settings, *, now: datetime) -> datetime | None:
    """Return since when a collection with these settled entries is due for a fold."""
    compactor = settings.compactor
    moments = []
    if len(waiting) >= compactor.fold_min:
        last = ids.moment_of(waiting[compactor.fold_min - 1])
        moments.append(last + timedelta(seconds=settings.settle))
    if waiting:
        seconds = max(compactor.fold_age, settings.settle)
        moments.append(ids.moment_of(waiting[0]) + timedelta(seconds=seconds))
    return min((moment for moment in moments if moment <= now), default=None)


def _named_in(net: Item) -> Sequence[str]:
    try:
        return ids.unpack_all(net["merged"]["B"]).sort_keys
    except (KeyError, TypeError, ValueError):  # a damaged one is reported by the search
        return ()
