"""The decision on one collection, from what every region showed.

The rules, and what breaks without each (`ledger/docs/internals/merge.md`):

- *committed*: every region shows the net at the version that was read first. One uncommitted
  version at a time; deleted earlier, an entry vanishes where the net has not arrived.
- *candidates* are visible in all regions with the same change: an entry that reaches a region
  after its net's list of ids was dropped is counted twice.
- *gone* is what no region shows any more: an id dropped while one region still shows the entry
  is counted twice there.
- *settled*: older than `settle`, when no retry of it can arrive any more.
- *closed*: of a counter with a budget an entry waits until every region shows each grant that it
  names as closed. A process that closes a grant by reading has to find all its entries, and while
  one region does not know that it is closed the rights of a region that is lost are counted by
  them.
- *recorded*: an entry that a call makes once (`ledger.core.once`) waits until every region shows
  its record. Merged earlier, where the record is late or lost nothing leads to the entry any more,
  and a repeat of the call makes another.
- *remembered* are the ids that a lost region may have written: each repeat of a write there had its
  own stamp, and one still in flight may be newer than the delete. Its id is forgotten a day after
  the region was given up, or the entry would come back and count twice.

Any committed net may be folded on, whichever home wrote it: the contract decides which home writes,
and only one version is ever under way. So a move of home touches no collection.

No plan changes what a reader sees: the net grows by exactly the entries that it names.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import lru_cache, partial

from ledger.budgets.rights import Holder
from ledger.budgets.spend_record import View, may_fold, spend_of
from ledger.core import amounts, books, ids, keys, periods
from ledger.core.budget_rules import budget_in
from ledger.core.contract import REMEMBERED_SECONDS, matches_any
from ledger.core.entry import Item
from ledger.core.errors import AmountOverflow
from ledger.core.fold import ATTRIBUTES, DATED, LEGS, Collection, named_by, stamp_of
from ledger.core.ids import MICROSECOND, EntryIds
from ledger.core.periods import PeriodRule
from ledger.core.sums import SumPlace
from ledger.core.values import NetChange
from ledger.settings.groups import FOLD_MAX_LIMIT

NAMED_MAX = FOLD_MAX_LIMIT
"""How many ids a net may name, the remembered ones included: as many as fit in an item."""
PERIODS_IDS = 2 * periods.BYTES_MAX // ids.PACKED_BYTES
"""How many ids fewer it names if it has sums by period, of two axes."""
ARCHIVE_IDS = 64
"""How many ids fewer it names if its entries are archived: 1 KB, for 4 ** 16 segments."""
ACCOUNTS_IDS = books.ACCOUNTS_BYTES_MAX // ids.PACKED_BYTES
"""How many ids fewer it names if it is a book's: its accounts have that room."""
BOOK_FULL = "the book is full"
"""Why nothing is folded if too few transfers are left whose accounts fit in the net."""
TOO_FEW = "too few entries"
"""Why nothing more is done if a fold would not be worth its cost."""
TIMES_KEPT = 64
"""How many bounds of time are cached: a search asks for the same one with each collection."""
UNDELETED_SECONDS = 3_600.0
"""How much older than `settle` an entry is whose delete counts as lost; merging may be late."""


