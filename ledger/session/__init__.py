"""Counters by prefix, the top of them, and their descriptions."""
