"""The terms that must be equal in all processes of a table, and how they change (sans-io).

The table holds them in one item with a `revision` that grows by one at each write. A change of
terms has three steps, one change at a time, and any process may finish one that another began:

1. *announce*: the item gets an odd revision and holds the old terms and the new ones. Every process
   that knows it obeys `stricter(old, new)`.
2. *wait*: until every region has shown the announcement, and then `seconds_to_wait` more, counted
   by the process that finishes the change, from its own look at the last region.
3. *in force*: an even revision that holds only the new terms.

A request may be signed only while the view of the terms that it is based on is young (`Validity`).
So after the wait no request can be signed under only the old terms, and none that was signed can
still be accepted. A read obeys the shorter `read_deadline` of the terms known when it began and
when it ends, because plans made meanwhile were bound by the old terms.

`proof.simulator.explorer.terms` shows what breaks without each of these.

Pure: no clock, no randomness, no I/O.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from fnmatch import fnmatchcase, translate
from functools import lru_cache
from typing import Literal

from ledger.core.budget_rules import BudgetRule, budget_in
from ledger.core.periods import PeriodRule

CONTRACT_LIFE = 300.0
"""Seconds after the read of a view of the terms within which a request may be signed under it."""
REMEMBERED_SECONDS = 86_400.0
"""How long what a region wrote may still arrive, after it was given up or taken out."""
DURATIONS = (
    "settle",
    "retry_horizon",
    "signature_lifetime",
    "clock_skew",
    "observation_delay",
    "read_deadline",
    "contract_life",
)
"""The terms that are durations."""
LISTS_KEPT = 64
"""Lists of patterns in one process whose expression is kept."""
NO_HOME = ""
"""The home while it moves. No region has this name, so no compactor folds."""


@dataclass(frozen=True, slots=True)
class Validity:
    """The last moment at which a request may be signed under a view of the terms.

    `until` is by the wall clock, `elapsed_until` by a clock that counts suspension, in seconds:
    both must hold, so a clock that is set back does not extend it.
    """

    until: datetime
    elapsed_until: float

    @staticmethod
    def of_read(
        at: datetime, elapsed: float, *, contract_life: float = CONTRACT_LIFE
    ) -> "Validity":
        """Return the validity of a view whose read was sent, not answered, at these times."""
        return Validity(at + timedelta(seconds=contract_life), elapsed + contract_life)

    def is_over(self, signed: datetime, *, elapsed: float) -> bool:
        """Return whether a request is signed too late."""
        return signed > self.until or elapsed > self.elapsed_until


@dataclass(frozen=True, slots=True)
class ShardRule:
    """The number of shards of a counter from a time on; the first step of each has no `since`."""

    count: int
    since: datetime | None = None


Shards = Mapping[str, tuple[ShardRule, ...]]
"""The steps of the counters that match a pattern; the first pattern that matches applies."""

_ONE_SHARD = (ShardRule(1),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What must be equal in all processes of a table; durations in seconds.

    `regions` are observed by compactors; those in `closed` are not written to. `lost` lists the
    regions that are gone for good, given up or taken out: some of their last writes may be in one
    region, others under way, others nowhere. Each is named as often as that happened, since a
    region may be added again as a new replica; it last happened at `given_up_at`. `announced` are
    shards that a pending change brings: readers query them, writers do not use them. `unmerged` are
    patterns of counters whose entries are never merged, so that each stays to be read; `combine`
    of those whose plain changes may share an item; `periods` are the rules of sums by period, the
    first pattern that matches applies; `archive` the places where entries are kept before they are
    deleted, each of them whole; `index` are patterns of counters that can be listed by prefix;
    `budgets` are the rules of those that have a limit, the first pattern that matches counts, and
    none is ever taken back; `books` are patterns of counters that are books, and none of these is
    taken back either. `budgets_coming` are patterns of those that a pending change brings: no
    process spends by them, and compactors go by them already. `either` are the old and the new
    terms of a pending change. `home`, `closed`, `announced`, `budgets_coming` and `either` are
    `NO_HOME`, empty and None in terms that are in force, except that `home` is then a region.
    """

    format: int
    home: str
    regions: tuple[str, ...]
    settle: float
    retry_horizon: float
    signature_lifetime: float
    clock_skew: float
    observation_delay: float
    read_deadline: float
    contract_life: float = CONTRACT_LIFE
    shards: Shards = field(default_factory=dict)
    unmerged: tuple[str, ...] = ()
    combine: tuple[str, ...] = ()
    periods: Mapping[str, PeriodRule] = field(default_factory=dict)
    archive: tuple[str, ...] = ()
    index: tuple[str, ...] = ()
    budgets: Mapping[str, BudgetRule] = field(default_factory=dict)
    books: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    given_up_at: datetime | None = None
    generation: int = 1
    closed: tuple[str, ...] = ()
    announced: Shards | None = None
    budgets_coming: tuple[str, ...] = ()
    either: "tuple[Terms, Terms] | None" = None

    def longest(self, name: Literal["retry_horizon", "clock_skew", "contract_life"]) -> float:
        """Return the longest that a duration is for any process, in seconds.

        While a change is pending some go by the old terms and some by the new: by the shorter one
        bounds what one does itself, by the longer what others may do.
        """
        return max(float(getattr(terms, name)) for terms in (self, *(self.either or ())))

    @property
    def rolling_margin(self) -> float:
        """How long after its window an amount of a rolling limit is kept, in seconds.

        `ledger.budgets.rolling_limits` says why so long.
        """
        return self.longest("retry_horizon") + 4 * self.longest("clock_skew")

    @property
    def written(self) -> tuple[str, ...]:
        """The regions that may be written to."""
        return tuple(region for region in self.regions if region not in self.closed)

    @property
    def generation_max(self) -> int:
        """The highest generation of net changes that a region can show by these terms.

        While a region is about to go it is the coming one: nets of that generation are made as
        soon as that is in force, when a view of the announcement may still be in use. No view is
        older: each region showed the announcement before the wait began, and no view read more than
        `contract_life` ago is acted on.
        """
        return max(self.generation, 1 + len(self.lost))

    def epoch_of(self, region: str) -> int:
        """Return the epoch of a region: 1, and one more each time it was lost or taken out."""
        return 1 + self.lost.count(region)

    def is_over(self, region: str, epoch: int) -> bool:
        """Return whether nothing is written in this epoch of a region any more."""
        return region not in self.regions or epoch < self.epoch_of(region)

    def shards_read(self, counter: str) -> int:
        """Return how many shards a reader of a counter must query: the most ever in use."""
        if not (self.shards or self.announced):
            return 1
        steps = (*_steps(self.shards, counter), *_steps(self.announced or {}, counter))
        return max(step.count for step in steps)

    def is_unmerged(self, counter: str) -> bool:
        """Return whether the entries of a counter are never merged."""
        return matches_any(counter, self.unmerged)

    def is_book(self, counter: str) -> bool:
        """Return whether a counter is a book: its entries are transfers."""
        return matches_any(counter, self.books)

    @property
    def has_journals(self) -> bool:
        """Whether merged transfers are kept: without an archive a book has balances alone."""
        return bool(self.archive) or not self.books

    def book_pattern_of(self, counter: str) -> str | None:
        """Return the pattern of books that a counter matches first; None if there is none."""
        found = (pattern for pattern in self.books if fnmatchcase(counter, pattern))
        return next(found, None)

    def budget_of(self, counter: str) -> BudgetRule | None:
        """Return the rule of a counter's budget; None if no pattern has it."""
        pattern = self.budget_pattern_of(counter)
        return None if pattern is None else self.budgets[pattern]

    def takes_credits(self, counter: str) -> bool:
        """Return whether the pattern of a counter's budget has credits."""
        rule = self.budget_of(counter)
        return rule is not None and rule.credits

    def budget_pattern_of(self, counter: str) -> str | None:
        """Return the pattern of budgets that a counter matches first; None if there is none.

        The counter of a window matches by its budget's, too.
        """
        for pattern, rule in self.budgets.items():
            if fnmatchcase(counter, pattern):
                return pattern
            if rule.window != "none" and fnmatchcase(budget_in(counter), pattern):
                return pattern
        return None

    def shards_at(self, counter: str, at: datetime) -> int | None:
        """Return the number of shards for a keyed change whose id has this time.

        None if a pending change decides it: the change must be refused until that is in force, or
        two processes could put the same id into two shards.
        """
        count = _count_at(self.shards, counter, at)
        if self.announced is None or _count_at(self.announced, counter, at) == count:
            return count
        return None

    def shards_now(self, counter: str, now: datetime) -> int:
        """Return the number of shards for a change without a key: the newest in force."""
        return _count_at(self.shards, counter, now)