@dataclass(frozen=True, slots=True)
class MergeRules:
    """The settings that a plan depends on; durations in seconds, see `ledger.settings.model`.

    `generation` is the table's: a collection's first net is made with it. Ids up to `given_up` may
    have been written by a region that is lost; None if none is. Counters that match a pattern of
    `unmerged` are not folded; earlier folds are finished. `epochs` has those of the
    regions, in a table that lost one. `periods` has the rules of sums by period, by pattern.
    `is_archived` if folded entries go into an archive first. Counters that match a pattern of
    `index` are listed in the index, those that match one of `budgets` have a budget: its grants are
    over `grant_late` after they expire. `is_signed` if nets are, so that a search checks them, too.
    """

    home: str
    settle: float
    fold_max: int
    fold_min: int
    fold_age: float
    prune_min: int
    generation: int = 1
    given_up: datetime | None = None
    unmerged: tuple[str, ...] = ()
    epochs: Mapping[str, int] | None = None
    periods: Mapping[str, PeriodRule] = field(default_factory=dict)
    is_archived: bool = False
    index: tuple[str, ...] = ()
    budgets: tuple[str, ...] = ()
    grant_late: float = 0.0
    is_signed: bool = False

    def is_over(self, place: SumPlace | Holder) -> bool:
        """Return whether its region is lost, or has begun another epoch: a sum may be copied."""
        if self.epochs is None:
            return False
        epoch = self.epochs.get(place.region)
        return epoch is None or place.epoch < epoch

    def merges(self, partition: str) -> bool:
        """Return whether entries of this collection may be merged, by its counter."""
        if not self.unmerged:
            return True
        place = keys.counter_of(partition)
        return place is None or not matches_any(place[0], self.unmerged)

    def indexes(self, partition: str) -> bool:
        """Return whether the index lists this collection, by its counter."""
        place = keys.counter_of(partition) if self.index else None
        return place is not None and matches_any(place[0], self.index)

    def has_budget(self, partition: str) -> bool:
        """Return whether the counter that this collection is of has a budget."""
        place = keys.counter_of(partition) if self.budgets else None
        return place is not None and (
            matches_any(place[0], self.budgets) or matches_any(budget_in(place[0]), self.budgets)
        )

    def needs_items(self, partition: str) -> bool:
        """Return whether a fold depends on all that entries say: it is archived, or grants paid."""
        return self.is_archived or self.has_budget(partition)

    def periods_of(self, partition: str) -> PeriodRule | None:
        """Return the rule of a collection's sums by period, None if none are kept."""
        place = keys.counter_of(partition) if self.periods else None
        return None if place is None else periods.rule_of(self.periods, place[0])

    def needs_dates(self, partition: str) -> bool:
        """Return whether a fold depends on the dates from which entries are effective."""
        rule = self.periods_of(partition)
        return rule is not None and rule.effective

    @property
    def attributes(self) -> Sequence[str]:
        """The attributes of items that a search reads; none for all of them.

        Where there are budgets an entry and a control item say much besides its change.
        """
        if self.budgets or self.is_archived:
            return ()
        is_dated = any(rule.effective for rule in self.periods.values())
        return ("pk", *(DATED if is_dated else ATTRIBUTES), LEGS)


