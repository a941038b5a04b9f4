"""Measures and shakes the ledger with real processes: `python -m lab`."""
