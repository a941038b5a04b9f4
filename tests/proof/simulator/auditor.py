"""The auditor: knows every change and where it has arrived, and what must hold of every total.

The world notifies it of every item that is written or arrives anywhere. It decodes items itself,
without the production fold, and generates nothing. Change number n of a counter adds 10 to the
power of n, so digit n of a total shows how often that change is counted.

- P1 after every step: each collection, as the region shows it, counts exactly what has reached
  the region, each change once. Every read of the production reader counts all that had reached the
  region when it began (less its staleness) and nothing that had not when it ended.
- P2, P4 at rest: all regions show the true sum, as one item per collection.
- P3: what was acknowledged is there when it is, and so, by P1 and P2, ever after.
- P5: no retry counts twice (P1), and past the horizon it is refused.
- Sums by period: see `period_audit`. The archive: see `archive`. The index: see `index_audit`.
  Budgets: see `budget_audit`. Reversals and counts: see `correction_audit`. Books: `book_audit`.
  A read of a counter's history shows what a read of its total counts. Each change by its id: see
  `part_audit`. Hints: see `hint_audit`.

Counters in `ignored` hold what cannot be counted (`stranger` judges their reads).

A region that is lost for good (`lost`) promises nothing any more, and P2 and P4 are of the others:
what was acknowledged in it and reached no other region is gone, and no total may show it; what
reached one of them must come to all, but for items of another tool, which are never put again. P1
is the same as ever: what a region shows is exactly what has reached it, whichever of its nets
counts by then.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from ledger.core import keys
from ledger.core.entry import Item, Key
from ledger.core.values import Entry
from ledger.demo.harness.digit_tags import CHANGES_MAX, describe_counts, digits
from ledger.reads.period_totals import PeriodTotals
from ledger.testing.replicas import Replicas
from proof.simulator.archive import ArchiveAudit
from proof.simulator.book_audit import BookAudit
from proof.simulator.budget_audit import NO_BUDGETS, BudgetAudit, BudgetRules
from proof.simulator.correction_audit import CorrectionAudit
from proof.simulator.hint_audit import HintAudit
from proof.simulator.index_audit import IndexAudit
from proof.simulator.part_audit import PartAudit
from proof.simulator.period_audit import PeriodAudit

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ID_CHARACTERS = 44
_NUMBERS = {10**number: number for number in range(CHANGES_MAX)}
UNEXPECTED = "unexpected error"


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken promise, or an unexpected error: which, where and when."""

    rule: str
    text: str
    at: float

    @property
    def is_error(self) -> bool:
        """Whether the program failed: no promise is broken by that."""
        return self.rule == UNEXPECTED

    def __str__(self) -> str:
        return f"{self.rule} broken at {self.at:.3f} s: {self.text}"


@dataclass(frozen=True, slots=True)
class PendingRead:
    """A read in flight, and the changes that it must count at least."""

    region: str
    counter: str
    least: frozenset[int]


