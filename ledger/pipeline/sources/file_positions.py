"""Positions in a file: the number of bytes before, and a hash of all of them.

A position is 20 digits of bytes, `-`, and the first 16 digits of the SHA-256 of everything that
lies before it. The digits decide the order. Equal positions mean equal content before them, so a
worker that reads other content under the same lane neither continues it nor commits to it.

Pure: no clock, no randomness, no I/O.
"""

import hashlib
from typing import Protocol

MARK_DIGITS = 16


class Hash(Protocol):
    """A running SHA-256."""

    def copy(self) -> "Hash":
        """Return a copy that continues separately."""

    def hexdigest(self) -> str:
        """Return the digits so far."""

    def update(self, data: "bytes | memoryview", /) -> None:
        """Take in what follows."""


def new_hash() -> Hash:
    """Return the hash of nothing."""
    return hashlib.sha256()


def mark(running: Hash) -> str:
    """Return the digits that stand for all that a hash has taken in."""
    return running.hexdigest()[:MARK_DIGITS]


def position_at(place: int, running: Hash) -> str:
    """Return the position after `count` bytes."""
    return f"{place:020d}-{running.hexdigest()[:MARK_DIGITS]}"


def place_of(position: str) -> int:
    """Return how many bytes are before a position; 0 for the beginning."""
    return int(position.partition("-")[0] or 0)


def mark_of(position: str) -> str:
    """Return the hash of the bytes before a position; empty if it has none."""
    return position.partition("-")[2]
