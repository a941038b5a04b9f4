"""`ledger bench`: run cases, print tables, write JSON and a picture."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ledger.runtime.command_line import new_app

QUICK_SECONDS = 0.2

app = new_app()


@app.command()
def bench(
    *,
    cases: Annotated[
        list[str] | None,
        typer.Option(help="A group, or part of a name; may be repeated. Else every case."),
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.05, help="For each round of each case.")] = 3.0,
    rounds: Annotated[int, typer.Option(min=1, help="Of which the median counts.")] = 3,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes: does it run?")] = False,
    curves: Annotated[bool, typer.Option("--curves", help="Growth curves as well.")] = False,
    full: Annotated[bool, typer.Option("--full", help="--curves: to the largest sizes.")] = False,
    overload: Annotated[bool, typer.Option("--overload", help="A steady overload too.")] = False,
    minutes: Annotated[float, typer.Option(min=0, help="--overload: for how long.")] = 10.0,
    pin: Annotated[bool, typer.Option(help="Client and stub on a core each.")] = True,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write all figures here.", dir_okay=False)
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw them here: .svg or .png.", dir_okay=False)
    ] = None,
) -> None:
    """Measure the ledger's throughput and cost, each case beside its baseline.

    The client runs in a process of its own against a stub of DynamoDB in another, on this machine;
    ratios are what to read. Every row shows how busy the stub was, and how much more it could do.
    """
    # Heavy: other commands do without.
    from ledger.lab.bench.runner import Sizes  # noqa: PLC0415
    from ledger.lab.bench.session import Options, run  # noqa: PLC0415

    sizes = Sizes(
        seconds=QUICK_SECONDS if quick else seconds,
        rounds=1 if quick else rounds,
        is_quick=quick,
        pin=pin,
    )
    wanted = Options(
        cases=cases or None,
        curves=curves or full,
        full=full,
        overload_minutes=minutes if overload else None,
        json_file=json_file,
        picture=picture,
    )
    run(wanted, sizes, Console())
