"""Reading: one collection, its shards to a total, totals kept, entries in order."""
