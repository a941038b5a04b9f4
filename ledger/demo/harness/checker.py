"""The checker of tagged totals: knows every call and every read, and nothing of the table.

An adapter reports when a call begins and how it ended, when a read begins and what it returned, on
one clock. The checker compares them with the promises of `ledger/docs/internals/README.md`:

- P1: a total counts each change at most once, none that was never called for, and every one that
  was known in its region when the read began (less its staleness): acknowledged there, or returned
  there by an earlier read.
- P2, P3 at rest: all regions show the same changes, among them every acknowledged one, and none
  that every call reported as not written. An unknown change is there once or not at all.
- After a region was lost for good: what it alone acknowledged and showed may be missing, in all.
- P5: a change called for several times is counted once, and a call past the horizon is refused.

Pure: no clock, no randomness, no I/O.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

from ledger.demo.harness.digit_tags import TaggedChange, describe_counts, digits

Outcome = Literal["acknowledged", "unknown", "refused", "late"]
"""How a call for a change ended; `late`: refused because the retry horizon had passed."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that did not hold, and all that was known of its counter."""

    rule: str
    text: str
    counter: str = ""
    known: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.rule} broken: {self.text}"


@dataclass(frozen=True, slots=True)
class Read:
    """A read that has begun, and the changes that it must count."""

    kind: str
    region: str
    counter: str
    at: float
    expected: frozenset[int]


@dataclass(slots=True)
class _Change:
    """The calls for one change."""

    calls: int = 0
    open: int = 0
    outcomes: list[tuple[float, str, Outcome]] = field(default_factory=list)

    @property
    def state(self) -> Outcome | Literal["open"]:
        """What is known of it by all its calls together."""
        seen = {outcome for _, _, outcome in self.outcomes}
        if "acknowledged" in seen:
            return "acknowledged"
        if self.open:
            return "open"
        return "unknown" if "unknown" in seen else "refused"


