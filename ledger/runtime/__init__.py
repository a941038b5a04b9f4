"""What every process needs besides the ledger: clocks, bounded tasks, signals, metrics."""
