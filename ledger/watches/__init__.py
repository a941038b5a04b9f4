"""Watching totals: a crossing of a bound is decided once, at home, and delivered at least once.

Their rules are in docs/reference/events.md.
"""