class TaggedChecker:
    """Checks one run; times are seconds since it began, by one monotonic clock."""

    def __init__(self) -> None:
        self.reads: Counter[str] = Counter()
        self._changes: dict[str, dict[int, _Change]] = {}
        self._tally: Counter[str] = Counter()
        self._known_in: dict[tuple[str, str], dict[int, float]] = {}
        self._lost: set[str] = set()
        self.lost_changes = 0

    @property
    def has_lost(self) -> bool:
        """Whether a region was lost for good: then regions agree once everything is merged."""
        return bool(self._lost)

    @property
    def counters(self) -> list[str]:
        """Every counter that was called for."""
        return list(self._changes)

    def tally(self) -> Counter[str]:
        """Count the changes by what is known of them: acknowledged, unknown, refused, open."""
        return +self._tally

    def acknowledged(self) -> list[TaggedChange]:
        """Return the changes that were acknowledged."""
        return [
            (counter, number)
            for counter, changes in self._changes.items()
            for number, change in changes.items()
            if change.state == "acknowledged"
        ]

    # Calls.

    def begin_call(self, changes: Iterable[TaggedChange]) -> None:
        """Record that a call for these changes is about to be made."""
        for counter, number in changes:
            change = self._changes.setdefault(counter, {}).setdefault(number, _Change())
            if change.calls:
                self._tally[change.state] -= 1
            change.calls += 1
            change.open += 1
            self._tally[change.state] += 1

    def end_call(
        self, region: str, changes: Iterable[TaggedChange], outcome: Outcome, *, at: float
    ) -> None:
        """Record how a call for these changes ended in a region."""
        for counter, number in changes:
            change = self._changes[counter][number]
            self._tally[change.state] -= 1
            change.open -= 1
            change.outcomes.append((at, region, outcome))
            self._tally[change.state] += 1
            if outcome == "acknowledged":
                self._known_in.setdefault((region, counter), {}).setdefault(number, at)

    def check_repeat(
        self, region: str, change: TaggedChange, outcome: Outcome, *, age: float, horizon: float
    ) -> Violation | None:
        """Check the outcome of a call made when its id was `age` seconds old.

        By a clock that is off it is refused without a look at the horizon.
        """
        if age <= horizon or outcome in {"late", "refused"}:
            return None
        counter, number = change
        text = f"change {number} of {counter}, {age:.2f} s old, is {outcome} in {region}"
        return self.violation("P5", f"{text} past the horizon of {horizon:g} s", counter)

    def lose(self, region: str) -> None:
        """Record that a region is lost for good: what it alone acknowledged may be lost with it.

        At rest all other regions count such a change, or none does.
        """
        self._lost.add(region)

    # Reads.

    def begin_read(
        self, kind: str, region: str, counter: str, *, at: float, staleness: float = 0.0
    ) -> Read:
        """Record that a read begins, which may return what held this many seconds before."""
        known = self._known_in.get((region, counter), {})
        expected = frozenset(number for number, since in known.items() if since <= at - staleness)
        return Read(kind, region, counter, at, expected)

    def end_read(self, read: Read, total: Decimal, *, at: float) -> Violation | None:
        """Check what a read returned; what it rightly counts must be counted there ever after."""
        self.reads[read.kind] += 1
        counted = digits(total)
        found = self._complaint(read.counter, counted, read.expected)
        if found is not None:
            rule, complaint = found
            timing = f"began at {read.at:.3f} s, ended at {at:.3f} s"
            sets = f"had to count {sorted(read.expected)}, counts {sorted(counted)}"
            text = f"{read.kind} read of {read.counter} in {read.region} shows {total}: {complaint}"
            return self.violation(rule, text, read.counter, f"{timing}; {sets}")
        known = self._known_in.setdefault((read.region, read.counter), {})
        for number in counted:
            known.setdefault(number, at)
        return None

    def check_rest(self, shown: Mapping[str, Mapping[str, Decimal]]) -> Iterator[Violation]:
        """Check the totals by region and counter once everything has arrived everywhere.

        `lost_changes` are then those that were acknowledged and are counted nowhere. What is called
        for while the totals are read is in none of them, and is not checked.
        """
        self.lost_changes = 0
        kept = {region for region, _ in self._known_in} - self._lost
        read = set[str]().union(*shown.values())
        for counter in sorted(read & self._changes.keys()):
            changes = self._changes[counter]
            totals = {region: shown[region][counter] for region in shown}
            shows = ", ".join(f"{region} shows {total}" for region, total in totals.items())
            if len(set(totals.values())) > 1:
                text = f"{counter} differs between regions at rest"
                yield self.violation("P2", text, counter, shows)
            owed = frozenset(
                number
                for number, change in changes.items()
                if change.state == "acknowledged" and self._is_known(kept, counter, number)
            )
            counted = frozenset().union(*(digits(total) for total in totals.values()))
            self.lost_changes += sum(
                change.state == "acknowledged" and number not in counted
                for number, change in changes.items()
            )
            for region, total in totals.items():
                found = self._complaint(counter, digits(total), owed, lost="P3")
                if found is not None:
                    text = f"{counter} in {region} ends with {total}: {found[1]}"
                    yield self.violation(found[0], text, counter, shows)

    def _is_known(self, regions: Iterable[str], counter: str, number: int) -> bool:
        """Whether a change is known in one of these regions."""
        return any(number in self._known_in.get((region, counter), ()) for region in regions)

    def violation(self, rule: str, text: str, counter: str, *known: str) -> Violation:
        """Return a broken promise with all that is known of its counter."""
        return Violation(rule, text, counter, (*known, *self._history(counter)))

    def _history(self, counter: str) -> Iterator[str]:
        """Yield a line for each change of a counter."""
        for number, change in sorted(self._changes.get(counter, {}).items()):
            outcomes = [f"{what} by {region} at {at:.3f} s" for at, region, what in change.outcomes]
            known = [
                f"{region} since {since[number]:.3f} s"
                for (region, name), since in self._known_in.items()
                if name == counter and number in since
            ]
            yield (
                f"change {number}: called {change.calls} times, {change.open} open,"
                f" {', '.join(outcomes) or 'no answer'}; known in {', '.join(known) or 'no region'}"
            )

    def _complaint(
        self, counter: str, counted: Mapping[int, int], owed: frozenset[int], *, lost: str = "P1"
    ) -> tuple[str, str] | None:
        """Return the rule that a total breaks, and how; None if it is right.

        A change counted twice breaks P5 if it was called for twice, else P1.
        """
        changes = self._changes.get(counter, {})
        often = {number: times for number, times in counted.items() if times > 1 or number < 0}
        if often:
            repeated = all(number in changes and changes[number].calls > 1 for number in often)
            return "P5" if repeated else "P1", describe_counts(often)
        if uncalled := counted.keys() - changes.keys():
            return "P1", f"change {min(uncalled)} was never called for"
        if missing := owed - counted.keys():
            return lost, f"change {min(missing)} is not counted"
        refused = [number for number in counted if changes[number].state == "refused"]
        if refused:
            return "P3", f"change {min(refused)} was refused, and written"
        return None
