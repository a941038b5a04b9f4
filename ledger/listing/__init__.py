"""Counters by prefix, the top of them, and what they are described by."""
