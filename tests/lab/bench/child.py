"""The process of one round: its task is JSON on the command line, what it measured a line of JSON.

python -m lab.bench.child '{"run": "writes:record", ...}'

Asked to end (SIGTERM), or left behind by its parent, it removes what it has made, and ends.
"""

import asyncio
import signal
import sys
from collections.abc import Awaitable
from importlib import import_module

import anyio
from pydantic import TypeAdapter

from lab.bench.measurement import Measured
from lab.bench.rounds import Round, Task
from lab.harness.child import send_value
from lab.harness.command import end_with_parent
from ledger.core.errors import LedgerError
from ledger.runtime.loops import run_on_loop
from ledger.runtime.signals import STOPPED_BY_SIGNAL, stopped_by_signals
from ledger.runtime.tasks import first_error_alone


def main(text: str) -> None:
    """Run the round; the last line of standard error says what went wrong."""
    end_with_parent()
    task = TypeAdapter(Task).validate_json(text)
    module, function = task.run.split(":")
    case = getattr(import_module(f"lab.bench.{module}"), function)
    try:
        with first_error_alone():
            run = asyncio.run if task.options.get("plain_loop", False) else run_on_loop
            found: Measured = run(_measured(case(Round(task))))
    except LedgerError as error:
        sys.exit(str(error))  # an error of the ledger is reported without a traceback
    send_value(found)


async def _measured(round_: Awaitable[Measured]) -> Measured:
    """Return what a round measures; SIGTERM cancels it."""
    with anyio.CancelScope() as scope:
        async with stopped_by_signals(lambda _: scope.cancel(), watched=(signal.SIGTERM,)):
            return await round_
    sys.exit(STOPPED_BY_SIGNAL + signal.SIGTERM)


if __name__ == "__main__":
    main(sys.argv[1])
