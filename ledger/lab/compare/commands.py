"""`ledger compare`: run every way of counting, print tables, write CSV, JSON and a picture."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ledger.core.errors import InvalidInput
from ledger.runtime.command_line import FAILED, new_app

QUICK_CHANGES, QUICK_WRITERS = 40, 4
REGIONS_MAX = 5
WRITERS_MAX, CHANGES_MAX = 256, 20_000
SHARE_MAX = 0.5

app = new_app()


@app.command()
def compare(
    *,
    writers: Annotated[
        int, typer.Option(min=1, max=WRITERS_MAX, help="At one counter at once.")
    ] = 8,
    changes: Annotated[
        int, typer.Option(min=16, max=CHANGES_MAX, help="With each method, by all writers.")
    ] = 120,
    regions: Annotated[int, typer.Option(min=2, max=REGIONS_MAX, help="How many.")] = 2,
    lost: Annotated[
        float,
        typer.Option(min=0, max=SHARE_MAX, help="Share of writes that get no answer."),
    ] = 0.1,
    conflicts: Annotated[
        float,
        typer.Option(min=0, max=SHARE_MAX, help="Share that meet another's transaction."),
    ] = 0.02,
    seed: Annotated[int, typer.Option(help="Of what is lost, of tokens, tags and waits.")] = 7,
    engine: Annotated[
        str, typer.Option(help="Of the local global table: memory, dynoxide; or model.")
    ] = "memory",
    quick: Annotated[
        bool, typer.Option("--quick", help="Small: 40 changes, 4 writers, a short curve.")
    ] = False,
    csv_file: Annotated[
        Path | None, typer.Option("--csv", help="A line for each method.", dir_okay=False)
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write all figures here.", dir_okay=False)
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw them here: .svg or .png.", dir_okay=False)
    ] = None,
) -> None:
    """Compare all ways of counting on one workload, and recommend a method.

    Each method counts the same changes on a global table on this machine while answers get lost,
    then in all regions while these are cut off, then sells a stock that must not fall below 0.
    Repeated tokens and contention run on a model with virtual time. Each promise of a method
    stands beside the figure that shows it. Exits with 1 if a figure breaks one.

    Which writes are lost is up to the seed; how requests meet on a real engine is not. With
    `--engine model` all runs on virtual time, and replays to the digit.
    """
    # Heavy: other commands do without.
    from ledger.lab.compare import display, promises, session  # noqa: PLC0415
    from ledger.lab.compare import picture as drawing  # noqa: PLC0415
    from ledger.lab.compare.report import Options, to_csv, to_json  # noqa: PLC0415

    if picture is not None:
        drawing.check(picture)
    for file in filter(None, (csv_file, json_file, picture)):
        if not file.parent.is_dir():
            raise InvalidInput(f"{file}: there is no folder {file.parent}")
    options = Options(
        engine=engine,
        regions=regions,
        writers=min(writers, QUICK_WRITERS) if quick else writers,
        changes=min(changes, QUICK_CHANGES) if quick else changes,
        lost=lost,
        conflicts=conflicts,
        seed=seed,
        quick=quick,
    )
    console = Console(highlight=False)
    with console.status("") as status:
        report = session.compare(options, tell=status.update)
    display.show(report, console)
    if csv_file is not None:
        csv_file.write_text(to_csv(report), encoding="utf-8")
    if json_file is not None:
        json_file.write_bytes(to_json(report))
    if picture is not None:
        drawing.draw(report, picture)
    wrong = [line for one in report.figures for line in promises.broken(one, options)]
    for line in wrong:
        console.print(f"broken: {line}", style="bold red", markup=False)
    if wrong:
        raise typer.Exit(FAILED)
