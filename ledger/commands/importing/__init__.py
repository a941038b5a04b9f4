"""`ledger import`: the command and what it shows."""
