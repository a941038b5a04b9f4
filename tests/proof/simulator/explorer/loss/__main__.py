"""`python -m proof.simulator.explorer.loss`: explore each case, or what each mutant breaks."""

from functools import partial

from ledger.runtime import command_line
from proof.simulator.explorer.listing import command
from proof.simulator.explorer.loss.cases import LARGE, SMALL
from proof.simulator.explorer.loss.model import Model
from proof.simulator.explorer.loss.mutants import MUTANTS
from proof.simulator.explorer.loss.state import Case

app = command(
    {name: partial(Model, case) for name, case in {**SMALL, **LARGE}.items()},
    {name: partial(Model, Case().with_mutant(one)) for name, one in MUTANTS.items()},
    about="A region is lost for good, in every order of events of small cases.",
)

if __name__ == "__main__":
    command_line.run(app)
