"""The difference between the tables that the regions show and the wanted global table.

From one observation of every region it derives the remaining steps, in order, or an error that
names what cannot be repaired. Nothing is remembered between observations, so a run that was
interrupted anywhere is finished by the next one.

Time to live is one setting of the whole global table. It may be on only for the ledger's own
attribute: an entry that happened to have another one would expire, and its change with it.

AWS never copies point-in-time recovery and deletion protection from one replica to another: each
region has its own, so each is a separate step.

A replica that DynamoDB cannot reach, or may not replicate to, receives nothing and sends nothing:
merging waits for it, and after 20 hours DynamoDB removes it from the group for good. What it has
not received by then it never will. Sources: botocore's model of DynamoDB (`ReplicaDescription`,
`ReplicaStatus`, `TableStatus`) for REGION_DISABLED and INACCESSIBLE_ENCRYPTION_CREDENTIALS; Amazon
DynamoDB Developer Guide, "DynamoDB global tables security", for REPLICATION_NOT_AUTHORIZED.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Final

from ledger.administration.warm_throughput import WarmThroughput
from ledger.core.errors import RequestRefused, SettingsError
from ledger.core.keys import EXPIRES

KEYS = (("pk", "HASH", "S"), ("sk", "RANGE", "S"))
"""Name, role and type of each key attribute, as the ledger writes them."""
STREAM_VIEW: Final = "NEW_AND_OLD_IMAGES"
"""What AWS requires of a table with replicas."""
PASSING = frozenset({"CREATING", "UPDATING", "DELETING"})
"""Transient states; every other state except ACTIVE needs a person."""

USABLE = frozenset({"ACTIVE", "UPDATING"})
"""States of a usable replica; all show UPDATING while another one is being added."""


class StepKind(Enum):
    """What a step does."""

    CREATE = "create the table"
    STREAM = "turn on the stream"
    REPLICA = "add the replica"
    WARM = "raise the warm throughput"
    EXPIRY = f"turn on time to live by {EXPIRES}"
    RECOVERY = "turn on point-in-time recovery"
    PROTECT = "turn on deletion protection"
    UNPROTECT = "turn off deletion protection"
    REMOVE = "remove the replica"
    DELETE = "delete the table"


@dataclass(frozen=True, slots=True)
class TableStep:
    """One change of one region's table; done when an observation no longer asks for it."""

    kind: StepKind
    region: str

    def __str__(self) -> str:
        return f"{self.region}: {self.kind.value}"


@dataclass(frozen=True, slots=True)
class TableView:
    """One region's table, as DynamoDB described it.

    `expires` is its time-to-live attribute; `warm` its warm throughput, `warming` while that is
    being raised. `inaccessible` is since when a replica has been inaccessible.
    """

    region: str
    status: str
    keys: tuple[tuple[str, str, str], ...]
    stream: str | None = None
    replicas: Mapping[str, str] = field(default_factory=dict)
    consistency: str = "EVENTUAL"
    billing: str = "PAY_PER_REQUEST"
    recovery: bool = False
    protected: bool = False
    expires: str | None = None
    warm: WarmThroughput | None = None
    warming: bool = False
    inaccessible: Mapping[str, datetime] = field(default_factory=dict)

    @property
    def active(self) -> bool:
        """Whether the table can be used and changed now."""
        return self.status == "ACTIVE"


Views = Mapping[str, TableView | None]
"""Each region of the settings, home first, with its table, or None if missing."""


def base_of(views: Views) -> TableView | None:
    """Return the table through which replicas are added: home's, or the first existing one."""
    return next((view for view in views.values() if view), None)


