"""What a rung of the ladder does, stage by stage, and the figures of each.

Pure: no clock, no randomness, no I/O.
"""

STAGES = ("write", "read before", "search", "merge", "read after")
FIGURES = ("work", "s", "CPU s", "write units", "read units", "MB")
"""Work is changes written, entries found to be merged, entries merged, or totals read; MB is the
client's memory at the end of the stage."""
