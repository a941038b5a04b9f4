"""What becomes of a spend: values, since a refusal is an answer and not an error.

Pure: no clock, no randomness, no I/O.
"""

from dataclasses import dataclass
from decimal import Decimal

from ledger.core.values import Entry


@dataclass(frozen=True, slots=True)
class Granted:
    """The spend is durable here; `entry.repeated` if an earlier call had made it."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing was spent. A refusal is false, so that it can be asked `if await budget.spend(1)`.

    `budget` is the counter of the limit that refused. It has `here` left in this region, in all
    processes, and `elsewhere`, as this region shows the others: on its way here, or out of reach.
    The same call may be granted later.
    """

    budget: str
    wanted: Decimal
    here: Decimal
    elsewhere: Decimal

    def __bool__(self) -> bool:
        return False


SpendOutcome = Granted | Refused
