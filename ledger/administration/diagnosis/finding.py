"""What the doctor says: one finding a check and region, its state, and what to do.

Pure: no clock, no randomness, no I/O.
"""

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """How a check ended: only a problem fails the doctor; unknown is what was not seen."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    UNKNOWN = "unknown"


class Check(StrEnum):
    """What is looked at, in the order in which it is shown."""

    SETTINGS = "settings"
    CREDENTIALS = "credentials"
    TABLE = "table"
    REPLICAS = "replicas"
    CONTRACT = "contract"
    CLOCK = "clock"
    PERMISSIONS = "permissions"
    LAG = "lag"
    COMPACTOR = "compactor"
    HOT_COUNTERS = "hot counters"
    THROTTLING = "throttling"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor: `region` is empty of the table as a whole, `do` where all is well."""

    check: Check
    region: str
    state: State
    what: str
    do: str = ""


def in_order(found: list[Finding]) -> list[Finding]:
    """Return findings by check, each check's in the order in which they were found."""
    place = {check: number for number, check in enumerate(Check)}
    return sorted(found, key=lambda one: place[one.check])
