"""What the demo is asked for, what it shows while it runs, and its report at the end."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from ledger.lab.demos.changes.sample import Sample
from ledger.lab.harness.display import View, checked
from ledger.lab.harness.options import REGIONS as ALL_REGIONS
from ledger.lab.harness.options import LabOptions, Picture
from ledger.lab.harness.picture import OURS, WRONG, finish_axis
from ledger.lab.harness.report import Report, Section, Verdict
from ledger.runtime.command_line import FAILED

REGIONS = ALL_REGIONS[:3]
WRONG_SHOWN_MAX = 5
PICTURE_INCHES = (8.6, 3.4)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions(LabOptions):
    """The options of the demo."""

    input: Annotated[
        Path | None, typer.Option(help="A CSV or JSONL file of changes; else a shipped sample.")
    ] = None
    counter: Annotated[str, typer.Option(help="--input: its column of counters.")] = "account"
    change: Annotated[str, typer.Option(help="--input: its column of amounts.")] = "change"
    seconds: Annotated[
        float, typer.Option(min=0, help="How long writing is spread over, in seconds.")
    ] = 12.0
    picture: Picture = None


@dataclass(slots=True)
class DemoProgress:
    """The live figures, by region where they differ."""

    sample: Sample
    phase: str = "starting a global table of three regions on this machine"
    partition: str = ""
    recorded: Counter[str] = field(default_factory=Counter)
    added: Counter[str] = field(default_factory=Counter)
    reads: int = 0
    wrong: list[str] = field(default_factory=list)
    entries: dict[str, int] = field(default_factory=dict)
    compactor: Mapping[str, float] = field(default_factory=dict)

    def add_read(self, complaint: str | None) -> None:
        """Count a read that was checked."""
        self.reads += 1
        if complaint is not None:
            self.wrong.append(complaint)

    def view(self) -> View:
        """Return what is shown now."""
        done, total = self.recorded.total(), len(self.sample.changes)
        folds, merged, deleted = (
            self.compactor.get(f"compactor_{name}_total", 0)
            for name in ("folds", "entries_merged", "entries_deleted")
        )
        rows = [
            (
                region,
                f"{self.recorded[region]:,}",
                f"{self.added[region]:,}",
                f"{self.entries[region]:,}" if region in self.entries else "",
            )
            for region in REGIONS
        ]
        columns = ("region", "ledger changes", "single-item ADDs", "entries not merged")
        return View(
            title="ledger demo",
            phase=self.phase,
            figures=[
                ("written", f"{done:,} of {total:,} changes"),
                ("compactor", f"{folds:,.0f} folds, {merged:,.0f} merged, {deleted:,.0f} deleted"),
            ],
            progress=(done, total),
            sections=[Section(columns=columns, rows=rows)],
            status=checked(self.reads, len(self.wrong)),
            notes=[Text(self.partition, style="yellow")],
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one way of counting shows in one region at the end."""

    region: str
    total: Decimal
    exact: int
    lost: int
    errors: Mapping[str, Decimal] = field(default_factory=dict)
    """The difference of each counter's total from the expected one."""


@dataclass(frozen=True, slots=True)
class DemoReport(Report):
    """The end of the demo: both ways beside the expected totals, and what the ledger cost."""

    expected: Decimal
    counters: int
    changes: int
    ledger: Sequence[Outcome]
    single: Sequence[Outcome]
    reads: int
    wrong: Sequence[str]
    items_before: int
    items_after: int
    write_units: float
    merge_units: float
    merge_read_units: float
    single_units: float
    entries_per_fold: float
    seconds: float

    @property
    def is_exact(self) -> bool:
        """Whether the ledger was right everywhere and in every read."""
        return not self.wrong and all(one.exact == self.counters for one in self.ledger)

    def verdict(self) -> Verdict:
        """Return whether the ledger was exact."""
        if self.is_exact:
            return Verdict("the ledger was exact in every region and in every read", "bold green")
        return Verdict("the ledger was wrong", "bold red", FAILED)

    def sections(self) -> Sequence[Section]:
        """Return the comparison and the costs."""
        rows: list[Sequence[str | Text]] = [
            ("truth", "", self._money(self.expected), "", f"{self.counters:,}", "")
        ]
        for name, outcomes in (("ledger", self.ledger), ("single item", self.single)):
            rows += [(name, outcome.region, *self._cells(outcome)) for outcome in outcomes]
        comparison = Section(
            title=f"{self.changes:,} changes from three regions",
            caption="exact: counters with the true sum; lost: changes that vanished silently",
            columns=("counted by", "region", "sum", "error", "exact", "lost"),
            rows=rows,
            left=2,
        )
        return comparison, Section(rows=self._facts())

    def remarks(self) -> Iterable[Text]:
        """Return the first wrong reads."""
        return [Text(one, style="red") for one in self.wrong[:WRONG_SHOWN_MAX]]

    def draw(self, figure: Any) -> None:
        """Draw the errors in the home region: a bar and a dot for each counter, in order."""
        figure.set_size_inches(*PICTURE_INCHES)
        axis = figure.add_subplot()
        single, ledger = self.single[0], self.ledger[0]
        counters = sorted(single.errors, key=lambda counter: single.errors[counter])
        places = range(len(counters))
        axis.bar(
            places,
            [float(single.errors[counter]) for counter in counters],
            color=WRONG,
            label=f"one item per counter: {self._found(single)}",
        )
        axis.plot(
            places,
            [float(ledger.errors[counter]) for counter in counters],
            color=OURS,
            linestyle="",
            marker="o",
            markersize=3.5,
            label=f"ledger: {self._found(ledger)}",
        )
        title = f"{self.changes:,} changes of {self.counters:,} counters, from three regions"
        finish_axis(axis, title)
        axis.set(xlabel="counters", ylabel="error of the total", xticks=[], xmargin=0.01)
        axis.spines["bottom"].set_visible(False)
        axis.yaxis.set_major_formatter("{x:,.0f}")
        axis.legend(frameon=False, loc="lower right", fontsize=9)

    def _cells(self, one: Outcome) -> tuple[Text, ...]:
        style = "green" if one.exact == self.counters else "red"
        figures = (self._money(one.total - self.expected), f"{one.exact:,}", f"{one.lost:,}")
        return Text(self._money(one.total)), *(Text(figure, style=style) for figure in figures)

    def _facts(self) -> list[tuple[str, str]]:
        changes = self.changes
        write, merge = self.write_units / changes, self.merge_units / changes
        return [
            ("reads checked", f"{self.reads:,}, of which wrong: {len(self.wrong):,}"),
            ("ledger items", f"{self.items_before:,} written, {self.items_after:,} left"),
            ("write units per change", f"{write:.2f} to write, {merge:.2f} to merge and delete"),
            ("", f"(by folds of {self.entries_per_fold:.0f} entries on average)"),
            ("", f"({self.single_units / changes:.2f} for the single items)"),
            ("read units per change", f"{self.merge_read_units / changes:.2f} to merge"),
            ("time", f"{self.seconds:.0f} s"),
        ]

    def _found(self, one: Outcome) -> str:
        return f"{one.lost:,} changes lost, {one.exact:,} of {self.counters:,} totals right"

    def _money(self, amount: Decimal) -> str:
        """Return an amount with as many decimals as the expected sum, or more if it has them."""
        return f"{amount:,.{max(_decimals(amount), _decimals(self.expected))}f}"


def _decimals(amount: Decimal) -> int:
    exponent = amount.as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0
