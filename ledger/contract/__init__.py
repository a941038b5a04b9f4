"""The table's contract: read, kept fresh, and changed step by step."""
