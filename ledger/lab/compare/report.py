"""What comes out of a comparison: frozen values, their JSON and CSV, and figures derived. Pure."""

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import TypeAdapter

VERSION = 1
MODEL = "model"
"""The engine that is none: everything on virtual time."""
MANY = 20
AT_ONCE, AFTER_ONE, AFTER_MANY = "at once", "1 other", f"{MANY} others"
MINUTES_LATER, DAYS_LATER, ELSEWHERE = "11 min", "8 days", "away"
MOMENTS = (AT_ONCE, AFTER_ONE, AFTER_MANY, MINUTES_LATER, DAYS_LATER, ELSEWHERE)
"""What is between a change and its token's second coming; away: another region, once it knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What is compared: `lost` and `conflicts` are shares of the writes, `changes` those in all.

    `lost` writes get no answer; of these half are applied. `conflicts` meet a transaction of
    somebody else first.
    """

    engine: str = "memory"
    regions: int = 2
    writers: int = 8
    changes: int = 120
    lost: float = 0.1
    conflicts: float = 0.02
    seed: int = 7
    quick: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Changes of +1 by concurrent writers of one region, of whose writes some get no answer.

    What callers were told (`applied`, `unknown`, `rejected`, `refused`: an error, nothing written)
    and the `value` that was kept. `requests` counts the writes sent, repeats by the store included.
    Units are of one region, for all changes together.
    """

    changes: int
    applied: int
    unknown: int
    rejected: int
    refused: int
    value: int
    requests: int
    write_units: float
    read_units: float
    p50_milliseconds: float
    p99_milliseconds: float

    @property
    def true_value(self) -> int:
        """The value if every change counted once, but those told to be rejected or refused."""
        return self.changes - self.rejected - self.refused

    @property
    def error(self) -> int:
        """How far the value kept is above (or below) the true one."""
        return self.value - self.true_value

    @property
    def untold(self) -> int:
        """How far the value is from anything that fits what callers were told: silent error."""
        return max(self.applied - self.value, self.value - self.applied - self.unknown, 0)

    @property
    def repeated(self) -> float:
        """The share of the writes sent that repeat an earlier one of the same change."""
        return max(0.0, 1 - self.changes / self.requests) if self.requests else 0.0


@dataclass(frozen=True, slots=True)
class Alone:
    """Units of one change by a lone writer with nothing wrong."""

    write_units: float
    read_units: float


@dataclass(frozen=True, slots=True)
class Repeat:
    """How often a change counts whose token came twice; `refused`: the second call was an error."""

    times: int
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Apart:
    """Changes of +1 made in every region while all were cut off, and the values once they met."""

    applied: int
    values: Mapping[str, int]

    @property
    def lost(self) -> int:
        """How many changes the worst region lacks of those told to be applied."""
        return self.applied - min(self.values.values())

    @property
    def agree(self) -> bool:
        """Whether every region shows the same."""
        return len(set(self.values.values())) == 1


@dataclass(frozen=True, slots=True)
class Sold:
    """Buyers of one piece each at a stock that must not fall below 0.

    `sold` were told they have one, `unknown` nothing, the rest that there is none left.
    """

    stock: int
    buyers: int
    sold: int
    unknown: int

    @property
    def oversold(self) -> int:
        """Pieces promised that were not there."""
        return max(0, self.sold - self.stock)

    @property
    def turned_away(self) -> int:
        """Buyers wrongly told that nothing is left: pieces that nobody got."""
        return max(0, min(self.stock, self.buyers) - self.sold - self.unknown)


@dataclass(frozen=True, slots=True)
class Figures:
    """All of one method; `repeats` by the moment of the repeat."""

    method: str
    alone: Alone
    counted: Counted
    repeats: Mapping[str, Repeat]
    apart: Apart
    sold: Sold
    sold_apart: Sold

    @property
    def price(self) -> float:
        """Write units that a change of the workload took."""
        return self.counted.write_units / self.counted.changes


@dataclass(frozen=True, slots=True)
class Point:
    """What so many writers at one counter get done in a second of the model.

    `repeated` is the share of the writes sent that repeat an earlier one, `failed` that of the
    changes that were not made in the end.
    """

    writers: int
    useful_per_second: float
    repeated: float
    failed: float = 0.0


@dataclass(frozen=True, slots=True)
class Report:
    """All of one run."""

    options: Options
    figures: tuple[Figures, ...]
    curves: Mapping[str, tuple[Point, ...]]
    """Contention, by method."""
    advice: tuple[str, ...] = ()
    version: int = VERSION


def to_json(report: Report) -> bytes:
    """Return the report as JSON; `from_json` gives it back."""
    return TypeAdapter(Report).dump_json(report, indent=2) + b"\n"


def from_json(content: bytes) -> Report:
    """Read a report from JSON.

    Raises:
        pydantic.ValidationError: it is none.
    """
    return TypeAdapter(Report).validate_json(content)


def to_csv(report: Report) -> str:
    """Return the figures as CSV, a method a line."""
    rows = [_row(one, report.curves.get(one.method, ())) for one in report.figures]
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _row(one: Figures, curve: tuple[Point, ...]) -> dict[str, object]:
    counted, apart = one.counted, one.apart
    row: dict[str, object] = {
        "method": one.method,
        "changes": counted.changes,
        "true_value": counted.true_value,
        "value": counted.value,
        "error": counted.error,
        "untold_error": counted.untold,
        "repeated_share": round(counted.repeated, 4),
        "unknown": counted.unknown,
        "rejected": counted.rejected,
        "refused": counted.refused,
        "write_units_per_change": round(one.price, 3),
        "read_units_per_change": round(counted.read_units / counted.changes, 3),
        "alone_write_units": one.alone.write_units,
        "alone_read_units": one.alone.read_units,
        "p50_milliseconds": round(counted.p50_milliseconds, 3),
        "p99_milliseconds": round(counted.p99_milliseconds, 3),
    }
    for moment, repeat in one.repeats.items():
        row[f"repeat_{moment.replace(' ', '_')}"] = "refused" if repeat.refused else repeat.times
    row["regions_true_value"] = apart.applied
    row.update({f"regions_value_{region}": value for region, value in apart.values.items()})
    row["regions_lost"] = apart.lost
    for name, sold in (("one_region", one.sold), ("cut_off", one.sold_apart)):
        row[f"{name}_sold"], row[f"{name}_oversold"] = sold.sold, sold.oversold
        row[f"{name}_turned_away"] = sold.turned_away
    for point in curve:
        row[f"useful_per_second_{point.writers}_writers"] = round(point.useful_per_second, 1)
        row[f"repeated_share_{point.writers}_writers"] = round(point.repeated, 4)
        row[f"failed_share_{point.writers}_writers"] = round(point.failed, 4)
    return row
