"""`ledger pipeline demo`: everything goes wrong, and the totals are compared with the truth."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import anyio
import typer
from rich.console import Console

from ledger.commands.live import with_display
from ledger.commands.paging import ADVANCED, PagedCommand
from ledger.core.errors import InvalidInput, LocalTableError
from ledger.runtime.clock import SystemClock, blocking_sleep
from ledger.runtime.command_line import FAILED, new_app

SHARE_MAX = 0.5
LINGER_SECONDS = 3.0
"""How long the page is served after the end, so that browsers hear of it."""
TWINS = ("no-version", "no-hash", "no-token")
_FAIL, _TWIN_FAIL = (0.01, 0.02, 0.02), (0.05, 0.2, 0.2)
_BATCH, _TWIN_BATCH = 500, 100

app = new_app()


@app.command(cls=PagedCommand)
def demo(
    *,
    messages: Annotated[int, typer.Option(min=1, help="How many, the doubled ones included.")] = (
        20_000
    ),
    trades: Annotated[
        int,
        typer.Option(
            min=0, rich_help_panel=ADVANCED, help="How many; 0: one for every 10 messages."
        ),
    ] = 0,
    regions: Annotated[int, typer.Option(min=1, max=3, help="How many.")] = 2,
    lanes: Annotated[
        int, typer.Option(min=1, max=16, help="In each region, a process for each.")
    ] = 1,
    engine: Annotated[
        str,
        typer.Option(help="memory or dynoxide; in one region dynoxide itself, nothing before it."),
    ] = "memory",
    seed: Annotated[int, typer.Option(help="Of messages, failures, lag.")] = 7,
    rate: Annotated[
        float, typer.Option(min=0, help="Messages a second; 0: as many as are taken.")
    ] = 0.0,
    lead: Annotated[
        int,
        typer.Option(
            min=1, rich_help_panel=ADVANCED, help="Messages of a lane that may wait to be counted."
        ),
    ] = 2_000,
    batch: Annotated[
        int | None,
        typer.Option(
            min=1, max=10_000, rich_help_panel=ADVANCED, help="Records of a batch, at most. [500]"
        ),
    ] = None,
    doubled: Annotated[
        float,
        typer.Option(
            min=0, max=SHARE_MAX, rich_help_panel=ADVANCED, help="Share that comes twice."
        ),
    ] = 0.05,
    disordered: Annotated[
        float,
        typer.Option(min=0, max=SHARE_MAX, rich_help_panel=ADVANCED, help="Share that comes late."),
    ] = 0.05,
    crossing: Annotated[
        float,
        typer.Option(
            min=0, max=SHARE_MAX, rich_help_panel=ADVANCED, help="Share through another region."
        ),
    ] = 0.1,
    poison: Annotated[
        float,
        typer.Option(
            min=0, max=SHARE_MAX, rich_help_panel=ADVANCED, help="Share that cannot be taken."
        ),
    ] = 0.001,
    fail_state: Annotated[
        float | None,
        typer.Option(
            min=0, max=SHARE_MAX, rich_help_panel=ADVANCED, help="Share of state's requests. [0.01]"
        ),
    ] = None,
    fail_map: Annotated[
        float | None,
        typer.Option(min=0, max=SHARE_MAX, rich_help_panel=ADVANCED, help="Of map's. [0.02]"),
    ] = None,
    fail_reduce: Annotated[
        float | None,
        typer.Option(min=0, max=SHARE_MAX, rich_help_panel=ADVANCED, help="Of reduce's. [0.02]"),
    ] = None,
    lag: Annotated[
        float, typer.Option(min=0, rich_help_panel=ADVANCED, help="Least replication lag, seconds.")
    ] = 0.05,
    jitter: Annotated[
        float, typer.Option(min=0, rich_help_panel=ADVANCED, help="Up to this much more, seconds.")
    ] = 0.2,
    twin: Annotated[
        str, typer.Option(help=f"Break a rule, to see it end wrong: {', '.join(TWINS)}.")
    ] = "",
    page: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Show it in a browser, too, on this port; 0: any."),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(help="Where the lanes' files lie: 200 bytes a message.", file_okay=False),
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the report here, too.", dir_okay=False)
    ] = None,
) -> None:
    """Send corrected messages through the pipeline with faults injected, and verify its totals.

    A global table runs on this machine. Producers in each region send versions of trades: doubled,
    late, some through another region, some broken. Each lane is brought in by a process of its own
    over the lean transport. Of each stage's requests a share is lost, loses its answer, lands late,
    or crashes the worker before it, after it, or in between; the home region is cut off for a
    while. Once all is healed, every category must be the truth, which is computed apart, in every
    region. Exits with 1 if one is not.

    Messages a second per core count the CPU time of the pipeline's processes alone: neither that of
    the producers nor of the table. Latency is from the append to a lane's file until the totals of
    the lane's region show it. Without --rate the lanes are kept full, so it is mostly waiting.
    """
    # Heavy: other commands do without.
    from ledger.commands.pipeline.page import serve_page  # noqa: PLC0415
    from ledger.lab.demos.pipeline.display import line, panel, report_table  # noqa: PLC0415
    from ledger.lab.demos.pipeline.options import Options  # noqa: PLC0415
    from ledger.lab.demos.pipeline.report import Report  # noqa: PLC0415

    try:
        from ledger.lab.demos.pipeline.session import Session  # noqa: PLC0415 (needs the extra `local`)
    except ModuleNotFoundError as error:
        raise LocalTableError(
            f"the demo needs {error.name}: pip install 'multi-region-ledger[local]'"
        ) from None
    if twin not in {"", *TWINS}:
        raise InvalidInput(f"--twin {twin!r} is not one of {', '.join(TWINS)}")
    fails = zip((fail_state, fail_map, fail_reduce), _TWIN_FAIL if twin else _FAIL, strict=True)
    state_share, map_share, reduce_share = (
        usual if given is None else given for given, usual in fails
    )
    options = Options(
        messages=messages,
        trades=trades,
        regions=regions,
        lanes=lanes,
        batch=batch or (_TWIN_BATCH if twin else _BATCH),
        lead=lead,
        rate=rate,
        doubled=doubled,
        disordered=disordered,
        crossing=crossing,
        poison=poison,
        fail_state=state_share,
        fail_map=map_share,
        fail_reduce=reduce_share,
        engine=engine,
        lag=lag,
        jitter=jitter,
        seed=seed,
        twin=twin,
    )
    console = Console(highlight=False)
    session = Session(options, clock=SystemClock(), folder=folder)

    async def run() -> Report:
        return await with_display(
            session.run,
            console,
            panel=lambda: panel(session.progress),
            line=lambda: line(session.progress),
        )

    with ExitStack() as stack:
        if page is not None:
            shown = stack.enter_context(serve_page(page))
            session.publish = shown.publish
            console.print(f"totals on {shown.url}")
        report = anyio.run(run)
        if page is not None:
            blocking_sleep(LINGER_SECONDS)
    console.print(report_table(report))
    if json_file is not None:
        json_file.write_text(json.dumps(report.as_json(), indent=2) + "\n", encoding="utf-8")
    if not report.is_exact:
        console.print("the totals are wrong", style="bold red")
        raise typer.Exit(FAILED)
    console.print("exact in every region", style="bold green")
