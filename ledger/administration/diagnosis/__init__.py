"""`ledger doctor`: every region is observed and judged check by check, each with what to do."""
