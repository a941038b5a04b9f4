"""`python -m ledger.lab.simulator.explorer.limits`: explore each case, or what mutants break."""

from ledger.lab.simulator.explorer.limits.cases import CASES, LARGE, MUTANTS
from ledger.lab.simulator.explorer.listing import command
from ledger.runtime import command_line

app = command(
    CASES,
    MUTANTS,
    large=LARGE,
    about="Budgets across regions, in every order of events of small cases.",
)

if __name__ == "__main__":
    command_line.run(app)
