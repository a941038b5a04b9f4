"""A marker as a value: the change that a token stood for when it was first used.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

Detail = str | int | Decimal | bool
Details = Mapping[str, Detail]
"""Data that a caller stores with a change, by its own attribute names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """The change made under a token, when and in which region, and the caller's details.

    Numbers among the details are Decimals.
    """

    token: str
    change: Decimal
    at: datetime
    region: str
    details: Details = field(default_factory=dict)