def matches_any(counter: str, patterns: tuple[str, ...]) -> bool:
    """Return whether a counter matches one of these patterns."""
    return bool(patterns) and _expression_of(patterns).match(counter) is not None


@lru_cache(LISTS_KEPT)  # a writer asks at each change
def _expression_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, patterns)))


def is_pending(revision: int) -> bool:
    """Return whether this revision of the contract announces a change (odd) or is in force."""
    return revision % 2 == 1


def stricter(old: Terms, new: Terms) -> Terms:
    """Return the terms to obey while a change from `old` to `new` is pending.

    A process that obeys them keeps every guarantee towards processes that know only the old terms
    and towards those that know that the new ones are in force. A relation between durations that
    holds in both (`settle` over retry horizon, signature lifetime and skew; `observation_delay`
    over `read_deadline`) holds in the result.
    """
    return replace(
        old,
        format=max(old.format, new.format),
        home=old.home if old.home == new.home else NO_HOME,
        regions=(*old.regions, *(region for region in new.regions if region not in old.regions)),
        settle=max(old.settle, new.settle),
        retry_horizon=min(old.retry_horizon, new.retry_horizon),
        signature_lifetime=max(old.signature_lifetime, new.signature_lifetime),
        clock_skew=min(old.clock_skew, new.clock_skew),
        observation_delay=max(old.observation_delay, new.observation_delay),
        read_deadline=min(old.read_deadline, new.read_deadline),
        contract_life=min(old.contract_life, new.contract_life),
        unmerged=tuple(dict.fromkeys((*old.unmerged, *new.unmerged))),
        # No guarantee depends on these two.
        combine=tuple(dict.fromkeys((*old.combine, *new.combine))),
        index=tuple(dict.fromkeys((*old.index, *new.index))),
        lost=(*max(old.lost, new.lost, key=len), *taken_out(old, new)),
        given_up_at=new.given_up_at or old.given_up_at,
        closed=_only_in_one(old, new),
        announced=None if new.shards == old.shards else new.shards,
        budgets_coming=tuple(pattern for pattern in new.budgets if pattern not in old.budgets),
        either=None if old == new else (old, new),
    )


