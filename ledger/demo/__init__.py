"""The demo: real bank changes in the ledger and in single items, compared."""
