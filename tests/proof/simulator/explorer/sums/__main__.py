"""`python -m proof.simulator.explorer.sums`: explore each case, or what each mutant breaks."""

from ledger.runtime import command_line
from proof.simulator.explorer.catalogue import Catalogue
from proof.simulator.explorer.listing import command
from proof.simulator.explorer.sums.model import Model
from proof.simulator.explorer.sums.rules import CASES, MUTANTS

CATALOGUE = Catalogue(
    title="Sums of pipelines",
    module="proof.simulator.explorer.sums",
    model=Model,
    cases=CASES,
    mutants=MUTANTS,
)

app = command(
    CATALOGUE, about="Reduces that add to sum items, in every order of events of small cases."
)

if __name__ == "__main__":
    command_line.run(app)
