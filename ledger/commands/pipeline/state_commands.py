"""`ledger pipeline move-states` and `forget`: where states are kept, and for how long."""

from ledger.commands.options import PipelineOptions
from ledger.contract.open_regions import open_table
from ledger.pipeline.auditing.forget import Forget, Forgotten
from ledger.pipeline.auditing.move import Move, Moved
from ledger.pipeline.core.record_times import at_seconds
from ledger.pipeline.core.state_places import shown
from ledger.runtime.clock import SystemClock
from ledger.runtime.command_options import spread_options
from ledger.runtime.loops import run_on_loop
from ledger.runtime.output import print_json, say
from ledger.runtime.services import Services
from ledger.settings import Settings

LANES_SHOWN_MAX = 3


@spread_options
def move_states(common: PipelineOptions) -> None:
    """Move the states of a pipeline's records to the table that `state_table` names, or back.

    The compactor's search reads the whole table, but no other: states in a separate table cost it
    nothing. Create that first, by `ledger table create --states`. Workers with the former settings
    are stopped; started again with the new ones they continue at once, while states are moved. Safe
    to run again: an interrupted move is continued.
    """
    settings = common.settings()
    done = run_on_loop(_move(settings))
    if common.as_json:
        print_json([done])
        return
    say(
        f"states lie in {shown(settings.pipeline.state_table or '')}: {done.records:,} moved,"
        f" {done.lanes:,} lanes marked"
    )


@spread_options
def forget(common: PipelineOptions) -> None:
    """Delete the states of records older than `keep_states`; corrections of those are refused.

    Run it from a scheduler, such as once a day. The age of a record is measured from its own time
    (`fields.time`). Only settled states are deleted, and their sums are kept for `ledger pipeline
    audit`, so totals and audits stay exact. Waits some minutes first, for what workers are
    processing. Safe to run again: an interrupted run is continued.
    """
    settings = common.settings()
    done = run_on_loop(_forget(settings))
    if common.as_json:
        print_json([done])
        return
    held = f" by lanes {', '.join(sorted(done.lanes)[:LANES_SHOWN_MAX])}" if done.lanes else ""
    left = f", {done.left:,} not settled yet are held{held}" if done.left else ""
    moment = at_seconds(done.before).isoformat()
    say(f"{done.records:,} records from before {moment} forgotten{left}")


def _show_progress(line: str) -> None:
    say(line, err=True)


async def _forget(settings: Settings) -> Forgotten:
    async with open_table(settings, clock=SystemClock()) as table:
        return await Forget(
            table.stores,
            table.view,
            services=Services.of(),
            on_progress=_show_progress,
        ).run()


async def _move(settings: Settings) -> Moved:
    async with open_table(settings, clock=SystemClock()) as table:
        return await Move(
            table.stores,
            table.view,
            services=Services.of(),
            on_progress=_show_progress,
        ).run()
