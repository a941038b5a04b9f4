"""The doctor's findings: one per check and region, its state, and what to do.

Pure: no clock, no randomness, no I/O.
"""

from dataclasses import dataclass
from enum import StrEnum


class CheckState(StrEnum):
    """The result of a check: only a problem fails the doctor; unknown means it was not observed."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    UNKNOWN = "unknown"


class DoctorCheck(StrEnum):
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
class Diagnosis:
    """One line of the doctor: `region` is empty for the table as a whole, `do` if all is well."""

    check: DoctorCheck
    region: str
    state: CheckState
    what: str
    do: str = ""


def in_order(found: list[Diagnosis]) -> list[Diagnosis]:
    """Return findings by check, each check's in the order in which they were found."""
    place = {check: number for number, check in enumerate(DoctorCheck)}
    return sorted(found, key=lambda one: place[one.check])