@dataclass(frozen=True, slots=True)
class Observation:
    """One collection as seen: the net of the home region first, then every region's whole view.

    `net` must have been read, strongly consistent, before any of the `views`: read after the
    entries, a stalled leader would add entries that another's fold already counts. `rights` has
    what each region showed, after the views were read, of the budgets that the entries name;
    `recorded` the sort keys of the entries at home whose record each region showed then.
    """

    partition: str
    net: NetChange | None
    views: Mapping[str, Collection]
    rights: Mapping[str, View] = field(default_factory=dict)
    recorded: Mapping[str, AbstractSet[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MergePlan:
    """What to do: sort keys to delete, and a net to replace the observed one.

    `folded` entries are new in the net; `waits` says why nothing more is done. `backlog` entries
    could be folded; `is_cut` if there was not room for all of them, and `left` is when the
    oldest was made that has to wait. `unclosed` settled entries that every region shows alike wait
    for a grant to be closed, or are holds that are open. `is_last` if, once this plan is
    carried out, nothing is left to do before other entries settle.
    """

    deletes: tuple[str, ...] = ()
    fold: NetChange | None = None
    folded: int = 0
    waits: str = ""
    backlog: int = 0
    is_cut: bool = False
    left: datetime | None = None
    unclosed: int = 0
    is_last: bool = False

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do."""
        return not self.deletes and self.fold is None


def plan_merge(
    observation: Observation, rules: MergeRules, *, now: datetime, version: str
) -> MergePlan:
    """Return what may be done on an observation that is `observation_delay` seconds old.

    `version` is the new net's, random, used for nothing else.

    Raises:
        AmountOverflow: too few entries are left to fold without those with which the sum would not
            fit in 38 digits; or, where there are too few and none to delete, that of all that home
            shows does not.
        DamagedItem: what an entry says of its grants cannot be read.
    """
    net = observation.net
    if not is_committed(observation):
        return MergePlan(waits="not committed")
    home = observation.views[rules.home]
    remembered = _remembered_below(rules, now=now)
    is_shown = any(view.sort_keys for view in observation.views.values())
    # If no region shows an entry any more, it does not matter which ids are named.
    named = named_by(net) if is_shown or remembered else ()
    at_home = home.sort_keys
    deletes = tuple([key for key in named if key in at_home])
    visible = _visible(named, observation.views)
    kept = [key for key in named if key in visible or key < remembered]
    named_count = len(net.merged) if net else 0
    gone = named_count - len(kept)
    found, unclosed = _candidates(observation, rules, now=now, room=len(at_home))
    open_ids = sum(key in visible for key in kept)
    rule = rules.periods_of(observation.partition)
    size = accounts_size(net)
    named_max = NAMED_MAX - (PERIODS_IDS if rule else 0)
    named_max -= ARCHIVE_IDS if rules.is_archived else 0
    named_max -= ACCOUNTS_IDS if size or home.legs else 0
    room = min(rules.fold_max - open_ids, named_max - len(kept))
    candidates = found[: max(0, room)]
    backlog, is_cut = len(found), len(found) > len(candidates)
    left = ids.moment_of(found[len(candidates)]) if is_cut else None
    waits, accounts = TOO_FEW, net.accounts if net else None
    is_enough = partial(_are_worthwhile, rules=rules, now=now, accounts_bytes=size)
    asked, candidates = candidates, ()
    if is_enough(asked):
        changes = [*zip(asked, home.changes_of(asked), strict=True)]
        try:
            fit, with_theirs = books.fitting(net, changes, home.legs or {}, is_enough)
            if is_enough(fit):
                candidates, accounts = fit, with_theirs
            else:
                waits = BOOK_FULL
        except AmountOverflow:
            if not deletes:  # they come first, and make room for entries that may come to less
                raise
        is_cut, left = len(found) > len(candidates), _oldest_but(candidates, found)
    if not candidates and gone < rules.prune_min:
        if not deletes:
            home.total()  # raises where a fold would have to leave the collection as it is
        forgotten_later = sum(key < remembered and key not in visible for key in named)
        still_open = named_count - forgotten_later
        return MergePlan(
            deletes=deletes,
            waits=waits,
            backlog=backlog,
            is_cut=is_cut,
            left=left,
            unclosed=unclosed,
            is_last=not deletes
            and still_open < rules.prune_min
            and not _is_waited_for(observation, rules, now=now),
        )
    fold = _folded(net, kept, candidates, home, rules=rules, version=version)
    if rule is not None:
        fold = replace(fold, periods=_periods(net, candidates, home, rule, now))
    if accounts is not None:
        fold = replace(fold, accounts=accounts)
    return MergePlan(
        deletes=deletes,
        fold=fold,
        folded=len(candidates),
        backlog=backlog,
        is_cut=is_cut,
        left=left,
        unclosed=unclosed,
        # A candidate is visible, and therefore still named later.
        is_last=not (candidates or open_ids) and not _is_waited_for(observation, rules, now=now),
    )


def _oldest_but(taken: Sequence[str], found: Sequence[str]) -> datetime | None:
    """Return when the oldest of these entries was made that is not taken; None if all are."""
    if len(taken) == len(found):
        return None
    chosen = {*taken}
    return ids.moment_of(next(key for key in found if key not in chosen))


def net_of_nothing(
    observation: Observation, rules: MergeRules, *, now: datetime, version: str
) -> NetChange:
    """Return the first net of a collection without one: it counts no entry yet."""
    home = observation.views[rules.home]
    fold = _folded(None, (), (), home, rules=rules, version=version)
    rule = rules.periods_of(observation.partition)
    return fold if rule is None else replace(fold, periods=_periods(None, (), home, rule, now))


def is_committed(observation: Observation) -> bool:
    """Return whether every region shows the net that was read first, or no region shows any."""
    expected = stamp_of(observation.net)
    return all(stamp_of(view.net) == expected for view in observation.views.values())


def is_worthwhile(
    *,
    settled: int,
    oldest: str | None,
    rules: MergeRules,
    now: datetime,
    accounts_bytes: int = 0,
) -> bool:
    """Return whether enough entries are settled, or one has waited long enough, for a fold.

    `oldest` is the sort key of the entry that waits longest, `accounts_bytes` the size of the
    accounts that each fold writes again.
    """
    if oldest is None:
        return False
    least = fold_least(rules, accounts_bytes)
    return settled >= least or oldest < older_than(rules.fold_age, now=now)


def _are_worthwhile(
    entries: Sequence[str], *, rules: MergeRules, now: datetime, accounts_bytes: int
) -> bool:
    oldest = min(entries, default=None)
    return is_worthwhile(
        settled=len(entries), oldest=oldest, rules=rules, now=now, accounts_bytes=accounts_bytes
    )


def fold_least(rules: MergeRules, accounts_bytes: int) -> int:
    """Return how many settled entries a fold takes at least, of accounts of this size."""
    of_size = accounts_bytes // books.ACCOUNTS_BYTES_A_FOLD
    return max(rules.fold_min, min(of_size, rules.fold_max))


def accounts_size(net: NetChange | None) -> int:
    """Return how many bytes the accounts of a net have; 0 if it is no book's."""
    return len(net.accounts) if net is not None and net.accounts is not None else 0


@lru_cache(TIMES_KEPT)
def older_than(seconds: float, *, now: datetime) -> str:
    """Return the sort key below which exactly the ids older than `seconds` are."""
    return ids.earliest(now - timedelta(seconds=seconds))


def undeleted(
    observation: Observation, rules: MergeRules, *, now: datetime
) -> Iterator[tuple[str, str]]:
    """Yield region and sort key of entries that the net names, and home deleted long ago.

    Home deletes an entry soon after its fold, and the delete usually arrives within a second. Where
    one is lost its id stays named for good: another region still shows the entry.
    """
    long_ago = older_than(rules.settle + UNDELETED_SECONDS, now=now)
    at_home = observation.views[rules.home].sort_keys
    named = [key for key in named_by(observation.net) if key < long_ago and key not in at_home]
    for region, view in observation.views.items():
        yield from ((region, key) for key in named if key in view.sort_keys)


def _visible(named: Sequence[str], views: Mapping[str, Collection]) -> AbstractSet[str]:
    """Return those of the named sort keys that any region shows."""
    return {key for view in views.values() for key in view.sort_keys & named}


def _remembered_below(rules: MergeRules, *, now: datetime) -> str:
    """Return the sort key below which a copy may still arrive from a lost region, with any stamp.

    Empty, so below every id, if there is none.
    """
    lost = rules.given_up
    if lost is None or now - lost > timedelta(seconds=REMEMBERED_SECONDS):
        return ""
    return ids.earliest(lost + MICROSECOND)


def _is_waited_for(observation: Observation, rules: MergeRules, *, now: datetime) -> bool:
    """Return whether the settled entries that any region shows would be worth a fold."""
    if not rules.merges(observation.partition):
        return False
    settled = older_than(rules.settle, now=now)
    shown = {key for view in observation.views.values() for key in view.sort_keys if key < settled}
    found = ids.ours(shown.difference(named_by(observation.net))) if shown else []
    size = accounts_size(observation.net)
    return _are_worthwhile(found, rules=rules, now=now, accounts_bytes=size)


def _candidates(
    observation: Observation, rules: MergeRules, *, now: datetime, room: int
) -> tuple[tuple[str, ...], int]:
    """Return up to `room` settled entries that every region shows alike, oldest first.

    And how many more there are whose grants are not closed.
    """
    if not rules.merges(observation.partition):
        return (), 0
    agreed = _agreed(observation, rules, now=now)
    unrecorded = _unrecorded(agreed, observation, rules)
    shown = [key for key in agreed if key not in unrecorded] if unrecorded else agreed
    found = _closed(shown, observation, rules)
    return tuple(found[: max(0, room)]), len(shown) - len(found)


def unrecorded(observation: Observation, rules: MergeRules, *, now: datetime) -> AbstractSet[str]:
    """Return the settled entries that every region shows alike, and whose record one does not."""
    if not observation.views[rules.home].records:
        return frozenset()
    return _unrecorded(_agreed(observation, rules, now=now), observation, rules)


def _agreed(observation: Observation, rules: MergeRules, *, now: datetime) -> list[str]:
    """Return the settled entries that the net does not name and every region shows alike."""
    settled = older_than(rules.settle, now=now)
    alike = observation.views[rules.home].alike(observation.views.values())
    named = frozenset(named_by(observation.net)) if alike else ()
    return ids.ours(sorted([key for key in alike if key < settled and key not in named]))


def _unrecorded(
    sort_keys: Sequence[str], observation: Observation, rules: MergeRules
) -> AbstractSet[str]:
    """Return those of these entries that wait for their record in a region."""
    records = observation.views[rules.home].records
    if not records:
        return frozenset()
    shown = [observation.recorded.get(region, ()) for region in observation.views]
    return {key for key in sort_keys if key in records and not all(key in one for one in shown)}


def _closed(sort_keys: list[str], observation: Observation, rules: MergeRules) -> list[str]:
    """Return the entries that wait for no grant; of a region whose rights are not known all do."""
    if not rules.has_budget(observation.partition):
        return sort_keys
    items = observation.views[rules.home].items or {}
    rights = {region: observation.rights.get(region, {}) for region in observation.views}
    return [key for key in sort_keys if key in items and _is_closed(items[key], rights)]


def _is_closed(item: Item, rights: Mapping[str, View]) -> bool:
    spend = spend_of(item)
    return spend is None or may_fold(spend, rights)


def _folded(
    net: NetChange | None,
    kept: Sequence[str],
    candidates: Sequence[str],
    home: Collection,
    *,
    rules: MergeRules,
    version: str,
) -> NetChange:
    before = net.change if net else Decimal(0)
    newest = candidates[-1] if candidates else ""
    return NetChange(
        change=amounts.total([before, home.sum_of(candidates)]),
        count=(net.count if net else 0) + len(candidates),
        merged=EntryIds.of_sort_keys([*kept, *candidates]),
        version=version,
        until=max(net.until if net else "", newest),
        home=rules.home,
        generation=net.generation if net else rules.generation,
        # Unchanged: the segment of this fold is added once it has a place in the archive.
        archive=net.archive if net and rules.is_archived else None,
    )


def _periods(
    net: NetChange | None,
    candidates: Sequence[str],
    home: Collection,
    rule: PeriodRule,
    now: datetime,
) -> str:
    """Return the sums by period of a net with these entries folded.

    Without a rule a net keeps none: they would be incomplete if there is one again.
    """
    kept = None if net is None or net.periods is None else periods.of_text(net.periods)
    count, until = (net.count, net.until) if net else (0, "")
    before = periods.begun(rule, kept, count=count, until=until)
    dates = home.dates or {}
    changes = zip(candidates, map(dates.get, candidates), home.changes_of(candidates), strict=True)
    return periods.to_text(before.folded([*changes], rule, now))
