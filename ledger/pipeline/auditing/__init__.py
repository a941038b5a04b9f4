"""Auditing a pipeline: states compared with totals, and repairs."""
