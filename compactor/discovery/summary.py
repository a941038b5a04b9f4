"""What a search sees of one collection, and whether a visit would find something to do there.

A search reads all that a total depends on, so that it finds each item that cannot be counted, and
each total that does not fit in 38 digits: a visit of its collection then reports that.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from compactor.merge_plan import NAMED_MAX, MergeRules, accounts_size, is_worthwhile
from ledger.core import amounts, ids, keys
from ledger.core.entry import Item, net_of
from ledger.core.errors import DamagedItem
from ledger.core.ids import EntryIds
from ledger.core.index import ONLY_LISTED, IndexState
from ledger.core.signatures import signer_of
from ledger.core.sums import SUM_PREFIX, Sum, SumPlace, newer, sum_of


class Backlog(NamedTuple):
    """The number of entries to be merged, and the sort key of the oldest."""

    entries: int
    oldest: str | None


NO_BACKLOG = Backlog(0, None)
KEYS_MAX = 2 * NAMED_MAX
"""Further entries of a longer collection are only counted; those that a net names come first."""
NO_IDS = EntryIds()
"""Of a collection that has no net, or whose net names none."""


@dataclass(slots=True)
class Summary:
    """The keys of one collection in the home region, summarized; `settled` bounds those counted.

    At most `KEYS_MAX` sort keys are kept, about 5 MB, however long the collection is. `changes` are
    the texts of what the total adds up, beside the net and the sums. `counts` is
    whether anything in it counts, and `shown` the state of its net. `signers`
    are the keys of the nets that the store trusts. `accounts_bytes` is the size of a book's
    accounts. `control` has the control items of a budget.
    """

    partition: str
    settled: str
    entries: list[str] = field(default_factory=list)
    more: int = 0
    changes: list[str] = field(default_factory=list)
    net: str = "0"
    merged: EntryIds = NO_IDS
    nets: int = 0
    sums: dict[SumPlace, Sum] = field(default_factory=dict)
    copies: dict[SumPlace, int] = field(default_factory=dict)
    accounts_bytes: int = 0
    is_damaged: bool = False
    counts: bool = False
    shown: IndexState = ONLY_LISTED
    signers: list[str] = field(default_factory=list)
    control: list[Item] = field(default_factory=list)

    def add_entries(self, sort_keys: Sequence[str]) -> None:
        """Add the keys of entries, and of foreign items."""
        room = KEYS_MAX - len(self.entries)
        if len(sort_keys) <= room:
            self.entries += sort_keys
            return
        self.entries += sort_keys[:room]
        self.more += sum(key < self.settled for key in sort_keys[room:])

    def add_all(self, items: Sequence[Item]) -> None:
        """Add items, nearly all of which are entries with few differences."""
        sort_keys = [item["sk"]["S"] for item in items]
        entries = items
        if max(sort_keys, default="") >= keys.RESERVED:
            sort_keys = [key for key in sort_keys if key < keys.RESERVED]
            entries = [item for item in items if item["sk"]["S"] < keys.RESERVED]
            for item in items:
                if item["sk"]["S"] >= keys.RESERVED:
                    self._add_reserved(item)
        self.add_entries(sort_keys)
        self._add_changes([item["change"].get("N", "") for item in entries if "change" in item])

    def _add_changes(self, texts: Sequence[str]) -> None:
        """Add the changes of entries, and of foreign items; of damaged ones anything."""
        self.counts = self.counts or bool(texts)
        self.changes += texts
        if len(self.changes) > KEYS_MAX and not self.is_damaged:
            self.changes = [
                amounts.as_written(amounts.total_wide(map(amounts.of_text, self.changes)))
            ]

    def _add_reserved(self, item: Item) -> None:
        """Add a net, a sum, or another item whose sort key is not an entry's."""
        sort_key = item["sk"]["S"]
        try:
            if sort_key.startswith(keys.NET_PREFIX):
                self.nets += 1
                self._add_net(item)
            elif sort_key.startswith(SUM_PREFIX):
                self.counts = True
                place, is_copy, found = sum_of(item)
                self.sums[place] = newer(self.sums.get(place), found)
                if is_copy:
                    self.copies[place] = found.version
            elif "change" in item:
                self._add_changes([item["change"].get("N", "")])
        except DamagedItem:
            self.is_damaged = True

    def _add_net(self, item: Item) -> None:
        """Add a net change; the last is of the highest generation.

        Raises:
            DamagedItem: it cannot be read whole.
        """
        net = net_of(item)
        self.net = item["change"]["N"]
        self.merged = EntryIds.of(net.merged)
        self.accounts_bytes = accounts_size(net)
        self.signers.append(signer_of(item))
        self.shown = IndexState.of(net)
        # A net of nothing records what has settled of a counter that was only asked about.
        self.counts = self.counts or net.count > 0

    def backlog(self, rules: MergeRules) -> Backlog:
        """Return the settled entries that are to be merged and that no net counts."""
        if not self.entries or not rules.merges(self.partition):
            return NO_BACKLOG
        settled = self.settled
        found = [key for key in self.entries if key < settled]
        if self.merged:
            named = frozenset(self.merged.sort_keys)
            found = [key for key in found if key not in named]
        ours = ids.ours(sorted(found))  # already sorted, within a page
        return Backlog(len(ours) + self.more, ours[0] if ours else None)

    def ripens(self, backlog: Backlog, rules: MergeRules, *, now: datetime) -> datetime | None:
        """Return when the youngest entry was made, if a visit finds work once that has settled.

        Of a collection that is not due: no net names an entry that is shown. `backlog` is the
        collection's.
        """
        count = len(self.entries)
        if count <= backlog.entries or not rules.merges(self.partition):
            return None
        later = now + timedelta(seconds=rules.settle)
        # Foreign keys are not told apart here: at worst a visit finds nothing to do.
        if not self._is_worthwhile(Backlog(count, min(self.entries)), rules, now=later):
            return None
        youngest = ids.parse(max(self.entries))
        # Of a clock that is ahead: as if it were made now.
        return now if youngest is None else min(now, youngest.at)

    def is_due(self, backlog: Backlog, rules: MergeRules, *, now: datetime) -> bool:
        """Return whether a visit would find something to do: fold, delete, drop ids, or report.

        Of several nets all but the last are outdated: one that a lost region wrote may arrive once
        its collection is quiet, as may its additions to a sum. `backlog` is the collection's.
        """
        return (
            self.is_damaged
            or self.shown.generation > rules.generation
            or self.nets > 1
            or self.more > 0
            or self._is_to_be_copied(rules)
            or len(self.merged) >= rules.prune_min
            or self._shows_merged()
            or self._is_worthwhile(backlog, rules, now=now)
            or not self._fits()
        )

    def _is_worthwhile(self, backlog: Backlog, rules: MergeRules, *, now: datetime) -> bool:
        return is_worthwhile(
            settled=backlog.entries,
            oldest=backlog.oldest,
            rules=rules,
            now=now,
            accounts_bytes=self.accounts_bytes,
        )

    def _fits(self) -> bool:
        """Return whether the total fits in 38 digits, where each entry shown is to be counted."""
        sums = [amounts.as_written(each.value) for each in self.sums.values()]
        return amounts.fits([*self.changes, self.net, *sums])

    def _shows_merged(self) -> bool:
        """Return whether an entry is there that the net names: it is to be deleted."""
        if not self.entries or not self.merged:
            return False
        return not set(self.entries).isdisjoint(self.merged.sort_keys)

    def _is_to_be_copied(self, rules: MergeRules) -> bool:
        return any(
            rules.is_over(place) and self.copies.get(place, 0) < found.version
            for place, found in self.sums.items()
        )
