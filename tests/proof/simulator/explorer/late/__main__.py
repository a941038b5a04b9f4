"""`python -m proof.simulator.explorer.late`: explore each case, or what each mutant breaks."""

from ledger.runtime import command_line
from proof.simulator.explorer.catalogue import Catalogue
from proof.simulator.explorer.late.model import CASES, MUTANTS, Model
from proof.simulator.explorer.listing import command

CATALOGUE = Catalogue(
    title="Late calls",
    module="proof.simulator.explorer.late",
    model=Model,
    cases=CASES,
    mutants=MUTANTS,
)

app = command(CATALOGUE, about="Answers to late calls, in every order of events of small cases.")

if __name__ == "__main__":
    command_line.run(app)
