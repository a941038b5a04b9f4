"""What proves, measures or shows the ledger; the library imports none of it."""
