"""A run under faults, checked from outside: what `lab chaos` and `lab soak` are both made of."""
