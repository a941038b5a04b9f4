"""A program's open ledger: its calls, and the parts that answer them.

The calls of a program are in docs/reference/calls.md.
"""
