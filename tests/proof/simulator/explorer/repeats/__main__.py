"""`python -m proof.simulator.explorer.repeats`: explore each case, or what each mutant breaks."""

from ledger.runtime import command_line
from proof.simulator.explorer.catalogue import Catalogue
from proof.simulator.explorer.listing import command
from proof.simulator.explorer.repeats.cases import CASES, LARGE, MUTANTS
from proof.simulator.explorer.repeats.model import Model

CATALOGUE = Catalogue(
    title="Repeated puts",
    module="proof.simulator.explorer.repeats",
    model=Model,
    cases=CASES,
    mutants=MUTANTS,
    large=LARGE,
)

app = command(
    CATALOGUE, about="Entries that are put again, in every order of events of small cases."
)

if __name__ == "__main__":
    command_line.run(app)
