"""`python -m proof.simulator.explorer.limits`: explore each case, or what each mutant breaks."""

from ledger.runtime import command_line
from proof.simulator.explorer.limits.cases import CATALOGUE
from proof.simulator.explorer.listing import command

app = command(CATALOGUE, about="Budgets across regions, in every order of events of small cases.")

if __name__ == "__main__":
    command_line.run(app)
