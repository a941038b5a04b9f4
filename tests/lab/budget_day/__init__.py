"""A day of demand that moves between regions, spent from one budget, on virtual time."""