def taken_out(old: Terms, new: Terms) -> tuple[str, ...]:
    """Return the regions that a change takes out while they work: they become lost with it."""
    given_up = new.lost[len(old.lost) :]
    out = (region for region in old.regions if region not in new.regions)
    return tuple(region for region in out if region not in given_up)


def parted(terms: Terms, regions: tuple[str, ...], at: datetime) -> Terms:
    """Return terms in which these regions are gone for good, each once more, since a moment."""
    return replace(terms, lost=(*terms.lost, *regions), given_up_at=at)


def seconds_to_wait(old: Terms, new: Terms, *, contract_life: float | None = None) -> float:
    """Return how long to wait, once every region showed the announcement, before it is in force.

    A view of the old terms is used for `contract_life` at most (by default the longer of both),
    and what is signed under it is accepted for the signature's lifetime after that, by clocks that
    differ by the skew. Beside a rolling limit a longer margin takes its difference, too: what came
    back by the old margin must not be spent again under the new, older keys.
    """
    if contract_life is None:
        contract_life = max(old.contract_life, new.contract_life)
    life = max(old.signature_lifetime, new.signature_lifetime)
    if any(rule.rolling for rule in new.budgets.values()):
        life = max(life, new.rolling_margin - old.rolling_margin)
    return contract_life + life + max(old.clock_skew, new.clock_skew)


def is_waited(
    old: Terms, new: Terms, *, looked_at: float, now: float, contract_life: float | None = None
) -> bool:
    """Return whether a pending change may be put in force by the calling process.

    `looked_at` is when this process began its own look at all regions, each of which showed the
    announcement. A look by another process does not count, nor does the time of the announcement.
    """
    return now - looked_at > seconds_to_wait(old, new, contract_life=contract_life)


def _only_in_one(old: Terms, new: Terms) -> tuple[str, ...]:
    """Return the regions that are not writable under both terms."""
    either = (*old.regions, *(region for region in new.regions if region not in old.regions))
    return tuple(
        region for region in either if region not in old.written or region not in new.written
    )


def _steps(shards: Shards, counter: str) -> tuple[ShardRule, ...]:
    for pattern, steps in shards.items():
        if fnmatchcase(counter, pattern):
            return steps
    return _ONE_SHARD


def _count_at(shards: Shards, counter: str, at: datetime) -> int:
    steps = _steps(shards, counter)
    return max(step.count for step in steps if step.since is None or step.since <= at)
