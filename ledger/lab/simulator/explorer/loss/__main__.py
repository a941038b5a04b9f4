"""`python -m ledger.lab.simulator.explorer.loss`: explore each case, or what each mutant breaks."""

from functools import partial

from ledger.lab.simulator.explorer.listing import command
from ledger.lab.simulator.explorer.loss.cases import LARGE, SMALL
from ledger.lab.simulator.explorer.loss.model import Model
from ledger.lab.simulator.explorer.loss.mutants import MUTANTS
from ledger.lab.simulator.explorer.loss.state import Case
from ledger.runtime import command_line

app = command(
    {name: partial(Model, case) for name, case in {**SMALL, **LARGE}.items()},
    {name: partial(Model, Case().with_mutant(one)) for name, one in MUTANTS.items()},
    about="A region is lost for good, in every order of events of small cases.",
)

if __name__ == "__main__":
    command_line.run(app)
