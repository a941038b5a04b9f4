"""The auditor from outside: knows every call and every read, and nothing of the table; pure.

It is told when a call begins and what came of it, when a read begins and what it showed, on one
clock, and judges by the promises of `ledger/ARCHITECTURE.md`:

- P1: a total counts each change at most once, none that nobody called for, and every one that was
  known in its region when the read began (less its staleness): acknowledged there, or shown there
  by an earlier read.
- P2, P3 at rest: all regions show the same changes, among them every acknowledged one, and none of
  which every call said that nothing was written. An unknown change is there once or not at all.
- P5: a change called for several times is counted once, and a call past the horizon is refused.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

from ledger.lab.harness.tagged import digits, told

Outcome = Literal["acknowledged", "unknown", "refused", "late"]
"""What came of a call for a change; `late`: refused because the retry horizon had passed."""
Place = tuple[str, int]
"""A change: its counter and its number there."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """A promise that did not hold, and all that was known of it."""

    rule: str
    text: str
    counter: str = ""
    knew: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.rule} broken: {self.text}"


@dataclass(frozen=True, slots=True)
class Asked:
    """A read that has begun: what it must count at least."""

    kind: str
    region: str
    counter: str
    at: float
    least: frozenset[int]


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


class Judge:
    """Judges one run; times are seconds since it began, by one monotonic clock."""

    def __init__(self, regions: Sequence[str]) -> None:
        self.reads: Counter[str] = Counter()
        self._regions = tuple(regions)
        self._changes: dict[str, dict[int, _Change]] = {}
        self._known_in: dict[tuple[str, str], dict[int, float]] = {}

    @property
    def counters(self) -> list[str]:
        """Every counter that was called for."""
        return list(self._changes)

    def tally(self) -> Counter[str]:
        """Count the changes by what is known of them: acknowledged, unknown, refused, open."""
        return Counter(change.state for _, change in self._all())

    def called(self, changes: Iterable[Place]) -> None:
        """Note that a call for these changes is about to be made."""
        for counter, number in changes:
            change = self._changes.setdefault(counter, {}).setdefault(number, _Change())
            change.calls += 1
            change.open += 1

    def ended(self, region: str, changes: Iterable[Place], outcome: Outcome, *, at: float) -> None:
        """Note what came of a call for these changes in a region."""
        for counter, number in changes:
            change = self._changes[counter][number]
            change.open -= 1
            change.outcomes.append((at, region, outcome))
            if outcome == "acknowledged":
                self._known_in.setdefault((region, counter), {}).setdefault(number, at)

    def repeated(
        self, region: str, change: Place, outcome: Outcome, *, age: float, horizon: float
    ) -> Wrong | None:
        """Judge the answer to a call made when its id was `age` seconds old."""
        if age <= horizon or outcome == "late":
            return None
        counter, number = change
        text = f"change {number} of {counter}, {age:.2f} s old, is {outcome} in {region}"
        return Wrong(
            "P5", f"{text} past the horizon of {horizon:g} s", counter, self.knows(counter)
        )

    def asked(
        self, kind: str, region: str, counter: str, *, at: float, staleness: float = 0.0
    ) -> Asked:
        """Note that a read begins, which may show what held this many seconds before."""
        known = self._known_in.get((region, counter), {})
        least = frozenset(number for number, since in known.items() if since <= at - staleness)
        return Asked(kind, region, counter, at, least)

    def answered(self, asked: Asked, total: Decimal, *, at: float) -> Wrong | None:
        """Judge what a read showed; what it rightly counts must be counted there ever after."""
        self.reads[asked.kind] += 1
        counted = digits(total)
        found = self._complaint(asked.counter, counted, asked.least)
        if found is not None:
            rule, complaint = found
            text = f"{asked.kind} read of {asked.counter} in {asked.region} shows {total}"
            asked_for = f"asked at {asked.at:.3f} s, answered at {at:.3f} s; had to count"
            least = f"{asked_for} {sorted(asked.least)}, counts {sorted(counted)}"
            knew = (least, *self.knows(asked.counter))
            return Wrong(rule, f"{text}: {complaint}", asked.counter, knew)
        known = self._known_in.setdefault((asked.region, asked.counter), {})
        for number in counted:
            known.setdefault(number, at)
        return None

    def at_rest(self, shown: Mapping[str, Mapping[str, Decimal]]) -> Iterator[Wrong]:
        """Judge the totals of all counters by region once everything has arrived everywhere."""
        for counter, changes in self._changes.items():
            totals = {region: shown[region][counter] for region in self._regions}
            shows = ", ".join(f"{region} shows {total}" for region, total in totals.items())
            knew = (shows, *self.knows(counter))
            if len(set(totals.values())) > 1:
                yield Wrong("P2", f"{counter} differs between regions at rest", counter, knew)
            owed = frozenset(n for n, change in changes.items() if change.state == "acknowledged")
            for region, total in totals.items():
                found = self._complaint(counter, digits(total), owed, lost="P3")
                if found is not None:
                    text = f"{counter} in {region} ends with {total}: {found[1]}"
                    yield Wrong(found[0], text, counter, knew)

    def knows(self, counter: str) -> tuple[str, ...]:
        """Return all that is known of a counter's changes, a line each."""
        lines = []
        for number, change in sorted(self._changes.get(counter, {}).items()):
            outcomes = [f"{what} by {region} at {at:.3f} s" for at, region, what in change.outcomes]
            known = [
                f"{region} since {self._known_in[region, counter][number]:.3f} s"
                for region in self._regions
                if number in self._known_in.get((region, counter), {})
            ]
            lines.append(
                f"change {number}: called {change.calls} times, {change.open} open,"
                f" {', '.join(outcomes) or 'no answer'}; known in {', '.join(known) or 'no region'}"
            )
        return tuple(lines)

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
            return "P5" if repeated else "P1", told(often)
        uncalled = counted.keys() - changes.keys()
        if uncalled:
            return "P1", f"change {min(uncalled)} was never called for"
        missing = owed - counted.keys()
        if missing:
            return lost, f"change {min(missing)} is not counted"
        refused = [number for number in counted if changes[number].state == "refused"]
        if refused:
            return "P3", f"change {min(refused)} was refused, and written"
        return None

    def _all(self) -> Iterator[tuple[Place, _Change]]:
        for counter, changes in self._changes.items():
            for number, change in changes.items():
                yield (counter, number), change
