"""The report of a comparison: tables with each guarantee beside its figures, CSV, a picture."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rich.text import Text

from lab.compare.arrivals import AGAIN_SECONDS
from lab.compare.choices import choices
from lab.compare.figures import (
    ARRIVING_SECONDS,
    MOMENTS,
    Backlog,
    MethodFigures,
    Point,
    Repeat,
    SdkRetried,
)
from lab.compare.options import MODEL, CompareOptions
from lab.compare.promises import About, Claim, Status, broken, claims
from lab.harness.plots import draw_bars, draw_lines
from lab.harness.report_columns import ReportColumn, rows_of, section_of
from ledger.demo.harness.picture import OURS, WRONG
from ledger.demo.harness.report import RunReport, Section, Verdict
from ledger.runtime.command_line import FAILED

VERSION = 4
INCHES = (12.0, 11.0)
_STYLES: Mapping[Status, str] = {"shown": "green", "unseen": "yellow", "broken": "bold red"}
_SIGNS: Mapping[Status, str] = {"shown": "", "unseen": " (not seen)", "broken": " (BROKEN)"}
_WHOLE, _TENTHS, _DECIMALS = "{:,.0f}".format, "{:,.1f}".format, "{:,.2f}".format
_Column = ReportColumn[MethodFigures]
_BARS: Sequence[tuple[str, Callable[[MethodFigures], float], str]] = (
    ("error in one region", lambda one: one.counted.error, WRONG),
    ("changes lost in a partition", lambda one: one.partitioned.lost, WRONG),
    ("write units per change", lambda one: one.price, OURS),
    ("oversold in a partition", lambda one: one.sold_partitioned.oversold, WRONG),
)
"""Titles, figures, and the colour of what is not 0."""
_LINES = (
    ("useful changes per second (model)", "useful_per_second", "log"),
    ("share of writes repeated (model)", "repeated", "linear"),
)


@dataclass(frozen=True, slots=True)
class CompareReport(RunReport):
    """All of one run; `curves` show contention, by method."""

    options: CompareOptions
    figures: tuple[MethodFigures, ...]
    curves: Mapping[str, tuple[Point, ...]]
    backlogs: Mapping[str, tuple[Backlog, ...]]
    retried: tuple[SdkRetried, ...]
    version: int = VERSION

    def sections(self) -> Iterable[Section]:
        """Return a table for each part of the comparison, and what the figures speak for."""
        for part in _PARTS:
            yield section_of(
                (_METHOD, *part.columns),
                self.figures,
                title=part.title.format(self.options),
                caption=part.caption,
                ends_in_text=True,
            )
        yield self._contention()
        yield self._arriving()
        yield section_of(
            _RETRIED,
            self.retried,
            title=f"8. One change whose first answer is lost, and the SDK repeats it ({MODEL})",
            caption="Answered: what the SDK returned. The library turns the SDK's retries off: the"
            " last two columns are without them.",
            ends_in_text=True,
        )
        yield Section(
            title="9. Methods that met a need in this run",
            columns=("need", "methods"),
            left=2,
            rows=choices(self.figures, self.curves),
            caption="Begin at the top. Cheapest first, with the write units of a change here; if"
            " hot, the fastest of those without a silent error after lost answers.",
        )

    def verdict(self) -> Verdict | None:
        """Name every guarantee that a figure contradicts, if there are any."""
        lines = [line for figure in self.figures for line in broken(figure)]
        text = "\n".join(f"broken: {line}" for line in lines)
        return Verdict(text, "bold red", FAILED) if lines else None

    def as_rows(self) -> Sequence[Mapping[str, object]]:
        """Return the figures for CSV, a row for each method."""
        columns = (_METHOD, *(column for part in _PARTS for column in part.columns))
        rows = rows_of(columns, self.figures)
        return [{**row, **_curve_row(self.curves.get(str(row["method"]), ()))} for row in rows]

    def draw(self, figure: Any) -> None:
        """Draw errors, regions, prices, and the curves of contention."""
        figure.set_size_inches(*INCHES)
        axes = figure.subplots(3, 2)
        names = [figures.method for figures in self.figures]
        for axis, (title, of, colour) in zip(axes[:2].flat, _BARS, strict=True):
            values = [of(figures) for figures in self.figures]
            colours = [colour if value else OURS for value in values]
            labels = [f"{value:,.1f}" if value % 1 else f"{value:,.0f}" for value in values]
            draw_bars(axis, title, names, values, colours=colours, labels=labels)
        for axis, (title, name, scale) in zip(axes[2], _LINES, strict=True):
            series = {
                method: [(point.writers, getattr(point, name)) for point in points]
                for method, points in self.curves.items()
            }
            draw_lines(axis, title, series, x_name="writers of one counter", y_scale=scale)

    def _contention(self) -> Section:
        writers = [str(point.writers) for point in next(iter(self.curves.values()), ())]
        return Section(
            title=f"6. Writers of one counter: useful changes/s, writes repeated ({MODEL})",
            columns=("method", *writers),
            rows=[[method, *map(_point_text, points)] for method, points in self.curves.items()],
            caption="The last digits of a cell: the share of the writes sent that repeat an earlier"
            " one. collection-sharded is the ledger with `ledger table set shards`; combined, with"
            " `ledger table set combine`, where the writers are callers of one process.",
        )

    def _arriving(self) -> Section:
        rates = max(self.backlogs.values(), key=len, default=())
        return Section(
            title=f"7. Changes that arrive at a rate of their own ({MODEL})",
            columns=(
                "method",
                *(f"{backlog.arriving_per_second:,}/s:\nthrough, waiting" for backlog in rates),
            ),
            rows=[
                [method, *map(_backlog_text, backlogs), *[""] * (len(rates) - len(backlogs))]
                for method, backlogs in self.backlogs.items()
            ],
            caption=f"Waiting: after {ARRIVING_SECONDS / 2:g} and {ARRIVING_SECONDS:g} s; where the"
            " second is about twice the first, it grows without end, and higher rates are left out."
            f" A change that is not applied is made again after {AGAIN_SECONDS:g} s.",
        )


def _point_text(point: Point) -> str:
    return f"{point.useful_per_second:,.0f} {point.repeated:3.0%}"


def _backlog_text(one: Backlog) -> str:
    return f"{one.useful_per_second:,.0f}/s, {one.waiting_half_way:,} then {one.waiting:,}"


def _claim_text(claim: Claim) -> Text:
    return Text(claim.text + _SIGNS[claim.status], style=_STYLES[claim.status])


def _times(repeat: Repeat) -> str:
    is_once = repeat == Repeat(1, refused=True)
    return "refused" if is_once else f"{repeat.times}{', refused' * repeat.refused}"


def _signed(number: int) -> str:
    return f"{number:+,}" if number else "0"


def _count(number: int) -> str:
    return f"{number:,}" if number else "-"


def _curve_row(points: Sequence[Point]) -> dict[str, object]:
    return {
        f"{name}_{point.writers}_writers": round(value, 4)
        for point in points
        for name, value in (
            ("useful_per_second", point.useful_per_second),
            ("repeated_share", point.repeated),
            ("failed_share", point.failed),
        )
    }


def _promise(about: About, heading: str) -> _Column:
    """Return the column of a guarantee, checked by the figures before it."""
    return ReportColumn("", heading, lambda one: claims(one)[about], _claim_text)


def _repeat(moment: str) -> _Column:
    name = f"repeat_{moment.replace(' ', '_')}"
    return ReportColumn(name, moment, lambda one: _times(one.repeats[moment]), str)


class _Part(NamedTuple):
    """A table of every method; its last column is the guarantee. `{0}` are the options."""

    title: str
    columns: Sequence[_Column]
    caption: str = ""


_METHOD: _Column = ReportColumn("method", "method", lambda one: one.method, str)
_PARTS = (
    _Part(
        "1. One region: {0.changes:,} changes of +1 by {0.writers} concurrent writers;"
        " {0.lost:.0%} of the writes get no answer ({0.where})",
        (
            ReportColumn("true_value", "true", lambda one: one.counted.true_value),
            ReportColumn("value", "kept", lambda one: one.counted.value),
            ReportColumn("error", "error", lambda one: one.counted.error, _signed),
            ReportColumn("silent_error", "silent", lambda one: one.counted.silent_error, _count),
            ReportColumn("unknown", "unknown", lambda one: one.counted.unknown, _count),
            ReportColumn("rejected", "rejected", lambda one: one.counted.not_written, _count),
            _promise("unknown", "after lost answers"),
        ),
        "Half of the writes without an answer are applied. True: without rejected changes."
        " Silent: error that the callers' answers do not account for.",
    ),
    _Part(
        "2. The price of these changes ({0.where})",
        (
            ReportColumn(
                "repeated_share", "repeated", lambda one: one.counted.repeated, "{:.0%}".format
            ),
            ReportColumn("write_units_per_change", "units", lambda one: one.price, _DECIMALS),
            ReportColumn("read_units_per_change", "read", lambda one: one.read_price, _DECIMALS),
            ReportColumn(
                "p50_milliseconds", "p50 ms", lambda one: one.counted.p50_milliseconds, _TENTHS
            ),
            ReportColumn(
                "p99_milliseconds", "p99 ms", lambda one: one.counted.p99_milliseconds, _WHOLE
            ),
            ReportColumn("alone_units", "alone", lambda one: str(one.alone), str),
            _promise("cost", "promised alone"),
        ),
        "Write and read units per change in one region; each further region writes as many again."
        " Alone: write / read by a lone writer without faults (model). Milliseconds are virtual on"
        " the model.",
    ),
    _Part(
        f"3. The same token again: how often the change counts ({MODEL})",
        (*map(_repeat, MOMENTS), _promise("tokens", "a token is known")),
        "Away: in another region, once all has replicated. Refused: counted once.",
    ),
    _Part(
        "4. All {0.regions} regions write during a partition, which then heals ({0.where})",
        (
            ReportColumn("regions_true_value", "true", lambda one: one.partitioned.applied),
            ReportColumn("regions_value_least", "least", lambda one: one.partitioned.least),
            ReportColumn("regions_value_most", "most", lambda one: one.partitioned.most),
            ReportColumn("regions_lost", "lost", lambda one: one.partitioned.lost, _count),
            _promise("regions", "several regions"),
        ),
        "Least, most: what the regions show in the end.",
    ),
    _Part(
        "5. A stock with a minimum of 0, and twice as many buyers ({0.where})",
        (
            ReportColumn("stock", "", lambda one: one.sold.stock),
            ReportColumn("one_region_sold", "sold", lambda one: one.sold.sold),
            ReportColumn("one_region_unknown", "unknown", lambda one: one.sold.unknown, _count),
            ReportColumn("one_region_oversold", "over", lambda one: one.sold.oversold, _count),
            ReportColumn("one_region_unsold", "unsold", lambda one: one.sold.unsold, _count),
            ReportColumn("partition_sold", "partition", lambda one: one.sold_partitioned.sold),
            ReportColumn(
                "partition_oversold", "over", lambda one: one.sold_partitioned.oversold, _count
            ),
            _promise("thresholds", "limit in one region"),
        ),
        "Sold: reported as sold. Over: sold, but not in stock. Unsold: although buyers were"
        " turned away. Partition: sold by all regions during one, each to as many buyers.",
    ),
)
_RETRIED: Sequence[ReportColumn[SdkRetried]] = (
    ReportColumn("", "method", lambda one: one.method, str),
    ReportColumn("", "answered", lambda one: one.answered, str),
    ReportColumn("", "kept of 1", lambda one: one.kept),
    ReportColumn("", "add says", lambda one: one.reported, str),
    ReportColumn("", "kept", lambda one: one.kept_without),
    ReportColumn("", "add says", lambda one: one.reported_without, str),
)
