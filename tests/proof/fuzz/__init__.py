"""Drawn command lines, run against a local global table, and judged: no traceback, nothing lost."""
