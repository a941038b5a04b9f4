"""The report of a comparison: tables with each guarantee beside its figures, CSV, a picture."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from ledger.lab.compare.figures import MOMENTS, MethodFigures, Point, Repeat
from ledger.lab.compare.options import MODEL, CompareOptions
from ledger.lab.compare.promises import About, Claim, Status, broken, claims
from ledger.lab.harness.picture import OURS, WRONG, draw_bars, draw_lines
from ledger.lab.harness.report import Report, Section, Verdict
from ledger.runtime.command_line import FAILED

VERSION = 2
INCHES = (12.0, 11.0)
_STYLES: Mapping[Status, str] = {"shown": "green", "unseen": "yellow", "broken": "bold red"}
_SIGNS: Mapping[Status, str] = {"shown": "", "unseen": " (not seen)", "broken": " (BROKEN)"}
_Cells = Callable[[MethodFigures], Sequence[str]]


@dataclass(frozen=True, slots=True)
class CompareReport(Report):
    """All of one run; `curves` show contention, by method."""

    options: CompareOptions
    figures: tuple[MethodFigures, ...]
    curves: Mapping[str, tuple[Point, ...]]
    advice: tuple[str, ...] = ()
    version: int = VERSION

    def sections(self) -> Iterable[Section]:
        """Return a table for each part of the comparison, and the advice."""
        return (
            self._sources(),
            self._accuracy(),
            self._prices(),
            self._repeats(),
            self._partitioned(),
            self._sales(),
            self._curves(),
            Section(
                title="advice, drawn from these figures", rows=[("-", line) for line in self.advice]
            ),
        )

    def verdict(self) -> Verdict | None:
        """Name every guarantee that a figure contradicts, if there are any."""
        lines = [line for figure in self.figures for line in broken(figure, self.options)]
        text = "\n".join(f"broken: {line}" for line in lines)
        return Verdict(text, "bold red", FAILED) if lines else None

    def as_rows(self) -> Sequence[Mapping[str, object]]:
        """Return the figures for CSV, a row for each method."""
        return [_row(figure, self.curves.get(figure.method, ())) for figure in self.figures]

    def draw(self, figure: Any) -> None:
        """Draw errors, regions, prices, and the curves of contention."""
        figure.set_size_inches(*INCHES)
        axes = figure.subplots(3, 2)
        lossy = f"{self.options.lost:.0%} of the writes without an answer"
        self._bars(axes[0, 0], f"error in one region, {lossy}", lambda one: one.counted.error)
        self._bars(axes[0, 1], "changes lost in a partition", lambda one: one.partitioned.lost)
        self._bars(axes[1, 0], "write units per change", lambda one: one.price, is_fault=False)
        self._bars(axes[1, 1], "oversold in a partition", lambda one: one.sold_partitioned.oversold)
        self._lines(axes[2, 0], "useful changes per second (model)", "useful_per_second", "log")
        self._lines(axes[2, 1], "share of writes repeated (model)", "repeated", "linear")

    def _bars(
        self,
        axis: Any,
        title: str,
        figure: Callable[[MethodFigures], float],
        *,
        is_fault: bool = True,
    ) -> None:
        """Draw a bar for each method; what should be 0 and is not is red."""
        values = [figure(one) for one in self.figures]
        draw_bars(
            axis,
            title,
            [one.method for one in self.figures],
            values,
            colours=[WRONG if is_fault and value else OURS for value in values],
            labels=[f"{value:,.1f}" if value % 1 else f"{value:,.0f}" for value in values],
        )

    def _lines(self, axis: Any, title: str, figure: str, scale: str) -> None:
        """Draw a figure of every curve over the number of writers."""
        series = {
            method: [(point.writers, getattr(point, figure)) for point in points]
            for method, points in self.curves.items()
        }
        draw_lines(axis, title, series, x_name="writers of one counter", y_scale=scale)

    @property
    def _where(self) -> str:
        return MODEL if self.options.is_model else f"local table, {self.options.engine}"

    def _sources(self) -> Section:
        options = self.options
        measured = (
            f"a local global table of {options.regions} regions, engine {options.engine},"
            " in real time on this machine"
        )
        model = f"virtual time; replays exactly from seed {options.seed}"
        rows = [("(model)", model)]
        return Section(rows=rows if options.is_model else [*rows, (f"({self._where})", measured)])

    def _accuracy(self) -> Section:
        options = self.options
        title = (
            f"1. One region: {options.changes:,} changes of +1 by {options.writers} concurrent"
            f" writers; {options.lost:.0%} of the writes get no answer ({self._where})"
        )
        caption = (
            "Half of the writes without an answer are applied. True: without rejected changes."
            " Silent: error that the callers' answers do not account for."
        )
        names = ("true", "kept", "error", "silent", "unknown", "rejected")

        def cells(one: MethodFigures) -> Sequence[str]:
            its = one.counted
            counts = (its.silent_error, its.unknown, its.rejected + its.refused)
            return f"{its.true_value:,}", f"{its.value:,}", _signed(its.error), *map(_count, counts)

        return self._table(title, names, cells, ("unknown", "after lost answers"), caption)

    def _prices(self) -> Section:
        clock = "virtual" if self.options.is_model else "of this machine"
        caption = (
            "Units per change: written / read, in one region; each further region writes as many"
            f" again. Alone: a lone writer without faults (model). Milliseconds are {clock}."
        )
        names = ("repeated", "units", "p50 ms", "p99 ms", "alone")

        def cells(one: MethodFigures) -> Sequence[str]:
            its = one.counted
            units = f"{one.price:.2f} / {its.read_units / its.changes:.2f}"
            times = (f"{its.p50_milliseconds:,.1f}", f"{its.p99_milliseconds:,.0f}")
            alone = f"{one.alone.write_units:g} / {one.alone.read_units:g}"
            return f"{its.repeated:.0%}", units, *times, alone

        title = f"2. The price of these changes ({self._where})"
        return self._table(title, names, cells, ("cost", "promised alone"), caption)

    def _repeats(self) -> Section:
        title = f"3. The same token again: how often the change counts ({MODEL})"
        caption = "Away: in another region, once all has replicated. Refused: counted once."

        def cells(one: MethodFigures) -> Sequence[str]:
            return [_times(one.repeats[moment]) for moment in MOMENTS]

        return self._table(title, MOMENTS, cells, ("tokens", "a token is known"), caption)

    def _partitioned(self) -> Section:
        title = f"4. All regions write during a partition, which then heals ({self._where})"
        regions = list(self.figures[0].partitioned.values) if self.figures else []
        names = ("true", *regions, "lost")

        def cells(one: MethodFigures) -> Sequence[str]:
            its = one.partitioned
            return (
                f"{its.applied:,}",
                *(f"{its.values[region]:,}" for region in regions),
                _count(its.lost),
            )

        return self._table(title, names, cells, ("regions", "several regions"))

    def _sales(self) -> Section:
        sales = [one.sold for one in self.figures[:1]]
        what = "".join(f"{one.stock:,} pieces, {one.buyers:,} buyers" for one in sales)
        title = f"5. A stock with a minimum of 0: {what} ({self._where})"
        caption = (
            "Sold: reported as sold. Over: sold, but not in stock. Unsold: although buyers were"
            " turned away. Partition: sold by all regions during one, each to as many buyers."
        )
        names = ("sold", "unknown", "over", "unsold", "partition", "over")

        def cells(one: MethodFigures) -> Sequence[str]:
            here, there = one.sold, one.sold_partitioned
            counts = map(_count, (here.unknown, here.oversold, here.unsold))
            return f"{here.sold:,}", *counts, f"{there.sold:,}", _count(there.oversold)

        return self._table(title, names, cells, ("thresholds", "limit in one region"), caption)

    def _curves(self) -> Section:
        rows: dict[int, list[str]] = {}
        for points in self.curves.values():
            for point in points:
                cell = f"{point.useful_per_second:,.0f} {point.repeated:4.0%}"
                rows.setdefault(point.writers, [f"{point.writers}"]).append(cell)
        return Section(
            title=f"6. Writers of one counter: useful changes/s, writes repeated ({MODEL})",
            columns=("writers", *(method.replace("-", "-\n") for method in self.curves)),
            rows=list(rows.values()),
        )

    def _table(
        self,
        title: str,
        names: Sequence[str],
        cells: _Cells,
        promise: tuple[About, str],
        caption: str = "",
    ) -> Section:
        """Return a row for each method, with its guarantee in the last column."""
        about, heading = promise
        return Section(
            title=title,
            caption=caption,
            columns=("method", *names, heading),
            ends_in_text=True,
            rows=[
                (figure.method, *cells(figure), _promise(claims(figure, self.options)[about]))
                for figure in self.figures
            ],
        )


def _promise(claim: Claim) -> Text:
    return Text(claim.text + _SIGNS[claim.status], style=_STYLES[claim.status])


def _times(repeat: Repeat) -> str:
    is_once = repeat == Repeat(1, refused=True)
    return "refused" if is_once else f"{repeat.times}{', refused' * repeat.refused}"


def _signed(number: int) -> str:
    return f"{number:+,}" if number else "0"


def _count(number: int) -> str:
    return f"{number:,}" if number else "-"


def _row(one: MethodFigures, curve: Sequence[Point]) -> Mapping[str, object]:
    counted, partitioned = one.counted, one.partitioned
    row: dict[str, object] = {
        "method": one.method,
        "changes": counted.changes,
        "true_value": counted.true_value,
        "value": counted.value,
        "error": counted.error,
        "silent_error": counted.silent_error,
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
    row["regions_true_value"] = partitioned.applied
    row.update({f"regions_value_{name}": value for name, value in partitioned.values.items()})
    row["regions_lost"] = partitioned.lost
    for name, sold in (("one_region", one.sold), ("partition", one.sold_partitioned)):
        row[f"{name}_sold"], row[f"{name}_oversold"] = sold.sold, sold.oversold
        row[f"{name}_unsold"] = sold.unsold
    for point in curve:
        row[f"useful_per_second_{point.writers}_writers"] = round(point.useful_per_second, 1)
        row[f"repeated_share_{point.writers}_writers"] = round(point.repeated, 4)
        row[f"failed_share_{point.writers}_writers"] = round(point.failed, 4)
    return row
