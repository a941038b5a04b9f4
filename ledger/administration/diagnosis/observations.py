"""The doctor's observations, as values: of each region, and of the table as a whole.

A failed observation is a `FailedLook` in its place, so that one failure hides no other result.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from enum import StrEnum

from ledger.administration.diagnosis.permission_trials import TrialResult
from ledger.administration.table_plan import TableView
from ledger.core.clock_offset import ClockOffset
from ledger.core.contract_item import Contract
from ledger.core.errors import LedgerError


class Cause(StrEnum):
    """Why a look at something failed."""

    NO_CREDENTIALS = "no credentials"
    EXPIRED = "expired credentials"
    BAD_CREDENTIALS = "refused credentials"
    DENIED = "denied"
    MISSING = "no table"
    THROTTLED = "throttled"
    UNANSWERED = "no answer"
    SETTINGS = "settings"
    REFUSED = "refused"


TIME_TO_LIVE, RECOVERY = "time to live", "recovery"
"""Parts of a table that have descriptions of their own."""
OF_CREDENTIALS = frozenset({Cause.NO_CREDENTIALS, Cause.EXPIRED, Cause.BAD_CREDENTIALS})


@dataclass(frozen=True, slots=True)
class FailedLook:
    """A look that failed: why, and the error in one line."""

    cause: Cause
    text: str


@dataclass(frozen=True, slots=True)
class CredentialsObservation:
    """Where a region's credentials come from, in the SDK's words, and their identity.

    `is_local`: an endpoint on this machine, which needs none. `identity` is the ARN; None if it was
    not asked for.
    """

    source: str = ""
    identity: str | FailedLook | None = None
    _: KW_ONLY
    is_local: bool = False


@dataclass(frozen=True, slots=True)
class TableObservation:
    """A region's table, None if missing; `unseen` are the parts whose description failed."""

    view: TableView | None
    unseen: Mapping[str, FailedLook] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionObservation:
    """All observations of one region.

    `throttled` counts the doctor's own requests that were throttled, by the limit, or the code,
    that DynamoDB named; `hot` are the counters of those that met a hot key. `offset` is None if no
    answer showed the clock.
    """

    region: str
    credentials: CredentialsObservation | FailedLook
    table: TableObservation | FailedLook
    contract: Contract | LedgerError | FailedLook | None
    offset: ClockOffset | None = None
    tried: Mapping[str, Sequence[TrialResult]] = field(default_factory=dict)
    requests: int = 0
    throttled: Mapping[str, int] = field(default_factory=dict)
    hot: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class LagObservation:
    """How long until a write of one region was shown by another; None: not within the limit.

    `failed` is why nothing could be measured.
    """

    source: str
    target: str
    seconds: float | None
    failed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassesObservation:
    """What the compactor's passes left in the table; ages are seconds.

    None for what no pass has recorded. `search_oldest` is when the oldest entry was made that the
    last search left to be merged, empty if there is none; `nets_signed` is how many nets it saw
    that each key has signed, and none, under the empty name, where nets are signed. `waits` is why
    the last pass merged nothing, `damage` what it left unchanged, `undeleted` whose deletes have
    not arrived in a region; each is empty for nothing.
    `lag_seconds` is the lag of each region from `home`, as the last pass measured it.
    `ahead_seconds` is how far in the future one is dated.
    """

    home: str
    ahead_seconds: float = 0.0
    success_age: float | None = None
    search_age: float | None = None
    search_backlog: int = 0
    search_oldest: str = ""
    nets_signed: Mapping[str, int] = field(default_factory=dict)
    late_seconds: float = 0.0
    damage: str = ""
    undeleted: str = ""
    waits: str = ""
    falls_behind: bool = False
    has_passes: bool = False
    lag_seconds: Mapping[str, float] = field(default_factory=dict)
