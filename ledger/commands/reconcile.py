"""`ledger reconcile`: correct a total by a physical count."""

from typing import Annotated

import anyio
import typer

from ledger.commands.options import amount_of, iso_time
from ledger.commands.regions import HomeOptions
from ledger.core import amounts
from ledger.core.reconciliation import Reconciled
from ledger.http.wire.schemas import ReconciledModel
from ledger.runtime.command_line import new_app
from ledger.runtime.command_options import spread_options
from ledger.runtime.output import print_json, say
from ledger.session.ledger import Ledger

app = new_app()


@app.command()
@spread_options
def reconcile(
    counter: Annotated[str, typer.Argument(help="Counter id.")],
    *,
    counted: Annotated[str, typer.Option(help="The quantity found, an exact decimal number.")],
    at: Annotated[
        str | None,
        typer.Option(help="ISO time of the count, with a zone.", show_default="now"),
    ] = None,
    reason: Annotated[str | None, typer.Option(help="Note of the correcting entry.")] = None,
    token: Annotated[
        str | None, typer.Option(help="Name of the count.", show_default="its time, if given")
    ] = None,
    common: HomeOptions,
) -> None:
    """Correct a total by a physical count, through the home region, once for each count.

    With --at or --token, repeating the command changes nothing more and shows the first correction,
    as long as that is in the table or its archive. A count that fits leaves an entry of 0.
    """
    settings, place = common.chosen()
    found, moment = amount_of(counted), iso_time("--at", at)

    async def call() -> Reconciled:
        async with Ledger.open(settings, region=place) as ledger:
            return await ledger.reconcile(
                counter, counted=found, at=moment, reason=reason, token=token
            )

    done = anyio.run(call)
    if common.as_json:
        print_json([ReconciledModel.fields_of(done)])
        return
    earlier = " by an earlier call" if done.repeated else ""
    what = f"corrected by {amounts.to_text(done.change)}" if done.change else "nothing to correct"
    say(
        f"{done.counter}: {what}{earlier}; counted {amounts.to_text(done.counted)}, total"
        f" {amounts.to_text(done.total)} at {done.at.isoformat()} in {done.region}"
    )
