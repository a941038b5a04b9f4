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
from ledger.runtime.tasks import first_error_alone


def main(arguments: list[str]) -> int:
    """Run the round; what goes wrong is told on standard error, in its last line."""
    *core, text = arguments
    take_core(int(core[0]) if core else None)
    task = TypeAdapter(Task).validate_json(text)
    module, function = task.run.split(":")
    case = getattr(import_module(f"ledger.lab.bench.{module}"), function)
    try:
        with first_error_alone():
            found: Measured = run_on_loop(case(Round(task)), loop=task.loop)
    except LedgerError as error:
        sys.exit(str(error))  # an error of the ledger is reported without a traceback
    sys.stdout.write(TypeAdapter(Measured).dump_json(found).decode() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
