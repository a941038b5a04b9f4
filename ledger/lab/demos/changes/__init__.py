"""The demo: real bank changes from three regions, the ledger beside single-item counters."""
