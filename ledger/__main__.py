"""`python -m ledger`: the same as the `ledger` command."""

from ledger.commands.main import main

main()