def check(table: str, views: Views) -> None:
    """Check that the existing tables can be, or become, the global table of the settings.

    Raises:
        RequestRefused: a table has another shape, is not a replica of the others, or is in a
            permanent state.
        SettingsError: the table has a replica in a region that the settings do not name.
    """
    base = base_of(views)
    if base is None:
        return
    for view in filter(None, views.values()):
        check_view(table, view)
        if view is not base and view.active and view.region not in base.replicas:
            raise RequestRefused(
                f"{view.region}, table {table}: it is a separate table, no replica of the one in "
                f"{base.region}: choose another table name, or delete one of the two"
            )
    for region, status in base.replicas.items():
        if region not in views:
            raise SettingsError(
                f"{base.region}, table {table}: it has a replica in {region}, which is not one of "
                f"the regions in the settings ({', '.join(views)}): merging must see every replica"
            )
        _check_state(table, region, status)


def check_view(table: str, view: TableView) -> None:
    """Check that one region's table can be, or become, a replica of a global table of the ledger.

    Raises:
        RequestRefused: it has another shape, or is in a permanent state.
    """
    _check_shape(table, view)
    _check_state(table, view.region, view.status)


def _check_shape(table: str, view: TableView) -> None:
    where = f"{view.region}, table {table}"
    if view.keys != KEYS:
        raise RequestRefused(
            f"{where}: its keys are {_keys_text(view.keys)}, the ledger's are {_keys_text(KEYS)}: "
            "choose another table name"
        )
    if view.stream not in {None, STREAM_VIEW}:
        raise RequestRefused(
            f"{where}: its stream shows {view.stream}, replicas need {STREAM_VIEW}: "
            "turn the stream off and run this again"
        )
    if view.consistency != "EVENTUAL":
        raise RequestRefused(
            f"{where}: its replicas are {view.consistency} consistent, for which AWS offers no "
            "transactions; the ledger needs them: choose another table name"
        )
    _check_expiry(where, view)


def _check_state(table: str, region: str, status: str) -> None:
    if status != "ACTIVE" and status not in PASSING:
        raise RequestRefused(
            f"{region}, table {table}: its state is {status}, which does not pass by itself: "
            "see the table in the AWS console, then run this again"
        )


def _check_expiry(where: str, view: TableView) -> None:
    if view.expires not in {None, EXPIRES}:
        raise RequestRefused(
            f"{where}: its time to live goes by {view.expires!r}, so an item of the ledger with"
            f" that attribute would expire: turn it off, or let it go by {EXPIRES!r}"
        )


def _keys_text(keys: Sequence[tuple[str, str, str]]) -> str:
    return ", ".join(f"{name} ({kind}, {role})" for name, role, kind in keys)


def steps_to_create(
    views: Views, *, expiry: bool = False, warm: WarmThroughput | None = None
) -> tuple[TableStep, ...]:
    """Return the steps left until every region has a protected, recoverable replica.

    With `expiry` the table's time to live is turned on as well, and its throughput is raised to
    `warm`; without, they are left as they are.
    """
    return tuple(_steps_to_create(views, expiry=expiry, warm=warm))


def _steps_to_create(
    views: Views, *, expiry: bool, warm: WarmThroughput | None
) -> Iterator[TableStep]:
    base = base_of(views)
    base_region = base.region if base else next(iter(views))
    if base is None or base.status == "CREATING":
        yield TableStep(StepKind.CREATE, base_region)
    if base and base.stream is None:
        yield TableStep(StepKind.STREAM, base_region)
    for region, view in views.items():
        replica = base.replicas.get(region) if base else None
        if region != base_region and not (replica in USABLE and view and view.status in USABLE):
            yield TableStep(StepKind.REPLICA, region)
    if warm and not (base and warm.is_met_by(base.warm)):
        yield TableStep(StepKind.WARM, base_region)
    if expiry and not (base and base.expires):
        yield TableStep(StepKind.EXPIRY, base_region)
    yield from _own_steps(views)


def _own_steps(views: Views) -> Iterator[TableStep]:
    """Return the settings of a replica that each region has separately."""
    for region, view in views.items():
        if not (view and view.recovery):
            yield TableStep(StepKind.RECOVERY, region)
    for region, view in views.items():
        if not (view and view.protected):
            yield TableStep(StepKind.PROTECT, region)


