"""The feed: entries of many counters in the order in which they reach a region, by a cursor.

Its rules are in docs/reference/events.md.
"""
