"""`python -m proof.simulator.explorer.sums`: explore each case, or what each mutant breaks."""

from functools import partial

from ledger.runtime import command_line
from proof.simulator.explorer.listing import command
from proof.simulator.explorer.sums.model import Model
from proof.simulator.explorer.sums.rules import CASES, MUTANTS

app = command(
    {name: partial(Model, case) for name, case in CASES.items()},
    {name: partial(Model, case) for name, case in MUTANTS.items()},
    about="Reduces that add to sum items, in every order of events of small cases.",
)

if __name__ == "__main__":
    command_line.run(app)
