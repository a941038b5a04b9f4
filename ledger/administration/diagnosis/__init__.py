"""`ledger doctor`: what every region shows, judged check by check, each line with what to do."""
