"""Reading: collections, totals of counters, cached totals, and histories."""
