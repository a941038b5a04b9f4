"""`python -m proof.simulator.explorer.terms`: each case, or what each mutant breaks."""

from functools import partial

from ledger.runtime import command_line
from proof.simulator.explorer.listing import command
from proof.simulator.explorer.terms.model import CASES, MUTANTS, Case, Model

app = command(
    {name: partial(Model, case) for name, case in CASES.items()},
    {name: partial(Model, Case.of_mutant(one)) for name, one in MUTANTS.items()},
    about="The terms of a table change, in every order of events and of time.",
)

if __name__ == "__main__":
    command_line.run(app)
