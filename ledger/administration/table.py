"""The global table: created, inspected and deleted through boto3, one observed step at a time.

Each turn observes every region, asks `ledger.administration.table_plan` what is left, takes the
first step if the tables are idle, and waits otherwise. So a run can be repeated after any
interruption, and a second operator at the same time does no harm.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from ledger.administration.table_plan import (
    KEYS,
    STREAM_VIEW,
    StepKind,
    TableStep,
    TableView,
    Views,
    at_rest,
    base_of,
    check,
    is_ready,
    steps_to_create,
    steps_to_delete,
)
from ledger.administration.warm_throughput import WarmThroughput
from ledger.core.errors import StoreError, Throttled, Unreachable
from ledger.core.keys import EXPIRES
from ledger.runtime.aws_answers import check_answers_of
from ledger.runtime.clock import SystemClock, blocking_sleep
from ledger.runtime.foreign import FOREIGN, error_code
from ledger.settings import Settings
from ledger.store.dynamodb.apart import check_apart
from ledger.store.dynamodb.connect import client_options
from ledger.store.dynamodb.errors import MISSING_CODES, from_botocore

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodb.type_defs import (
        ContinuousBackupsDescriptionTypeDef,
        StreamSpecificationTypeDef,
        TableDescriptionTypeDef,
        TimeToLiveDescriptionTypeDef,
    )

TIMEOUT_SECONDS = 600.0
"""AWS makes an empty replica in minutes; a longer run can simply be repeated."""
POLL_SECONDS = 2.0
ATTEMPTS_MAX = 3
"""Tries of one request by boto3 itself: each request here is harmless if repeated."""

BUSY_CODES = frozenset({"ResourceInUseException", "ContinuousBackupsUnavailableException"})
"""The table is still changing, or a step is already under way: observed again, not failed."""

STREAM: "StreamSpecificationTypeDef" = {
    "StreamEnabled": True,
    "StreamViewType": STREAM_VIEW,
}

_MONOTONIC = SystemClock().monotonic

Clients = Mapping[str, "DynamoDBClient"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long all steps may take, and how the run waits from one look to the next."""

    timeout_seconds: float = TIMEOUT_SECONDS
    poll_seconds: float = POLL_SECONDS
    sleep: Callable[[float], None] = blocking_sleep
    monotonic: Callable[[], float] = _MONOTONIC


_PATIENCE = Patience()


@dataclass(frozen=True, slots=True)
class TableProgress:
    """Current progress: a step is taken, or waited for; `done` of `total` are finished."""

    step: TableStep
    done: int
    total: int
    waiting: bool
    elapsed_seconds: float

    def __str__(self) -> str:
        return f"{self.step}{' (waiting)' if self.waiting else ''}"


@dataclass(frozen=True, slots=True)
class TableState:
    """The state of every region at the end, and the steps that this run took to get there.

    `expiry` is whether the settings want time to live; `warm` is the throughput asked for.
    """

    table: str
    home: str
    views: Views
    taken: tuple[TableStep, ...] = ()
    errors: Mapping[str, StoreError] = dataclasses.field(default_factory=dict)
    expiry: bool = False
    warm: WarmThroughput | None = None

    @property
    def left(self) -> tuple[TableStep, ...]:
        """The steps still missing; empty if all is there. Regions in `errors` count as missing."""
        return steps_to_create(self.views, expiry=self.expiry, warm=self.warm)


Report = Callable[[TableProgress], None]
Connect = Callable[[Settings], Clients]


def connect(settings: Settings) -> Clients:
    """Return a boto3 client for each region, home first.

    Raises:
        AccessDenied: a profile does not exist.
        SettingsError: the SDK's configuration names one endpoint for several regions.
    """
    # Slow to import: only commands that create or inspect tables wait for it.
    import boto3  # noqa: PLC0415
    from botocore.config import Config  # noqa: PLC0415
    from botocore.session import Session  # noqa: PLC0415

    config = Config(
        retries={"total_max_attempts": ATTEMPTS_MAX, "mode": "standard"},
        connect_timeout=settings.request_timeout,
        read_timeout=settings.request_timeout,
    )

    @cache  # creating one reads botocore's models, which is slow
    def session_of(profile: str | None) -> boto3.Session:
        session = Session(profile=profile)
        check_answers_of(session)
        return boto3.Session(botocore_session=session)

    clients: dict[str, DynamoDBClient] = {}
    for name in settings.home_first:
        region = settings.region(name)
        check_apart(settings, name)
        try:
            clients[name] = session_of(region.profile).client(
                "dynamodb", config=config, **client_options(name, region)
            )
        except FOREIGN as error:
            raise from_botocore(error, region=name, table=settings.table) from error
    return clients


