"""`lab chaos`: the ledger on real engines under injected faults, checked from outside."""
