"""Chaos: the ledger on real engines while all goes wrong, watched from outside."""
