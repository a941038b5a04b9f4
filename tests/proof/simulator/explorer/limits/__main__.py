"""`python -m proof.simulator.explorer.limits`: explore each case, or what mutants break."""

from ledger.runtime import command_line
from proof.simulator.explorer.limits.cases import CASES, LARGE, MUTANTS
from proof.simulator.explorer.listing import command

app = command(
    CASES,
    MUTANTS,
    large=LARGE,
    about="Budgets across regions, in every order of events of small cases.",
)

if __name__ == "__main__":
    command_line.run(app)
