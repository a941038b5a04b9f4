"""Leases: one owner at a time, judged by elapsed time only."""
