"""What becomes of a spend: values, since a refusal is an answer and not an error.

Pure: no clock, no randomness, no I/O.
"""

from dataclasses import dataclass
from decimal import Decimal

from ledger.core.values import Entry
from ledger.limits.rights import GRANTS_MAX


@dataclass(frozen=True, slots=True)
class Granted:
    """The spend is durable here; `entry.repeated` if an earlier call had made it."""

    entry: Entry


CROWDED = f"{GRANTS_MAX} grants of this region are open, and one has to be closed first"


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing was spent. A refusal is false, so that it can be asked `if await budget.spend(1)`.

    `budget` is the counter of the limit that refused. It has `here` left in this region, in all
    processes, and `elsewhere`, as this region shows the others: on its way here, or out of reach.
    If it is `crowded`, `GRANTS_MAX` (400) processes of this region have grants of it, or had some
    that are to be closed by reading: of what is here no more is granted until one is closed. The
    same call may be granted later.
    """

    budget: str
    wanted: Decimal
    here: Decimal
    elsewhere: Decimal
    crowded: bool = False

    def __bool__(self) -> bool:
        return False


SpendOutcome = Granted | Refused
