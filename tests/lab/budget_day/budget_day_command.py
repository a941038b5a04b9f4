"""`lab budget-day`: figures of budgets over days of moving demand."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Annotated

import anyio
import typer

from lab.budget_day.day import HOUR_SECONDS, Day, DayRun, Figures
from lab.harness.report_columns import ReportColumn, rows_of, section_of
from ledger.commands.outputs import Force
from ledger.demo.harness.options import CsvFile, JsonFile, Seed
from ledger.demo.harness.report import ReportFiles, RunReport, Section, Verdict, finish
from ledger.runtime.command_line import FAILED, new_app
from ledger.runtime.command_options import spread_options
from ledger.runtime.console_tables import new_console

UNEVEN = (8, 4, 2, 1)
DAYS = (
    Day(name="102 % of demand", part=Decimal("1.02")),
    Day(name="demand 8:4:2:1, 110 %", part=Decimal("1.1"), weights=UNEVEN),
    Day(
        name="the same, its largest region cut off for 4 h",
        part=Decimal("1.1"),
        weights=UNEVEN,
        cut=True,
    ),
    Day(name="80 % of demand: it runs out", part=Decimal("0.8")),
    Day(name="each hour, 110 %", part=Decimal("1.1"), hourly=True),
    Day(name="each hour, a region cut off for 4 h", part=Decimal("1.1"), hourly=True, cut=True),
)
Ran = tuple[Day, Figures]


def _per_spend(
    name: str, heading: str, form: str, count: Callable[[Figures], int]
) -> ReportColumn[Ran]:
    return ReportColumn(name, heading, lambda ran: ran[1].per_spend(count(ran[1])), form.format)


COLUMNS: Sequence[ReportColumn[Ran]] = (
    ReportColumn("day", "day", lambda ran: ran[0].name, str),
    ReportColumn("spends", "spends", lambda ran: ran[1].spends),
    _per_spend("here", "answered here", "{:.2%}", lambda found: found.here),
    ReportColumn("refused", "refused", lambda ran: ran[1].refused),
    ReportColumn("elsewhere", "of these elsewhere", lambda ran: ran[1].elsewhere),
    ReportColumn("static", "refused by fixed shares", lambda ran: ran[1].static),
    _per_spend("transfers", "transfers / 1,000", "{:.3f}", lambda found: 1_000 * found.transfers),
    _per_spend("writes", "writes of rights / spend", "{:.3f}", lambda found: found.writes),
)

app = new_app()


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetDayOptions:
    """How much demand there is, for how long, and on which days."""

    rate: Annotated[float, typer.Option(min=0.1, help="Spends a second, in all regions.")] = 2.0
    hours: Annotated[int, typer.Option(min=1, max=24, help="How long a day is.")] = 24
    seed: Seed = 7
    only: Annotated[str, typer.Option(help="Days whose name has these words.")] = ""
    json_file: JsonFile = None
    csv_file: CsvFile = None
    force: Force = False

    def days(self) -> Sequence[Day]:
        """Return the days that were asked for."""
        seconds = self.hours * HOUR_SECONDS
        return [
            replace(day, rate=self.rate, seconds=seconds, seed=self.seed)
            for day in DAYS
            if self.only in day.name
        ]


@dataclass(frozen=True, slots=True)
class BudgetDayReport(RunReport):
    """Days, and what became of their spends."""

    days: Sequence[Ran]

    def sections(self) -> Sequence[Section]:
        """Return a row for each day."""
        return (section_of(COLUMNS, self.days),)

    def as_rows(self) -> Sequence[Mapping[str, object]]:
        """Return the same for CSV."""
        return rows_of(COLUMNS, self.days)

    def verdict(self) -> Verdict | None:
        """Say if more was spent than a limit."""
        if any(figures.most > day.limit for day, figures in self.days):
            return Verdict("more was spent than a limit", "bold red", FAILED)
        return None


@app.command("budget-day")
@spread_options
def budget_day(options: BudgetDayOptions) -> None:
    """Run days of demand that moves between four regions, on virtual time.

    Six days at 2 spends a second take some minutes; a rate of 20, as a busy key has, half an hour.
    Exits with 1 if more was spent than a limit.
    """
    files = ReportFiles.checked(options)
    console, ran = new_console(), list[Ran]()
    for day in options.days():
        with console.status(day.name), _without_warnings():
            ran.append((day, anyio.run(DayRun(day).run)))
    finish(BudgetDayReport(ran), console, files)


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Say nothing of crashes, which are many."""
    log = logging.getLogger("ledger")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)