def steps_to_delete(views: Views) -> tuple[TableStep, ...]:
    """Return the steps left until no region has the table: the base's own comes last."""
    return tuple(_steps_to_delete(views))


def _steps_to_delete(views: Views) -> Iterator[TableStep]:
    base = base_of(views)
    if base is None:
        return
    for region, view in views.items():
        if view and view.protected:
            yield TableStep(StepKind.UNPROTECT, region)
    for region, view in views.items():
        if region != base.region and (view or region in base.replicas):
            yield TableStep(StepKind.REMOVE, region)
    yield TableStep(StepKind.DELETE, base.region)


def at_rest(views: Views) -> bool:
    """Return whether no region's table is changing."""
    return all(view is None or (view.active and not view.warming) for view in views.values())


def is_ready(step: TableStep, views: Views) -> bool:
    """Return whether a step can be taken now: DynamoDB changes only idle tables."""
    base, own = base_of(views), views[step.region]
    if base is None:
        return step.kind is StepKind.CREATE
    if step.kind in {StepKind.REPLICA, StepKind.REMOVE}:
        under_way = {status for status in base.replicas.values() if status in PASSING}
        return base.active and not under_way
    return own is not None and own.active


DROPPED_BY_ITSELF = frozenset(
    {"REPLICATION_NOT_AUTHORIZED", "REGION_DISABLED", "INACCESSIBLE_ENCRYPTION_CREDENTIALS"}
)
"""The states in which DynamoDB takes a replica out of the group after 20 hours."""
_OUT = "; after 20 hours DynamoDB takes it out of the global table, and that cannot be undone"
REASONS = {
    "REPLICATION_NOT_AUTHORIZED": (
        "DynamoDB may not replicate to or from it: allow it to AWSServiceRoleForDynamoDBReplication"
        f" in the policies of the table and of its key{_OUT}"
    ),
    "REGION_DISABLED": f"the region is disabled for the account: enable it{_OUT}",
    "INACCESSIBLE_ENCRYPTION_CREDENTIALS": (
        f"its KMS key cannot be used: enable the key, or restore its grants{_OUT}"
    ),
    "CREATION_FAILED": "it could not be made: remove it, and run `ledger table create`",
    "DELETING": "it is being removed from the global table",
    "ARCHIVING": "it is being archived, since its KMS key could not be used",
    "ARCHIVED": "it was archived, since its KMS key could not be used: it replicates no longer",
}
"""The states in which a replica does not replicate, and what can be done."""


def replica_problems(views: Views) -> tuple[str, ...]:
    """Return what keeps replicas from replicating, one line per replica; empty if all replicate.

    Both a region's own state and the other regions' view of it count.
    """
    seen = {region: view for region, view in views.items() if view is not None}
    named = dict.fromkeys([*views, *(name for view in seen.values() for name in view.replicas)])
    found = (_problem(region, seen) for region in named)
    return tuple(text for text in found if text)


def _problem(region: str, seen: dict[str, TableView]) -> str:
    own = seen.get(region)
    said = {other: view for other, view in seen.items() if region in view.replicas}
    states = ([own.status] if own else []) + [view.replicas[region] for view in said.values()]
    state = next((shown_state for shown_state in states if shown_state in REASONS), None)
    if state is not None:
        since = min(
            (view.inaccessible[region] for view in said.values() if region in view.inaccessible),
            default=None,
        )
        at = f" since {since.isoformat()}" if since else ""
        return f"the replica in {region} is {state}{at}: {REASONS[state]}"
    left = [
        other
        for other, view in seen.items()
        if other != region and own and own.active and view.active and other not in said
    ]
    if left:
        return (
            f"{', '.join(left)} {'does' if len(left) == 1 else 'do'} not count {region} among the"
            " replicas: it is a table of its own there, or has left the global table; what it"
            " lacks it will not receive"
        )
    return ""
