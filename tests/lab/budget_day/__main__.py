"""`python -m lab.budget_day`: figures of budgets over a day of moving demand.

::

    python -m lab.budget_day                  six days at 2 spends a second
    python -m lab.budget_day --rate 20        as many spends as a busy key has: half an hour
    python -m lab.budget_day --only "cut off" the days whose name has these words

Exits with 1 if more was spent than a limit.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from typing import Annotated

import anyio
import typer

from lab.budget_day.day import HOUR_SECONDS, Day, DayRun, Figures
from ledger.runtime.console_tables import Grid, new_console, number, print_grid, prose

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
COLUMNS = (
    prose("day"),
    number("spends"),
    number("answered here"),
    number("refused"),
    number("of these elsewhere"),
    number("refused by fixed shares"),
    number("transfers / 1,000"),
    number("writes of rights / spend"),
)

app = typer.Typer(add_completion=False)


@app.command()
def main(
    *,
    rate: Annotated[float, typer.Option(min=0.1, help="Spends a second, in all regions.")] = 2.0,
    hours: Annotated[int, typer.Option(min=1, max=24, help="How long a day is.")] = 24,
    seed: Annotated[int, typer.Option(min=0, help="Of what is drawn.")] = 7,
    only: Annotated[str, typer.Option(help="Days whose name has these words.")] = "",
) -> None:
    """Run days of demand that moves between four regions, on virtual time."""
    console = new_console()
    rows, is_over = [], False
    for day in DAYS:
        if only not in day.name:
            continue
        asked = replace(day, rate=rate, seconds=hours * HOUR_SECONDS, seed=seed)
        with console.status(day.name), _without_warnings():
            figures = anyio.run(DayRun(asked).run)
        rows.append(_row(asked, figures))
        is_over = is_over or figures.most > asked.limit
    print_grid(Grid(COLUMNS, rows), console)
    if is_over:
        console.print("more was spent than a limit")
        raise typer.Exit(1)


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


def _row(day: Day, found: Figures) -> list[str]:
    spends = max(1, found.spends)
    return [
        day.name,
        f"{found.spends:,}",
        f"{100 * found.here / spends:.2f} %",
        f"{found.refused:,}",
        f"{found.elsewhere:,}",
        f"{found.static:,}",
        f"{1_000 * found.transfers / spends:.3f}",
        f"{found.writes / spends:.3f}",
    ]


if __name__ == "__main__":
    app()