def create_table(
    settings: Settings,
    *,
    warm: WarmThroughput | None = None,
    report: Report = lambda _progress: None,
    patience: Patience = _PATIENCE,
    connect: Connect = connect,
) -> TableState:
    """Create the global table, or complete it; change nothing if it is complete.

    On-demand, encrypted with AWS's key for DynamoDB, a stream of both images, a replica in every
    region, and in each of them point-in-time recovery and deletion protection. Time to live as
    `settings.time_to_live` says. `warm` raises the warm throughput of all replicas; AWS charges for
    it, and it can never be lowered.

    Raises:
        RequestRefused: a table of this name has another shape; nothing was changed.
        SettingsError: the table has a replica in a region that the settings do not name.
        Unreachable: a region does not answer, or the steps are not done in time.
        AccessDenied: the credentials are missing, wrong, or lack a permission.
    """
    work = _Work(settings, connect(settings), report, patience, warm)
    return work.run(partial(steps_to_create, expiry=settings.time_to_live, warm=warm))


def delete_table(
    settings: Settings,
    *,
    report: Report = lambda _progress: None,
    patience: Patience = _PATIENCE,
    connect: Connect = connect,
) -> TableState:
    """Delete the global table in every region, deletion protection included, without asking.

    Raises:
        RequestRefused, SettingsError, Unreachable, AccessDenied: as for `create_table`.
    """
    work = _Work(settings, connect(settings), report, patience)
    return work.run(steps_to_delete)


def table_state(settings: Settings, *, connect: Connect = connect) -> TableState:
    """Observe every region once; a region that cannot be read is in `errors`."""
    views: dict[str, TableView | None] = {}
    errors: dict[str, StoreError] = {}
    for region, client in connect(settings).items():
        views[region] = None
        try:
            views[region] = _observe(client, region, settings.table)
        except StoreError as error:
            errors[region] = error
    expiry = settings.time_to_live
    return TableState(settings.table, settings.home, views, errors=errors, expiry=expiry)


@dataclass(frozen=True, slots=True)
class _Work:
    settings: Settings
    clients: Clients
    report: Report
    patience: Patience
    warm: WarmThroughput | None = None

    def run(self, steps_of: Callable[[Views], tuple[TableStep, ...]]) -> TableState:
        """Take step after step until none is left and the tables are idle, within the timeout."""
        patience, table = self.patience, self.settings.table
        began = patience.monotonic()
        taken: dict[TableStep, None] = {}
        total = 0
        while True:
            views = self._observe_all()
            check(table, views)
            left = steps_of(views)
            total = max(total, len(taken.keys() | set(left)))
            if not left and (at_rest(views) or not taken):
                home, expiry = self.settings.home, self.settings.time_to_live
                return TableState(table, home, views, tuple(taken), expiry=expiry, warm=self.warm)
            step = left[0] if left else list(taken)[-1]
            elapsed = patience.monotonic() - began
            self._check_time(elapsed, left or (step,))
            # A description can lag behind the step just taken, so no step is taken twice.
            act = step not in taken and is_ready(step, views)
            self.report(TableProgress(step, total - len(left), total, not act, elapsed))
            if act and self._take(step, views):
                taken[step] = None
            else:
                patience.sleep(patience.poll_seconds)

    def _check_time(self, elapsed_seconds: float, left: tuple[TableStep, ...]) -> None:
        limit = self.patience.timeout_seconds
        if elapsed_seconds >= limit:
            more = f" and {len(left) - 1} more" if len(left) > 1 else ""
            raise Unreachable(
                f"table {self.settings.table}: not done within {limit:g} s, "
                f"still to do: {left[0]}{more}: run this again"
            )

    def _observe_all(self) -> Views:
        table = self.settings.table
        return {name: _observe(client, name, table) for name, client in self.clients.items()}

    def _take(self, step: TableStep, views: Views) -> bool:
        """Take a step; False if DynamoDB is not ready for it yet."""
        base = base_of(views)
        through = base.region if base else step.region
        try:
            _act(self.clients, step, through, self.settings.table, self.warm)
        except FOREIGN as error:
            mapped = from_botocore(error, region=step.region, table=self.settings.table)
            if error_code(error) in BUSY_CODES or isinstance(mapped, Throttled):
                return False
            raise mapped from error
        return True


