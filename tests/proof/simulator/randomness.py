"""Independent streams of randomness, all derived from one seed."""

from random import Random


def stream(seed: int, name: str) -> Random:
    """Return the random stream of one part of a run; drawing from one never shifts another."""
    return Random(f"{seed}/{name}")  # noqa: S311 (nothing secret: it must be repeatable)
