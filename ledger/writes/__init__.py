"""Writing: a change becomes an entry, and entries share requests."""
