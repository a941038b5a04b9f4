"""`ledger pipeline`: run a lane, replay dead letters, show totals in a browser."""
