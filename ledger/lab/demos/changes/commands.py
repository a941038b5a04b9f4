"""`ledger demo`: the whole of it on this machine, with a verdict at the end."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import anyio
import typer
from rich.console import Console

from ledger.commands.live import with_display
from ledger.core.errors import LocalTableError
from ledger.lab.demos.changes.display import panel, verdict_table
from ledger.lab.demos.changes.picture import draw_errors
from ledger.lab.demos.changes.sample import load_sample
from ledger.lab.demos.changes.state import Verdict
from ledger.lab.harness.picture import check_picture, save_picture
from ledger.runtime.clock import SystemClock
from ledger.runtime.command_line import FAILED, new_app

if TYPE_CHECKING:
    from ledger.lab.demos.changes.story import Story

app = new_app()


@app.command()
def demo(
    *,
    input: Annotated[  # noqa: A002 (the option's name)
        Path | None, typer.Option(help="A CSV or JSONL file of changes; else a shipped sample.")
    ] = None,
    counter: Annotated[str, typer.Option(help="--input: its column of counters.")] = "account",
    change: Annotated[str, typer.Option(help="--input: its column of amounts.")] = "change",
    engine: Annotated[
        str, typer.Option(help="Of the local global table: memory, dynoxide.")
    ] = "memory",
    seed: Annotated[int, typer.Option(help="Of lag, order and choice of reads.")] = 7,
    lag: Annotated[float, typer.Option(min=0, help="Least replication lag, seconds.")] = 0.05,
    jitter: Annotated[float, typer.Option(min=0, help="Up to this much more, seconds.")] = 0.3,
    seconds: Annotated[float, typer.Option(min=0, help="How long writing is spread over.")] = 12.0,
    picture: Annotated[
        Path | None,
        typer.Option(help="Draw the error of each counter: .svg or .png.", dir_okay=False),
    ] = None,
) -> None:
    """Write real bank changes from three regions, and compare the ledger with single items.

    Starts a global table of three regions on this machine, with replication lag and a partition
    that heals; writes the changes to the ledger and, as usual, to single-item counters; reads and
    checks totals in every region while the compactor merges. Exits with 1 if the ledger is wrong
    anywhere.
    """
    try:
        from ledger.lab.demos.changes.story import Options, Story  # noqa: PLC0415 (needs the extra `local`)
    except ModuleNotFoundError as error:
        raise LocalTableError(
            f"the demo needs {error.name}: pip install 'multi-region-ledger[local]'"
        ) from None
    if picture is not None:
        check_picture(picture)
    sample = load_sample(input, counter=counter, change=change)
    story = Story(
        sample,
        Options(engine, seed, lag, jitter, seconds),
        clock=SystemClock(),
    )
    console = Console()
    console.print(
        f"{len(sample.changes):,} changes of {len(sample.truth):,} counters: {sample.name}"
    )
    verdict = anyio.run(_with_display, story, console)
    console.print(verdict_table(verdict))
    if picture is not None:
        save_picture(partial(draw_errors, verdict), picture)
    if not verdict.is_exact:
        console.print("the ledger was wrong", style="bold red")
        raise typer.Exit(FAILED)
    console.print("the ledger was exact in every region and in every read", style="bold green")


async def _with_display(story: "Story", console: Console) -> Verdict:
    """Run the story under a live panel."""
    return await with_display(story.run, console, panel=lambda: panel(story.progress))
