"""Counters and balances that stay exact when many regions write at once."""
