"""Demonstrations on the embedded local global table."""
