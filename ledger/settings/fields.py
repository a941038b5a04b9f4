"""The fields of the settings, their defaults, and the values derived when one is not set.

`parse_duration` reads a duration that does not come from settings, such as a command's option.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

from ledger.core.contract import CONTRACT_LIFE
from ledger.core.errors import InvalidInput
from ledger.settings.groups import (
    READ_KEYS_MAX,
    CacheSettings,
    CompactorSettings,
    Count,
    Group,
    PositiveSeconds,
    Region,
    Seconds,
    ShardSteps,
    SignatureSettings,
    Watches,
    WriterSettings,
    constant,
)
from ledger.settings.pattern_groups import Budgets, Periods
from ledger.settings.pipelines import Pipelines, PipelineSettings

TransportName = Literal["aiobotocore", "lean"]
"""The transport of requests."""
TracingName = Literal["off", "on", "counters"]
"""Whether spans are made, and whether they name counters."""
AWS_SIGNATURE_SECONDS = 900.0
"""How long DynamoDB accepts a signature: it refuses one of another time with "(... - 15 min.)" or
"(... + 15 min.)", as users report it in praetorian-inc/chariot-ui#453 (2024) and in
aws/aws-sdk-js#2565 and #254. Some reports say 5 minutes; only the longest is safe."""


def _region_or_default(value: object) -> object:
    return {} if value is None else value  # `us-east-1:` alone is a region with defaults


def _as_tracing(value: object) -> object:
    # YAML reads `on` and `off` as true and false.
    return ("off", "on")[value] if isinstance(value, bool) else value


# Durations that are not set follow from `settle` and `observation_delay`: one that would break a
# relation is made shorter, all others have the usual value. `settle` itself, if it is not set,
# follows from what it must exceed.
SETTLE_MARGIN_SECONDS = 60.0
"""Between the last moment at which a request can arrive and the `settle` that follows."""
RETRY_HORIZON_SECONDS_MAX = 300.0
READ_DEADLINE_SECONDS_MAX = 15.0
REQUEST_TIMEOUT_SECONDS_MAX = 5.0
WRITE_DEADLINE_SECONDS_MAX = 30.0
LIVES_OF_A_HOLD = 2.0
"""Of `observation_delay`, for which a view of the contract lives, if that is more than usual."""
_ROOM_SHARE = 0.9
"""Of the room that `settle` leaves for retries."""
_DELAY_SHARE = 0.75
"""Of `observation_delay`, which a read must end within."""
_SHORTEST_SECONDS = 1e-6
FOLLOWING = 0.0
"""Replaces a `settle` that is not set, until what it must exceed is known."""


def _first_region(values: Mapping[str, Any]) -> str:
    return next(iter(values["regions"]), "")


def _retry_horizon(values: Mapping[str, Any]) -> float:
    if values["settle"] == FOLLOWING:
        return RETRY_HORIZON_SECONDS_MAX
    room = values["settle"] - values["signature_lifetime"] - values["clock_skew"]
    return float(min(RETRY_HORIZON_SECONDS_MAX, max(_ROOM_SHARE * room, 0.0)))


def _read_deadline(values: Mapping[str, Any]) -> float:
    return float(
        min(
            READ_DEADLINE_SECONDS_MAX,
            max(_DELAY_SHARE * values["observation_delay"], _SHORTEST_SECONDS),
        )
    )


def _contract_life(values: Mapping[str, Any]) -> float:
    return float(max(CONTRACT_LIFE, LIVES_OF_A_HOLD * values["observation_delay"]))


def _request_timeout(values: Mapping[str, Any]) -> float:
    return float(
        min(REQUEST_TIMEOUT_SECONDS_MAX, max(values["signature_lifetime"], _SHORTEST_SECONDS))
    )


def _write_deadline(values: Mapping[str, Any]) -> float:
    return float(min(WRITE_DEADLINE_SECONDS_MAX, values["retry_horizon"]))


class SettingsFields(Group):
    """What can be set; `ledger.settings.model.Settings` checks it as a whole."""

    table: str = "ledger"
    """The name of the table, the same in every region."""
    time_to_live: bool = False
    marker_table: str | None = None
    regions: dict[str, Annotated[Region, BeforeValidator(_region_or_default)]]
    home: str = Field(default_factory=_first_region)
    settle: Seconds = FOLLOWING
    signature_lifetime: Seconds = AWS_SIGNATURE_SECONDS
    clock_skew: Seconds = 60.0
    retry_horizon: Seconds = Field(default_factory=_retry_horizon)
    observation_delay: Seconds = 20.0
    read_deadline: PositiveSeconds = Field(default_factory=_read_deadline)
    contract_life: PositiveSeconds = Field(default_factory=_contract_life)
    request_timeout: PositiveSeconds = Field(default_factory=_request_timeout)
    write_deadline: Seconds = Field(default_factory=_write_deadline)
    consistent_reads: bool = True
    read_keys_max: Count = constant(READ_KEYS_MAX)
    transport: TransportName = "lean"
    tracing: Annotated[TracingName, BeforeValidator(_as_tracing)] = "off"
    writer: WriterSettings = WriterSettings()
    cache: CacheSettings = CacheSettings()
    signatures: SignatureSettings = SignatureSettings()
    compactor: CompactorSettings = CompactorSettings()
    pipeline: PipelineSettings = PipelineSettings()
    pipelines: Pipelines = Field(default={})
    """Further pipelines by their names, each in the form of `pipeline`."""
    shards: dict[str, ShardSteps] = Field(default={})
    unmerged: tuple[str, ...] = ()
    combine: tuple[str, ...] = ()
    periods: Periods = Field(default={})
    archive: tuple[str, ...] = ()
    index: tuple[str, ...] = ()
    budgets: Budgets = Field(default={})
    books: tuple[str, ...] = ()
    watches: Watches = Field(default={})


_SECONDS: TypeAdapter[float] = TypeAdapter(Seconds)
_POSITIVE_SECONDS: TypeAdapter[float] = TypeAdapter(PositiveSeconds)


def parse_duration(text: object, *, is_positive: bool = False) -> float:
    """Return a duration in seconds, given as a number or as text such as "250ms" or "15m".

    Raises:
        InvalidInput: it is not a duration, above 100 years, or 0 where it must be positive.
    """
    try:
        return (_POSITIVE_SECONDS if is_positive else _SECONDS).validate_python(text)
    except ValidationError:
        kind = "a duration above 0" if is_positive else "a duration"
        raise InvalidInput(
            f"must be {kind}, such as 250ms, 20s or 15m, and at most 36525d, got {text!r:.100}"
        ) from None
