"""`Step`: one thing that happens in a model, which all models of the explorer share.

Pure: no clock, no randomness, no I/O.
"""

from typing import Generic, NamedTuple, TypeVar

L = TypeVar("L")
S = TypeVar("S")


class Step(NamedTuple, Generic[L, S]):
    """What happens, the state after it, and what is wrong then; empty if nothing is."""

    label: L
    state: S
    wrong: str = ""
