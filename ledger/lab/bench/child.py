"""The process of one round: its task is JSON on the command line, what it measured JSON on output.

python -m ledger.lab.bench.child [CORE] '{"run": "writes:record", ...}'
"""

import sys
from importlib import import_module

from pydantic import TypeAdapter

from ledger.core.errors import LedgerError
from ledger.lab.bench.measuring import Measured
from ledger.lab.bench.processes import take_core
from ledger.lab.bench.rounds import Round, Task
from ledger.runtime.loops import run_on_loop


def main(arguments: list[str]) -> int:
    """Run the round; what goes wrong is told on standard error, in its last line."""
    *core, text = arguments
    take_core(int(core[0]) if core else None)
    task = TypeAdapter(Task).validate_json(text)
    module, function = task.run.split(":")
    case = getattr(import_module(f"ledger.lab.bench.{module}"), function)
    try:
        found: Measured = run_on_loop(case(Round(task)), loop=task.loop)
    except* LedgerError as group:
        sys.exit(str(_first(group)))  # an error of ours is told without a trace
    sys.stdout.write(TypeAdapter(Measured).dump_json(found).decode() + "\n")
    return 0


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
