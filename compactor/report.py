"""The result of a pass, for callers, logs and the command line.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

QUARANTINED_MAX = 1_000
"""The most damaged collections that a report names, those with missing deletes, and full books."""
SENTENCE_MAX = 3
"""The most damaged collections that its sentence names."""


@dataclass(slots=True)
class CompactorReport:
    """One pass of the compactor.

    `led` is false when another instance holds the lease (`leader` names it) and nothing was done.
    `hints` counters were named by hints, read in `hint_pages`; `searched` is whether the table
    was searched as well, in `pages`. `due` collections were found so, `collections` of them were
    observed, `folds` nets written, which count `merged` more entries; `deleted` entries that a
    committed net counts were deleted; `lost_races` folds were rejected, or their outcome is
    unknown. `backlog` entries were settled and not merged when the pass began, as the search saw
    it, or without one the visits; the `oldest` of them was made at that time (ISO 8601, UTC), empty
    if none waits or there was no search. `nets_signed` is how many nets the search saw that each
    key has signed, by its name, which is empty for none; where nets are signed. `next_search` is
    when the search is due (ISO 8601, UTC) if it is not due yet: what no hint names is not visited
    before. Merging is `late` by this many seconds: the pass's own, or what the oldest entry has
    waited that had no room in the last fold of its collection. `damaged` collections hold an item
    that cannot be counted, and were left as they are; `quarantined` has why, by name, for the first
    `QUARANTINED_MAX` of them. `undeleted` entries of visited collections were deleted at home long
    ago, and another region still shows them: their deletes have not arrived, and their ids stay
    named; `undeleted_in` has one of them, by collection. `books_full` are collections of books
    whose transfers wait because their accounts have no room for more; `accounts_bytes` is the size
    of the largest that the search saw. `problems` are other errors of single collections;
    `unreadable` is a region that could not be read, so that merging waits, and `waits` says what
    else it waits for: a clock that is off, or replicas that are not those of the
    contract. `crossings` of watches were delivered. `archive_waits` folds were not sent, since the
    archive did not accept their entries.
    Of the budgets that the pass looked at `grants_open` grants were open at its end,
    `grants_waiting` of them are over and wait to be closed, `grants_closed` were closed by their
    entries; `holds_expired` were resolved, `let_through_charged` entries charged that no grant paid
    for, `transfers` of rights sent; `alarms` name grants that
    were used twice. `is_whole` is false if the pass was stopped, or its search was cut at
    `scan_pages_max`: the next one continues.
    """

    led: bool = True
    leader: str = ""
    epoch: int = 0
    collections: int = 0
    folds: int = 0
    merged: int = 0
    deleted: int = 0
    lost_races: int = 0
    backlog: int = 0
    late: float = 0.0
    due: int = 0
    pages: int = 0
    hints: int = 0
    hint_pages: int = 0
    searched: bool = False
    oldest: str = ""
    nets_signed: dict[str, int] = field(default_factory=dict)
    next_search: str = ""
    unreadable: str = ""
    waits: str = ""
    damaged: int = 0
    quarantined: dict[str, str] = field(default_factory=dict)
    undeleted: int = 0
    undeleted_in: dict[str, str] = field(default_factory=dict)
    books_full: list[str] = field(default_factory=list)
    accounts_bytes: int = 0
    problems: list[str] = field(default_factory=list)
    crossings: int = 0
    archive_waits: int = 0
    grants_open: int = 0
    grants_waiting: int = 0
    grants_closed: int = 0
    holds_expired: int = 0
    let_through_charged: int = 0
    transfers: int = 0
    alarms: list[str] = field(default_factory=list)
    is_whole: bool = True
    seconds: float = 0.0

    @property
    def is_success(self) -> bool:
        """Whether nothing but damage prevented merging, or another instance leads."""
        return not (self.unreadable or self.waits or self.problems)

    @property
    def hindrances(self) -> list[str]:
        """What prevented merging; of the problems of single collections the first."""
        unreadable = [f"region {self.unreadable} cannot be read"] if self.unreadable else []
        return [*unreadable, *filter(None, [self.waits]), *self.problems[:1]]

    @property
    def outcome(self) -> str:
        """How the pass ended: "done", "partial", "waiting", or with "problems" of collections."""
        if not self.is_success:
            return "waiting" if self.unreadable or self.waits else "problems"
        return "done" if self.is_whole else "partial"

    def quarantine(self, partition: str, reason: str) -> None:
        """Record that a collection is damaged, once."""
        if partition not in self.quarantined:
            self.damaged += 1
            if len(self.quarantined) < QUARANTINED_MAX:
                self.quarantined[partition] = reason

    def stays(self, partition: str, shown: Sequence[tuple[str, str]]) -> None:
        """Record entries by region and sort key whose deletes have not arrived, once."""
        if partition in self.undeleted_in or len(self.undeleted_in) == QUARANTINED_MAX:
            return
        region, key = shown[0]
        self.undeleted_in[partition] = f"{key!r} in {region}"
        self.undeleted += len(shown)

    def fills(self, partition: str) -> None:
        """Record a book that is full, once."""
        if partition not in self.books_full and len(self.books_full) < QUARANTINED_MAX:
            self.books_full.append(partition)

    @property
    def is_idle(self) -> bool:
        """Whether there was nothing to write."""
        merging = self.folds, self.deleted
        budgets = self.grants_closed, self.holds_expired, self.let_through_charged, self.transfers
        return self.led and not any((*merging, *budgets))

    def sentence(self) -> str:
        """Return the report in one line."""
        if not self.led and self.waits:
            return f"no leader elected: {self.waits}"
        if not self.led:
            return (
                f"another instance leads ({self.leader or 'lease just released'}); nothing was done"
            )
        done = (
            f"{self.collections:,} collections visited, {self.folds:,} folds,"
            f" {self.merged:,} entries merged, {self.deleted:,} deleted,"
            f" {self.backlog:,} pending at the start; {self.seconds:.1f} s"
        )
        parts = [done]
        if self.next_search:
            parts.append(f"the table is not searched before {self.next_search}")
        if self.crossings:
            parts.append(f"{self.crossings:,} crossings of watches delivered")
        parts += self._budgets()
        if self.unreadable:
            parts.append(f"region {self.unreadable} cannot be read, so merging waits")
        if self.waits:
            parts.append(f"merging waits: {self.waits}")
        parts += [self.damage()] * bool(self.damaged)
        parts += [self.deletes_missing()] * bool(self.undeleted)
        parts += [self.full()] * bool(self.books_full)
        if self.problems:
            parts.append(f"{len(self.problems)} collections skipped: {self.problems[0]}")
        if not self.is_whole:
            parts.append("stopped early; the next pass continues from here")
        return "; ".join(parts)

    def _budgets(self) -> list[str]:
        """Return what was done for budgets, a part each."""
        done = {
            "grants closed by their entries": self.grants_closed,
            "grants wait until all regions show their entries alike": self.grants_waiting,
            "expired holds resolved": self.holds_expired,
            "spends charged that an outage let through": self.let_through_charged,
            "transfers of rights": self.transfers,
        }
        return [*(f"{count:,} {what}" for what, count in done.items() if count), *self.alarms[:1]]

    def deletes_missing(self) -> str:
        """Return whose deletes have not arrived in a region, in one line; it names a few."""
        shown = [f"{name!r} shows {what}" for name, what in self.undeleted_in.items()]
        return (
            f"{self.undeleted:,} merged entries are deleted at home and shown elsewhere, so their"
            f" ids stay named: {'; '.join(shown[:SENTENCE_MAX])}"
        )

    def full(self) -> str:
        """Return which books are full, in one line; it names a few."""
        named = ", ".join(map(repr, self.books_full[:SENTENCE_MAX]))
        return (
            f"{len(self.books_full):,} full books, whose transfers stay unmerged until accounts are"
            f" brought to 0: {named}"
        )

    def damage(self) -> str:
        """Return what was left as damaged, in one line; it names the first collections."""
        shown = [f"{name!r}: {why}" for name, why in self.quarantined.items()][:SENTENCE_MAX]
        more = f"; and {self.damaged - len(shown):,} more" if self.damaged > len(shown) else ""
        return f"{self.damaged:,} damaged collections left as they are: {'; '.join(shown)}{more}"