def _act(
    clients: Clients, step: TableStep, through: str, table: str, warm: WarmThroughput | None
) -> None:
    """Send the one request of a step, to its own region or to the one that manages replicas."""
    own, base, region = clients[step.region], clients[through], step.region
    match step.kind:
        case StepKind.CREATE:
            _create(own, table)
        case StepKind.STREAM:
            own.update_table(TableName=table, StreamSpecification=STREAM)
        case StepKind.REPLICA:
            base.update_table(TableName=table, ReplicaUpdates=[{"Create": {"RegionName": region}}])
        case StepKind.REMOVE:
            base.update_table(TableName=table, ReplicaUpdates=[{"Delete": {"RegionName": region}}])
        case StepKind.WARM if warm:
            wanted: Any = warm.request
            own.update_table(TableName=table, WarmThroughput=wanted)
        case StepKind.EXPIRY:
            own.update_time_to_live(
                TableName=table,
                TimeToLiveSpecification={"Enabled": True, "AttributeName": EXPIRES},
            )
        case StepKind.RECOVERY:
            own.update_continuous_backups(
                TableName=table,
                PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True},
            )
        case StepKind.PROTECT | StepKind.UNPROTECT:
            is_wanted = step.kind is StepKind.PROTECT
            own.update_table(TableName=table, DeletionProtectionEnabled=is_wanted)
        case StepKind.DELETE:
            own.delete_table(TableName=table)


def _create(client: "DynamoDBClient", table: str) -> None:
    keys: Any = [{"AttributeName": name, "KeyType": role} for name, role, _ in KEYS]
    kinds: Any = [{"AttributeName": name, "AttributeType": kind} for name, _, kind in KEYS]
    client.create_table(
        TableName=table,
        KeySchema=keys,
        AttributeDefinitions=kinds,
        BillingMode="PAY_PER_REQUEST",
        StreamSpecification=STREAM,
        SSESpecification={"Enabled": True, "SSEType": "KMS"},
    )


def _observe(client: "DynamoDBClient", region: str, table: str) -> TableView | None:
    """Describe one region's table; None if it is missing."""
    try:
        description = client.describe_table(TableName=table)["Table"]
        view = table_view(region, description)
        return dataclasses.replace(
            view, recovery=_has_recovery(client, table), expires=_expires(client, table)
        )
    except FOREIGN as error:
        if error_code(error) in MISSING_CODES:
            return None
        raise from_botocore(error, region=region, table=table) from error


def table_view(region: str, description: "TableDescriptionTypeDef") -> TableView:
    """Return a region's table as DescribeTable shows it: without time to live and recovery."""
    kinds = {
        each["AttributeName"]: each["AttributeType"]
        for each in description.get("AttributeDefinitions", [])
    }
    stream = description.get("StreamSpecification", {})
    warm = description.get("WarmThroughput", {})
    replicas = [
        each for each in description.get("Replicas", []) if each.get("RegionName") != region
    ]
    return TableView(
        region=region,
        status=description.get("TableStatus", "UNKNOWN"),
        keys=tuple(
            (each["AttributeName"], each["KeyType"], kinds.get(each["AttributeName"], "?"))
            for each in description.get("KeySchema", [])
        ),
        stream=stream.get("StreamViewType") if stream.get("StreamEnabled") else None,
        replicas={
            replica.get("RegionName", "?"): replica.get("ReplicaStatus", "UNKNOWN")
            for replica in replicas
        },
        inaccessible={
            replica.get("RegionName", "?"): replica["ReplicaInaccessibleDateTime"]
            for replica in replicas
            if "ReplicaInaccessibleDateTime" in replica
        },
        consistency=description.get("MultiRegionConsistency", "EVENTUAL"),
        billing=description.get("BillingModeSummary", {}).get("BillingMode", "PROVISIONED"),
        protected=description.get("DeletionProtectionEnabled", False),
        warm=(
            WarmThroughput(warm["WriteUnitsPerSecond"], warm.get("ReadUnitsPerSecond"))
            if "WriteUnitsPerSecond" in warm
            else None
        ),
        warming=warm.get("Status") == "UPDATING",
    )


def _expires(client: "DynamoDBClient", table: str) -> str | None:
    """Return the attribute of time to live, enabled or about to be; None if there is none."""
    try:
        described = client.describe_time_to_live(TableName=table)["TimeToLiveDescription"]
    except FOREIGN as error:
        # As with backups, it may be unknown for a table that is still being created.
        if error_code(error) in MISSING_CODES:
            return None
        raise
    return expiring_by(described)


def expiring_by(described: "TimeToLiveDescriptionTypeDef") -> str | None:
    """Return the attribute in DescribeTimeToLive's answer; None while there is none."""
    if described.get("TimeToLiveStatus") in {"ENABLED", "ENABLING"}:
        return described.get("AttributeName")
    return None


def _has_recovery(client: "DynamoDBClient", table: str) -> bool:
    try:
        backups = client.describe_continuous_backups(TableName=table)
    except FOREIGN as error:
        # DynamoDB does not know the backups of a table that is still being created.
        if error_code(error) in MISSING_CODES:
            return False
        raise
    return is_recoverable(backups["ContinuousBackupsDescription"])


def is_recoverable(described: "ContinuousBackupsDescriptionTypeDef") -> bool:
    """Return whether DescribeContinuousBackups shows that recovery to a point in time is on."""
    recovery = described.get("PointInTimeRecoveryDescription", {})
    return recovery.get("PointInTimeRecoveryStatus") == "ENABLED"
