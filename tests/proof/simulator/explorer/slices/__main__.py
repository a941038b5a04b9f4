"""`python -m proof.simulator.explorer.slices`: explore each case, or what each mutant breaks."""

from ledger.runtime import command_line
from proof.simulator.explorer.catalogue import Catalogue
from proof.simulator.explorer.listing import command
from proof.simulator.explorer.slices.model import Model
from proof.simulator.explorer.slices.rules import CASES, LARGE, MUTANTS

CATALOGUE = Catalogue(
    title="Slices",
    module="proof.simulator.explorer.slices",
    model=Model,
    cases=CASES,
    large=LARGE,
    mutants=MUTANTS,
)

app = command(CATALOGUE, about="Slices and their leaders, in every order of events of small cases.")

if __name__ == "__main__":
    command_line.run(app)
