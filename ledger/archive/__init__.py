"""Entries kept whole beyond their merging: objects of segments, and the places where they lie."""
