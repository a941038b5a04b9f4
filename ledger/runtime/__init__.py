"""What every process needs beside the ledger: clocks, bounded tasks, signals, metrics."""
