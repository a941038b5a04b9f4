"""`python -m proof.simulator.explorer.slices`: explore each case, or what mutants break."""

from functools import partial

from ledger.runtime import command_line
from proof.simulator.explorer.listing import command
from proof.simulator.explorer.slices.model import Model
from proof.simulator.explorer.slices.rules import CASES, MUTANTS

app = command(
    {name: partial(Model, case) for name, case in CASES.items()},
    {name: partial(Model, case) for name, case in MUTANTS.items()},
    about="Slices and their leaders, in every order of events of small cases.",
)

if __name__ == "__main__":
    command_line.run(app)
