"""The doctor's findings: one per check and region, its state, and what to do.

Pure: no clock, no randomness, no I/O.
"""

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """The result of a check: only a problem fails the doctor; unknown means it was not observed."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    UNKNOWN = "unknown"


class Check(StrEnum):
    """What is checked, in the order in which it is shown."""

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
    """One line of the doctor: `region` is empty for the table as a whole, `do` if all is well."""

    check: Check
    region: str
    state: State
    what: str
    do: str = ""


def in_order(found: list[Finding]) -> list[Finding]:
    """Return findings by check, each check's in the order in which they were found."""
    place = {check: number for number, check in enumerate(Check)}
    return sorted(found, key=lambda one: place[one.check])
