"""Creating, inspecting and describing the table, for `ledger table` and `ledger deploy`."""
