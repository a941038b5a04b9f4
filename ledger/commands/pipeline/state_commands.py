"""`ledger pipeline move-states`: where the states of a pipeline's records lie."""

from typing import Annotated

import typer

from ledger.contract.opening import open_table
from ledger.pipeline.auditing.move import Move, Moved
from ledger.pipeline.core.state_places import shown
from ledger.runtime.clock import SystemClock, system_random
from ledger.runtime.command_line import Config
from ledger.runtime.loops import run_on_loop
from ledger.settings import Settings

PipelineName = Annotated[
    str | None,
    typer.Option(
        "--pipeline", help="Name of the pipeline.", show_default="pipeline, or the only one"
    ),
]


def move_states(*, pipeline: PipelineName = None, config: Config = None) -> None:
    """Move the states of a pipeline's records to the table that `state_table` names, or back.

    The compactor's search reads the whole table, but no other: states of their own table cost it
    nothing. Make that first, by `ledger table create --states`. Workers by the former settings are
    stopped; started again with the new ones they go on at once, while states are moved.
    Safe to run again: one that was cut off is continued.
    """
    settings = Settings.load(config).of_pipeline(pipeline)
    done = run_on_loop(_move(settings))
    typer.echo(
        f"states lie in {shown(settings.pipeline.state_table or '')}: {done.records:,} moved,"
        f" {done.lanes:,} lanes marked"
    )


def _tell(line: str) -> None:
    typer.echo(line, err=True)


async def _move(settings: Settings) -> Moved:
    async with open_table(settings, clock=SystemClock()) as table:
        return await Move(
            table.stores,
            table.view,
            clock=SystemClock(),
            randomness=system_random(),
            tell=_tell,
        ).run()
