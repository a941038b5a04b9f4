"""Which regions answer, and which do not: on request, or because their tables are gone.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf

from ledger.local.engines.port import ApiError

RESTARTS_MAX = 100
"""Restarts of a region that are remembered."""
LOST_KEYS_MAX = 5


@dataclass(frozen=True, slots=True)
class Gone:
    """A region whose tables are gone: why, since when, and how often it was started in vain."""

    reason: str
    since: float
    tries: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class Restart:
    """A region that was started again, empty: how many of its items came back.

    `lost` items were nowhere else; `lost_keys` are the first of their keys. Times are
    those of the day.
    """

    reason: str
    gone_at: float
    back_at: float
    filled: int
    lost: int
    lost_keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LostRegion:
    """A region that answers nothing any more, for good.

    Once it is disabled for the account, at a time of the day, the others drop its replicas by
    themselves, at `dropped_at`.
    """

    disabled_at: float | None = None
    dropped_at: float = inf


class Regions:
    """The state of every region."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)
        self.outages: set[str] = set()
        self.lost: dict[str, LostRegion] = {}
        self.gone: dict[str, Gone] = {}
        self.restarts: dict[str, list[Restart]] = {}

    def check(self, region: str) -> None:
        """Refuse a request to a region that does not answer.

        Source: Amazon DynamoDB Developer Guide, "Error handling with DynamoDB" (HTTP 503).

        Raises:
            ApiError: ServiceUnavailable.
        """
        self.check_there(region)
        if region in self.outages:
            raise _unavailable(f"{region} has an outage, on request")

    def check_there(self, region: str) -> None:
        """Refuse what needs the tables of a region while they are gone.

        Raises:
            ApiError: ServiceUnavailable.
        """
        if region in self.lost:
            raise _unavailable(f"{region} is lost for good, on request")
        gone = self.gone.get(region)
        if gone is not None:
            raise _unavailable(f"{region} is being started again: {gone.reason}")

    def lose_for_good(self, region: str, *, dropped_after: float | None, now: float) -> None:
        """Let a region answer nothing any more; with a time it is disabled for the account, too.

        Source: Amazon DynamoDB API Reference, ReplicaDescription: a replica in a region that is
        disabled is described as REGION_DISABLED, and taken out of the group after 20 hours.
        https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_ReplicaDescription.html
        """
        known = LostRegion() if dropped_after is None else LostRegion(now, now + dropped_after)
        self.lost[region] = known

    def dropped(self, *, now: float) -> list[str]:
        """Return the lost regions whose replicas the others have dropped by now."""
        return [region for region, lost in self.lost.items() if lost.dropped_at <= now]

    def lose(self, region: str, reason: str, *, now: float) -> None:
        """Take a region for gone."""
        self.gone[region] = Gone(reason, now)

    def failed(self, region: str, error: str) -> int:
        """Count a start in vain, and return how many there were."""
        gone = self.gone[region]
        self.gone[region] = replace(gone, tries=gone.tries + 1, error=error)
        return gone.tries + 1

    def back(self, region: str, *, filled: int, lost: Sequence[str], now: float) -> None:
        """Take a region for available again."""
        gone = self.gone.pop(region)
        restarts = self.restarts.setdefault(region, [])
        shown = tuple(lost[:LOST_KEYS_MAX])
        restarts.append(Restart(gone.reason, gone.since, now, filled, len(lost), shown))
        del restarts[:-RESTARTS_MAX]


def _unavailable(why: str) -> ApiError:
    message = f"DynamoDB is currently unavailable: {why}"
    return ApiError("ServiceUnavailable", message, status=503)
