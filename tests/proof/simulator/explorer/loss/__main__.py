"""`python -m proof.simulator.explorer.loss`: explore each case, or what each mutant breaks."""

from ledger.runtime import command_line
from proof.simulator.explorer.broken_rule import BrokenRule
from proof.simulator.explorer.catalogue import Catalogue
from proof.simulator.explorer.listing import command
from proof.simulator.explorer.loss.cases import LARGE, SMALL
from proof.simulator.explorer.loss.model import Model
from proof.simulator.explorer.loss.mutants import MUTANTS
from proof.simulator.explorer.loss.state import Case

CATALOGUE = Catalogue(
    title="A lost region",
    module="proof.simulator.explorer.loss",
    model=Model,
    cases=SMALL,
    large=LARGE,
    mutants={name: BrokenRule(one.what, Case().with_mutant(one)) for name, one in MUTANTS.items()},
)

app = command(
    CATALOGUE, about="A region is lost for good, in every order of events of small cases."
)

if __name__ == "__main__":
    command_line.run(app)
