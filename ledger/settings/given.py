"""The types accepted in code for each setting, for type checkers, which see values as read.

A setting accepts more types than it returns: `settle="20m"`, say, is read as 1,200 seconds. Each
class here has the fields of one group, or of the whole; `tests/unit/settings/test_given.py`
compares them.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, Required, TypedDict

if TYPE_CHECKING:
    from ledger.settings.groups import (
        CacheSettings,
        CompactorSettings,
        Region,
        ShardStep,
        SignatureSettings,
        WatchSettings,
        WriterSettings,
    )
    from ledger.settings.pattern_groups import BudgetSettings, PeriodSettings
    from ledger.settings.pipelines import (
        PipelineFields,
        PipelineHome,
        PipelineMeasures,
        PipelineSettings,
    )

Duration = float | str
"""Seconds, or text such as "250ms", "20s", "15m", "5h", "1d"."""
Amount = int | Decimal | str
"""An exact number, or text such as "9.99"."""
TransportName = Literal["aiobotocore", "lean"]
"""The transport of requests."""
TracingName = Literal["off", "on", "counters"]
"""Whether spans are made, and whether they name counters."""
Values = Mapping[str, Any]
"""A group by the names of its fields, as in `regions.yaml`."""


class CacheGiven(TypedDict, total=False):
    """Of `CacheSettings`."""

    max_age: Duration
    counters_max: int
    stale_max: Duration
    incremental: bool


class WriterGiven(TypedDict, total=False):
    """Of `WriterSettings`."""

    linger: Duration
    in_flight: int
    queue_max: int
    strict: bool


class SignaturesGiven(TypedDict, total=False):
    """Of `SignatureSettings`."""

    keys: str | None
    keys_env: str | None
    required: bool


class CompactorGiven(TypedDict, total=False):
    """Of `CompactorSettings`."""

    name: str
    lease: Duration
    heartbeat: Duration
    fold_max: int
    fold_min: int
    fold_age: Duration
    prune_min: int
    scan_segments: int
    scan_pages_max: int
    scan_every: Duration
    hint_every: int
    pending_max: int
    visits_max: int
    concurrency: int
    slices: int


class WatchGiven(TypedDict, total=False):
    """Of `WatchSettings`."""

    counters: Required[str]
    below: Amount | None
    above: Amount | None
    rearm: Amount | None


class ShardStepGiven(TypedDict, total=False):
    """Of `ShardStep`."""

    count: Required[int]
    since: datetime | str | None


class PipelineGiven(TypedDict, total=False):
    """Of `PipelineSettings`."""

    name: str
    fields: "PipelineFields | Values | None"
    categories: Sequence[str]
    measures: "PipelineMeasures | Values"
    keep_fields: Literal["all"] | Sequence[str]
    home: "PipelineHome | Values"
    batch_max: int
    in_flight: int
    cache_max: int
    reduce_every: Duration
    totals: Literal["sums", "entries"]
    slots: int
    record_bytes_max: int
    dead_letter_queue: str | None
    deletes: Literal["refuse", "ignore"]
    state_table: str | None
    keep_states: Duration | None
    adapt: str | None


class _OthersGiven(TypedDict, total=False):
    """The fields of `Settings`, without the regions."""

    table: str
    time_to_live: bool
    marker_table: str | None
    home: str
    settle: Duration
    signature_lifetime: Duration
    clock_skew: Duration
    retry_horizon: Duration
    observation_delay: Duration
    read_deadline: Duration
    contract_life: Duration
    request_timeout: Duration
    write_deadline: Duration
    consistent_reads: bool
    read_keys_max: int
    transport: TransportName
    tracing: TracingName | bool
    writer: "WriterSettings | Values"
    cache: "CacheSettings | Values"
    signatures: "SignatureSettings | Values"
    compactor: "CompactorSettings | Values"
    pipeline: "PipelineSettings | Values"
    pipelines: "Mapping[str, PipelineSettings | Values]"
    combine: Sequence[str]
    shards: "Mapping[str, int | Sequence[ShardStep | Values]]"
    unmerged: Sequence[str]
    periods: "Mapping[str, PeriodSettings | Values | None]"
    archive: Sequence[str]
    index: Sequence[str]
    budgets: "Mapping[str, BudgetSettings | Values | None]"
    watches: "Mapping[str, WatchSettings | Values]"


class SettingsGiven(_OthersGiven):
    """Of `Settings`."""

    regions: "Mapping[str, Region | Values | None]"


class SettingsChanges(_OthersGiven, total=False):
    """The fields of `Settings` to override."""

    regions: "Mapping[str, Region | Values | None]"
