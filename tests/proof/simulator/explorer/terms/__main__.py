"""`python -m proof.simulator.explorer.terms`: explore each case, or what each mutant breaks."""

from ledger.runtime import command_line
from proof.simulator.explorer.broken_rule import BrokenRule
from proof.simulator.explorer.catalogue import Catalogue
from proof.simulator.explorer.listing import command
from proof.simulator.explorer.terms.model import CASES, MUTANTS, Case, Model

CATALOGUE = Catalogue(
    title="A change of terms",
    module="proof.simulator.explorer.terms",
    model=Model,
    cases=CASES,
    mutants={name: BrokenRule(one.what, Case.of_mutant(one)) for name, one in MUTANTS.items()},
)

app = command(CATALOGUE, about="The terms of a table change, in every order of events and of time.")

if __name__ == "__main__":
    command_line.run(app)
