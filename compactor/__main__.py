"""`python -m compactor`: the same as the `compactor` command."""

from compactor.cli import main

main()
