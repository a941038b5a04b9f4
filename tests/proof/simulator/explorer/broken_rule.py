"""What a mutant of an explorer is.

Pure: no clock, no randomness, no I/O.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """A small case with one rule broken; `what` happens in place of the rule."""

    what: str
    case: Any