class Auditor:
    """Checks one world; `violation` is the first one, at which `found` is called."""

    def __init__(
        self,
        world: Replicas,
        *,
        found: Callable[[], None],
        periods: PeriodAudit | None = None,
        archive: ArchiveAudit | None = None,
        index: IndexAudit | None = None,
        hints: HintAudit | None = None,
        budgets: BudgetRules = NO_BUDGETS,
        accounts_max: int = 0,
        now: Callable[[], float] = float,
    ) -> None:
        self.violation: Violation | None = None
        self.checks = 0
        self.reads = 0
        self.acknowledged = 0
        self._world = world
        self._found = found
        self._reached: dict[str, dict[str, dict[int, float]]] = {
            region: {} for region in world.replicas
        }
        self._expected: dict[tuple[str, str], int] = {}
        self._refused: list[tuple[str, int]] = []
        self.lost: set[str] = set()
        self.ignored: set[str] = set()
        self._foreign: set[tuple[str, int]] = set()
        self._packed: dict[str, bytes | None] = {}
        self._periods = periods
        self.archive = ArchiveAudit(keeps=False) if archive is None else archive
        self.index = IndexAudit() if index is None else index
        self.budgets = BudgetAudit(budgets, fail=self.fail, lost=self.lost, now=now)
        self.corrections = CorrectionAudit(self.fail, self.lost)
        self.books = BookAudit(self.fail, self.lost, now, accounts_max)
        self.parts = PartAudit()
        self._hints = HintAudit() if hints is None else hints
        world.observers.append(self)

    def arrived(self, region: str, key: Key, item: Item | None) -> None:
        """Register an item that has reached a region."""
        place = self._place(key[0])
        if place is not None and item is not None and "merged" not in item:
            self._reach(region, place[0], key[0], int(item["change"]["N"]))
            numbers, is_ours = [*digits(int(item["change"]["N"]))], self._pack(key[1]) is not None
            if not is_ours:
                self._foreign.update((place[0], number) for number in numbers)
            if self._periods is not None:
                self._periods.arrived(place[0], numbers, item, is_ours=is_ours)
            if said := self.archive.arrived(key[0], item):
                self.fail("P3", said)
            if said := self.parts.arrived(place[0], item, is_ours=is_ours):
                self.fail("parts", said)
        if item is not None and (said := self.index.arrived(region, item)):
            self.fail("index", said)
        self._hints.arrived(key, item)
        self.budgets.arrived(self._world, region, key, item)

    def changed(self, region: str, partition: str) -> None:
        """Check a collection that changed."""
        if self.violation is None and self._place(partition) is not None:
            self._check(region, partition)
        if said := self.index.changed(region, partition, self._items(region, partition)):
            self.fail("index", said)
        self.budgets.changed(region, partition, self._items(region, partition))
        self.corrections.changed(region, partition, self._items(region, partition))
        self.books.changed(region, partition, self._items(region, partition))

    def _place(self, partition: str) -> tuple[str, int] | None:
        """Return counter and shard of a collection; None for others, and for those `ignored`.

        Those of budgets are judged by `budgets`, those of reversals and counts by `corrections`.
        """
        place = keys.counter_of(partition)
        if place is None or self.is_apart(place[0]):
            return None
        return place

    def is_apart(self, counter: str) -> bool:
        """Return whether a counter's total does not show which changes it counts."""
        apart = self.budgets, self.corrections, self.books
        return counter in self.ignored or any(audit.has(counter) for audit in apart)

    def read_begins(self, region: str, counter: str, *, staleness: float) -> PendingRead:
        """Register the beginning of a read that may be this many seconds stale."""
        latest = self._world.time() - staleness
        reached = self._reached[region].get(counter, {})
        return PendingRead(
            region, counter, frozenset(number for number, at in reached.items() if at <= latest)
        )

    def read_ended(
        self, read: PendingRead, value: int, reader: str, *, steady: bool = False
    ) -> None:
        """Check the result of a read; a steady one must have been the total at one moment."""
        self.reads += 1
        counted = digits(value)
        who = f"{reader} reads {read.counter} in {read.region} as {value}"
        often = {number: times for number, times in counted.items() if times != 1}
        if often:
            self.fail("P1", f"{who}: {describe_counts(often)}")
            return
        missing = read.least - counted.keys()
        if missing:
            self.fail("P1", f"{who}: change {min(missing)} had reached it and is not counted")
        early = counted.keys() - self._reached[read.region].get(read.counter, {}).keys()
        if early:
            self.fail("P1", f"{who}: change {min(early)} has not reached it yet")
        elif steady:
            self._check_moment(read, counted.keys(), who)

    def periods_read(self, read: PendingRead, found: PeriodTotals, reader: str) -> None:
        """Check the result of a read of sums by period."""
        self.read_ended(read, int(found.total), f"{reader}, by {found.by},")
        if self._periods is not None and (said := self._periods.wrong_read(found)):
            self.fail("P1", f"{reader} reads {read.region} by {found.by}: {said}")

    def history_read(
        self, read: PendingRead, entries: Sequence[Entry], reader: str, *, after: str = ""
    ) -> None:
        """Check a counter's history after an id: each change once, those that had reached it.

        Of a table without an archive those that are still in it.
        """
        counter, region = read.counter, read.region
        least = read.least if self.archive.places else read.least & self._listed(region, counter)
        least = frozenset(
            number for number in least if not after or self.parts.id_of(counter, number) > after
        )
        who = f"{reader}, its history after {after!r},"
        read = replace(read, least=least)
        self.read_ended(read, sum(int(entry.change) for entry in entries), who)
        if said := self.parts.wrong_history(counter, entries, after):
            self.fail("parts", f"{who} reads {counter} in {region}: {said}")

    def _listed(self, region: str, counter: str) -> set[int]:
        """Return the changes of a counter whose entries a region shows."""
        return {
            number
            for shown, partition in self._expected
            if shown == region and (keys.counter_of(partition) or ("", 0))[0] == counter
            for item in self._items(region, partition).values()
            if "merged" not in item
            for number in digits(int(item["change"]["N"]))
        }

    def _check_moment(self, read: PendingRead, counted: AbstractSet[int], who: str) -> None:
        """Check that changes are all that had reached a region at some moment."""
        reached = self._reached[read.region].get(read.counter, {})
        latest = max((reached[number] for number in counted), default=-math.inf)
        for number, at in reached.items():
            if number not in counted and at < latest:
                self.fail("P1", f"{who}, steady: later changes are counted, change {number} is not")
                return

    def confirmed(self, region: str, counter: str, number: int) -> None:
        """Check that a change is durable in the region that acknowledges it."""
        self.acknowledged += 1
        if number not in self._reached[region].get(counter, {}):
            self.fail("P3", f"{region} acknowledges change {number} of {counter}: it is not there")

    def has_reached(self, region: str, changes: Sequence[tuple[str, int]]) -> bool:
        """Return whether changes have reached a region."""
        reached = self._reached[region]
        return all(number in reached.get(counter, {}) for counter, number in changes)

    def answered(self, region: str, entries: Sequence[Entry]) -> None:
        """Check the entries that callers are given: each has its own change, where that is."""
        if said := self.parts.wrong_answer(entries):
            self.fail("parts", f"{region}: {said}")
        self._hints.answered(entries)

    def refused(self, changes: Sequence[tuple[str, int]]) -> None:
        """Register changes that a call reported as not written; checked at rest."""
        self._refused.extend(changes)

    def fail(self, rule: str, text: str) -> None:
        """Report a violation; only the first is kept, and none once the world unwinds."""
        if self.violation is None and not self._world.is_over:
            self.violation = Violation(rule, text, self._world.time())
            self._world.note(lambda: f"*** {self.violation}")
            self._world.end_trace()
            self._found()

    def check_rest(self) -> None:
        """Check what must hold once everything has arrived and been merged: P2 and P4."""
        remaining = {name: here for name, here in self._reached.items() if name not in self.lost}
        counters = {counter for reached in remaining.values() for counter in reached}
        for counter in sorted(counters):
            numbers = [set(reached.get(counter, {})) for reached in remaining.values()]
            everywhere = set.union(*numbers)
            for region, here in zip(remaining, numbers, strict=True):
                absent = {
                    number
                    for number in everywhere - here
                    if not self.lost or (counter, number) not in self._foreign
                }
                if absent:
                    self.fail("P2", f"change {min(absent)} of {counter} never came to {region}")
        for counter, number in self._refused:
            if any(number in here.get(counter, {}) for here in self._reached.values()):
                self.fail("P3", f"change {number} of {counter} was refused, and written")
        for region, partition in self._remaining:
            expected = self._expected[region, partition]
            self._check(region, partition)
            self._check_small(region, partition, expected)
            self._check_index(region, partition)
        if said := self._hints.wrong_at_rest():
            self.fail("hints", said)
        self.budgets.check_rest(self._tables)
        self.corrections.check_rest(self._tables)
        self.books.check_rest(self._tables)

    def _check_index(self, region: str, partition: str) -> None:
        place, table = self._place(partition), self._world.replicas[region].table
        if self.index.is_kept and place is not None:
            said = self.index.wrong_at_rest(region, partition, place[0], table.partitions)
            if said:
                self.fail("index", said)

    def is_small(self) -> bool:
        """Return whether no region shows an entry that could be merged, or a net too many."""
        if any(self._entries(*place) or self._nets(*place) > 1 for place in self._remaining):
            return False
        if not (self.corrections.is_small(self._tables) and self.books.is_small(self._tables)):
            return False
        return not self.budgets.open_at_rest(self._tables)

    @property
    def _tables(self) -> Mapping[str, Mapping[str, Mapping[str, Item]]]:
        """What every region shows that is not lost, by partition and sort key."""
        replicas = self._world.replicas
        return {
            name: replica.table.partitions
            for name, replica in replicas.items()
            if name not in self.lost
        }

    def _nets(self, region: str, partition: str) -> int:
        return sum("merged" in item for item in self._items(region, partition).values())

    @property
    def _remaining(self) -> list[tuple[str, str]]:
        """Every collection of every region that is not lost."""
        return [place for place in self._expected if place[0] not in self.lost]

    def _check_small(self, region: str, partition: str, expected: int) -> None:
        left = self._entries(region, partition)
        if left:
            self.fail("P4", f"{region} {partition}: {len(left)} entries left, as {left[0]}")
        items = self._items(region, partition)
        nets = self._nets(region, partition)
        foreign = len(items) - nets - len(left)
        if nets != 1 and foreign < len(digits(expected)):
            self.fail("P4", f"{region} {partition}: {nets} net changes")

    def _entries(self, region: str, partition: str) -> list[str]:
        return [
            sort_key
            for sort_key, item in self._items(region, partition).items()
            if "merged" not in item and self._pack(sort_key) is not None
        ]

    def _items(self, region: str, partition: str) -> Mapping[str, Item]:
        return self._world.replicas[region].table.partitions.get(partition, {})

    def _reach(self, region: str, counter: str, partition: str, change: int) -> None:
        reached = self._reached[region].setdefault(counter, {})
        number = _NUMBERS.get(change)
        for digit in digits(change) if number is None else (number,):
            if digit not in reached:
                reached[digit] = self._world.time()
                place = (region, partition)
                self._expected[place] = self._expected.get(place, 0) + 10**digit

    def _check(self, region: str, partition: str) -> None:
        """Check that a region shows exactly what has reached it."""
        self.checks += 1
        total, merged = 0, frozenset[bytes]()
        items = self._items(region, partition)
        # Of the nets the one of the highest generation counts, whose sort key is the last.
        nets = [sort_key for sort_key, item in items.items() if "merged" in item]
        if nets:
            net = items[max(nets)]
            packed = net["merged"]["B"]
            merged = frozenset(packed[at : at + 16] for at in range(0, len(packed), 16))
            total = int(net["change"]["N"])
            self._check_periods(region, partition, net)
            if said := self.archive.wrong_net(partition, net):
                self.fail("P3", f"{region} shows {partition}: {said}")
        for sort_key, item in items.items():
            if "merged" not in item and self._pack(sort_key) not in merged:
                total += int(item["change"]["N"])
        expected = self._expected.get((region, partition), 0)
        if total != expected:
            shown, right = digits(total), digits(expected)
            wrong = {
                number: shown.get(number, 0)
                for number in range(CHANGES_MAX + 1)
                if shown.get(number, 0) != right.get(number, 0)
            }
            self.fail("P1", f"{region} shows {partition} as {total}: {describe_counts(wrong)}")

    def _check_periods(self, region: str, partition: str, net: Item) -> None:
        place = self._place(partition)
        said = (
            "" if self._periods is None or place is None else self._periods.wrong_net(place[0], net)
        )
        if said:
            self.fail("P1", f"{region} shows {partition}: {said}")

    def _pack(self, sort_key: str) -> bytes | None:
        """Return the 16 bytes that stand for a sort key in `merged`; None for a foreign one."""
        if sort_key not in self._packed:
            packed = None
            if len(sort_key) == _ID_CHARACTERS and sort_key[26:28] == "Z#":
                at = datetime.fromisoformat(f"{sort_key[:26]}+00:00")
                microseconds = (at - _EPOCH) // timedelta(microseconds=1)
                packed = microseconds.to_bytes(8, "big") + bytes.fromhex(sort_key[28:])
            self._packed[sort_key] = packed
        return self._packed[sort_key]
