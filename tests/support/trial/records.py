"""Records from a seed, and the totals that they must make: nothing of the pipeline is used here.

Rows of a real bank's statement become records: the transaction's number is the id, its account and
kind the categories. Versions correct them and move them, some to 0, some to 15 digits before and
after the point; lines come twice, late or malformed. Sums are fractions, the newest version of
each record counts once, under the categories that were in force when it was first sent.
"""

import csv
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from importlib.resources import files
from random import Random
from typing import Any

from support.trial.malformed import KINDS, encoded

DUPLICATE, LATE, MALFORMED = 0.05, 0.05, 0.03
CORRECTION, MOVE = 0.4, 0.3
LATE_LINES_MAX, RECENT = 400, 3_000
EXTREMES = (
    "0",
    "0.00",
    "-0",
    "999999999999999.999999999999999",
    "-999999999999999.999999999999999",
    "0.000000000000001",
    "-123456789012345.000000000000009",
)
FIELDS = {"id": "Row.Id", "version": "Row.Version", "value": "Amount"}


def rows() -> list[dict[str, str]]:
    """Return the real rows that the package carries."""
    place = files("ledger.demo") / "bank-changes.csv"
    return list(csv.DictReader(place.read_text(encoding="utf-8").splitlines()))


def templates(name: str, *, by_month: bool) -> list[str]:
    """Return the categories of a pipeline, of which one comes and goes."""
    chosen = [f"{name}/account/{{Place.Account}}", f"{name}/kind/{{Place.Kind}}"]
    return [*chosen, f"{name}/month/{{Place.Month}}"] if by_month else chosen


@dataclass(frozen=True, slots=True)
class _Counted:
    version: int
    value: Fraction
    place: Mapping[str, str]
    by_month: bool


@dataclass
class Traffic:
    """The lines of one pipeline in the order in which they are sent, and the truth about them."""

    name: str
    seed: int
    by_month: bool = False
    sent: int = 0
    duplicates: int = 0
    late: int = 0
    malformed: dict[bytes, str] = field(default_factory=dict)
    """What each dead letter must say, by the line."""

    def __post_init__(self) -> None:
        self._draw = Random(f"{self.seed} {self.name}")  # noqa: S311 (repeatable)
        self._rows = rows()
        self._made = 0
        self._known: deque[dict[str, Any]] = deque(maxlen=RECENT)
        self._lines: deque[bytes] = deque(maxlen=RECENT)
        self._late: list[tuple[int, dict[str, Any]]] = []
        self._kinds = list(KINDS)
        self._drawn: dict[str, int] = {}
        self._newest: dict[str, _Counted] = {}
        self._newest_lines: dict[str, bytes] = {}

    def lines(self, count: int) -> list[bytes]:
        """Return the next so many lines."""
        return [self._line() for _ in range(count)]

    def held_back(self) -> list[bytes]:
        """Return the lines that are late still."""
        due, self._late = self._late, []
        return [self._send(record) for _, record in due]

    def totals(self) -> dict[str, Fraction]:
        """Return the total of every category that any record ever had."""
        sums: dict[str, Fraction] = defaultdict(Fraction)
        for counted in self._newest.values():
            for name in self._categories(counted):
                sums[name] += counted.value
        return dict(sums)

    def count_under(self, lines: Iterable[bytes], *, by_month: bool) -> None:
        """Count what these lines brought as newest under other categories than were in force."""
        sent = set(lines)
        for record, counted in self._newest.items():
            if self._newest_lines[record] in sent:
                self._newest[record] = replace(counted, by_month=by_month)

    def count_all_under(self, *, by_month: bool) -> None:
        """Count every record under these categories, as a rebuild has it."""
        for record, counted in self._newest.items():
            self._newest[record] = replace(counted, by_month=by_month)

    def _line(self) -> bytes:
        if self._late and self._late[0][0] <= self.sent:
            self.late += 1
            return self._send(self._late.pop(0)[1])
        chance = self._draw.random()
        if self._known and chance < MALFORMED:
            return self._spoilt()
        if self._lines and chance < MALFORMED + DUPLICATE:
            self.sent += 1
            self.duplicates += 1
            return self._draw.choice(self._lines)
        record = self._record()
        if chance > 1 - LATE:
            due = self.sent + self._draw.randint(1, LATE_LINES_MAX)
            self._late.append((due, record))
            self._late.sort(key=lambda one: one[0])
            return self._line()
        return self._send(record)

    def _record(self) -> dict[str, Any]:
        if self._known and self._draw.random() < CORRECTION:
            record = self._corrected(self._draw.choice(self._known))
        else:
            record = self._new()
        self._known.append(record)
        self._drawn[record["Row"]["Id"]] = record["Row"]["Version"]
        return record

    def _new(self) -> dict[str, Any]:
        cycle, place = divmod(self._made, len(self._rows))
        row = self._rows[place]
        self._made += 1
        return {
            "Row": {"Id": f"{cycle}-{row['id']}", "Version": self._draw.choice((0, 1, 1, 5))},
            "Amount": row["change"],
            "Place": {"Account": row["account"], "Kind": row["kind"], "Month": row["date"][:7]},
            "Serial": self._made,
        }

    def _corrected(self, before: Mapping[str, Any]) -> dict[str, Any]:
        row = self._draw.choice(self._rows)
        place = dict(before["Place"])
        if self._draw.random() < MOVE:
            place = {"Account": row["account"], "Kind": row["kind"], "Month": row["date"][:7]}
        version = self._drawn[before["Row"]["Id"]] + self._draw.choice((1, 1, 2, 10))
        amount = row["change"] if self._draw.random() > DUPLICATE else self._draw.choice(EXTREMES)
        record = {**before["Row"], "Version": version}
        return {"Row": record, "Amount": amount, "Place": place, "Serial": before["Serial"]}

    def _send(self, record: dict[str, Any]) -> bytes:
        line = encoded(record)
        self.sent += 1
        self._lines.append(line)
        newest = self._newest.get(record["Row"]["Id"])
        version = record["Row"]["Version"]
        if newest is not None and newest.version == version:
            raise AssertionError(f"one version of {record['Row']['Id']} with two contents")
        if newest is None or newest.version < version:
            value = Fraction(record["Amount"])
            counted = _Counted(version, value, record["Place"], self.by_month)
            self._newest[record["Row"]["Id"]] = counted
            self._newest_lines[record["Row"]["Id"]] = line
        return line

    def _categories(self, counted: _Counted) -> Iterator[str]:
        yield f"{self.name}/account/{counted.place['Account']}"
        yield f"{self.name}/kind/{counted.place['Kind']}"
        if counted.by_month:
            yield f"{self.name}/month/{counted.place['Month']}"

    def _spoilt(self) -> bytes:
        """Spoil a later version of a known record: were it taken, totals would show it."""
        kind = self._kinds[len(self.malformed) % len(self._kinds)]
        spoil, reason = KINDS[kind]
        known = self._draw.choice(self._known)
        self.sent += 1
        row = {**known["Row"], "Version": known["Row"]["Version"] + 1_000}
        line = spoil({**known, "Row": row, "Serial": f"1{self.sent}"})
        self.malformed[line] = reason
        return line
