"""The pure part: ids, amounts, items, folding; no clock, no randomness, no input or output."""
