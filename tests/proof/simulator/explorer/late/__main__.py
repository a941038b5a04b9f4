"""`python -m proof.simulator.explorer.late`: explore each case, or what each mutant breaks."""

from functools import partial

from ledger.runtime import command_line
from proof.simulator.explorer.late.model import CASES, MUTANTS, Model
from proof.simulator.explorer.listing import command

app = command(
    {name: partial(Model, case) for name, case in CASES.items()},
    {name: partial(Model, case) for name, case in MUTANTS.items()},
    about="Answers to late calls, in every order of events of small cases.",
)

if __name__ == "__main__":
    command_line.run(app)
