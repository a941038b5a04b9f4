"""The compactor: merges entries into net changes, invisibly to every reader."""
