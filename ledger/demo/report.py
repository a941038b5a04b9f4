"""What the demo is asked for, what it shows while it runs, and its report at the end."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import typer
from prometheus_client import CollectorRegistry
from rich.text import Text

from ledger.core import amounts
from ledger.demo.harness.display import DisplayView, checked
from ledger.demo.harness.options import REGIONS as ALL_REGIONS
from ledger.demo.harness.options import JsonFile, LabOptions, Picture
from ledger.demo.harness.picture import OURS, WRONG, finish_axis
from ledger.demo.harness.report import Row, RunReport, Section, Verdict
from ledger.demo.harness.totals import ShownTotals
from ledger.runtime.command_line import FAILED
from ledger.runtime.metrics import summed

REGIONS = ALL_REGIONS[:3]
WRONG_SHOWN_MAX = 5
PICTURE_INCHES = (8.6, 3.4)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions(LabOptions):
    """The options of the demo."""

    input: Annotated[
        Path | None,
        typer.Option(help="CSV or JSONL file of changes.", show_default="a sample of bank changes"),
    ] = None
    counter: Annotated[str, typer.Option(help="Column of counters in --input.")] = "account"
    change: Annotated[str, typer.Option(help="Column of amounts in --input.")] = "change"
    seconds: Annotated[float, typer.Option(min=0, help="Seconds to spread the writes over.")] = 12.0
    json_file: JsonFile = None
    picture: Picture = None


@dataclass(slots=True)
class DemoProgress:
    """The live figures, by region where they differ; `changes` is how many are to be written."""

    changes: int
    phase: str = "starting a global table of three regions on this machine"
    partition: str = ""
    recorded: Counter[str] = field(default_factory=Counter)
    added: Counter[str] = field(default_factory=Counter)
    reads: int = 0
    wrong: list[str] = field(default_factory=list)
    entries: dict[str, int] = field(default_factory=dict)
    merging: CollectorRegistry = field(default_factory=CollectorRegistry)
    """The compactor's metrics."""

    def add_read(self, complaint: str | None) -> None:
        """Count a read that was checked."""
        self.reads += 1
        if complaint is not None:
            self.wrong.append(complaint)

    def merged(self, name: str) -> float:
        """Return one of the compactor's figures."""
        return summed(self.merging, f"compactor_{name}_total")

    def view(self) -> DisplayView:
        """Return what is shown now."""
        done = self.recorded.total()
        folds, merged, deleted = (
            self.merged(name) for name in ("folds", "entries_merged", "entries_deleted")
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
        return DisplayView(
            title="ledger demo",
            phase=self.phase,
            figures=[
                ("written", f"{done:,} of {self.changes:,} changes"),
                ("compactor", f"{folds:,.0f} folds, {merged:,.0f} merged, {deleted:,.0f} deleted"),
            ],
            progress=(done, self.changes),
            sections=[Section(columns=columns, rows=rows)],
            status=checked(self.reads, len(self.wrong)),
            notes=[Text(self.partition, style="yellow")],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoReport(RunReport):
    """The end of the demo: both ways beside the expected totals, and what the ledger cost."""

    changes: int
    ledger: Sequence[ShownTotals]
    single: Sequence[ShownTotals]
    lost: Sequence[int]
    """Changes that the single items of each region have lost."""
    reads: int
    wrong: Sequence[str]
    items_before: int
    items_after: int
    write_units: float
    merge_units: float
    merge_read_units: float
    entries_per_fold: float
    seconds: float

    @property
    def expected(self) -> Mapping[str, Decimal]:
        """The expected total of each counter."""
        return self.ledger[0].expected

    @property
    def is_exact(self) -> bool:
        """Whether the ledger was right everywhere and in every read."""
        return not self.wrong and not any(totals.wrong for totals in self.ledger)

    def verdict(self) -> Verdict:
        """Return whether the ledger was exact."""
        if self.is_exact:
            return Verdict("the ledger was exact in every region and in every read", "bold green")
        return Verdict("the ledger was wrong", "bold red", FAILED)

    def sections(self) -> Sequence[Section]:
        """Return the comparison and the costs."""
        truth = self._money(amounts.total(self.expected.values()))
        none = [0] * len(self.ledger)
        comparison = Section(
            title=f"{self.changes:,} changes from three regions",
            caption="exact: counters with the true sum; lost: changes that vanished silently",
            columns=("counted by", "region", "sum", "error", "exact", "lost"),
            rows=[
                ("truth", "", truth, "", f"{len(self.expected):,}", ""),
                *map(self._row, ["ledger"] * len(none), self.ledger, none),
                *map(self._row, ["single item"] * len(none), self.single, self.lost),
            ],
            left=2,
        )
        return comparison, Section(rows=self._facts())

    def remarks(self) -> Iterable[Text]:
        """Return the first wrong reads."""
        return [Text(sentence, style="red") for sentence in self.wrong[:WRONG_SHOWN_MAX]]

    def draw(self, figure: Any) -> None:
        """Draw the errors in the home region: a bar and a dot for each counter, in order."""
        figure.set_size_inches(*PICTURE_INCHES)
        axis = figure.add_subplot()
        single, ledger = self.single[0].errors, self.ledger[0].errors
        counters = sorted(single, key=lambda counter: single[counter])
        places = range(len(counters))
        axis.bar(
            places,
            [float(single[counter]) for counter in counters],
            color=WRONG,
            label=f"one item per counter: {self._found(self.single[0], self.lost[0])}",
        )
        axis.plot(
            places,
            [float(ledger[counter]) for counter in counters],
            color=OURS,
            linestyle="",
            marker="o",
            markersize=3.5,
            label=f"ledger: {self._found(self.ledger[0], 0)}",
        )
        title = f"{self.changes:,} changes of {len(counters):,} counters, from three regions"
        finish_axis(axis, title)
        axis.set(xlabel="counters", ylabel="error of the total", xticks=[], xmargin=0.01)
        axis.spines["bottom"].set_visible(False)
        axis.yaxis.set_major_formatter("{x:,.0f}")
        axis.legend(frameon=False, loc="lower right", fontsize=9)

    def _row(self, name: str, one: ShownTotals, lost: int) -> Row:
        style = "red" if one.wrong else "green"
        error = self._money(amounts.total(one.errors.values()))
        found = [Text(cell, style=style) for cell in (error, f"{one.right:,}", f"{lost:,}")]
        return name, one.region, self._money(amounts.total(one.shown.values())), *found

    def _facts(self) -> list[tuple[str, str]]:
        write, merge, read = (
            units / self.changes
            for units in (self.write_units, self.merge_units, self.merge_read_units)
        )
        return [
            ("reads checked", f"{self.reads:,}, of which wrong: {len(self.wrong):,}"),
            ("ledger items", f"{self.items_before:,} written, {self.items_after:,} left"),
            ("write units per change", f"{write:.2f} to write, {merge:.2f} to merge and delete"),
            ("", f"(by folds of {self.entries_per_fold:.0f} entries on average)"),
            ("read units per change", f"{read:.2f} to merge"),
            ("time", f"{self.seconds:.0f} s"),
        ]

    def _found(self, one: ShownTotals, lost: int) -> str:
        return f"{lost:,} changes lost, {one.right:,} of {len(one.expected):,} totals right"

    def _money(self, amount: Decimal) -> str:
        """Return an amount with as many decimals as the most exact expected total has, or more."""
        return f"{amount:,.{max(map(_decimals, (amount, *self.expected.values())))}f}"


def _decimals(amount: Decimal) -> int:
    exponent = amount.as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0
