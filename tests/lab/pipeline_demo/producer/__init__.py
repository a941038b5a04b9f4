"""Writes the demo's records, or a file's, to a stream, a queue, a topic or a file at a rate."""
