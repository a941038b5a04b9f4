"""What each role may do on the table, and no more: its grants, before they are bound to a table.

Four things narrow a role. **Actions**: only those that its code calls; a test records the calls
and compares. **Regions**: compactor and importer write through the home region only, so elsewhere
they hold no write at all; nor do users of the other methods, which hold in one region only.
**Partition keys**: what is not a counter's begins with `~` and a letter, a shard of a counter with
`~` and a digit. So a role that writes under counters writes there and nowhere else, whatever the
ledger keeps in the table besides; IAM can say so only by all that begin with `~` and a letter. What
else a role writes is named: hints to the compactor (`~hint-0` to `~hint-3`), records of reversals
and counts, and so on. The net change shares its partition key with its entries, so IAM
cannot distinguish the two by keys: its version condition guards it against us, not against anyone
who has the writer's credentials. **Attributes**: who writes entries names only attributes of
entries, a spender those of grants besides, and one who corrects those of reversals and counts; so
none of them puts a net change, or an entry that expires. A strict writer does so in an INSERT,
which replaces nothing. **Objects**: of the archive only what is under its prefix.

Pure: no clock, no randomness, no I/O.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from string import ascii_lowercase
from typing import Literal

from ledger.core import once
from ledger.core.contract_item import CONTRACT_PARTITION
from ledger.core.entry import ENTRY_ATTRIBUTES, GRANT, SPENDING_ATTRIBUTES
from ledger.core.hints import HINT_PARTITIONS
from ledger.core.index import INDEX_PREFIX
from ledger.core.keys import (
    BUDGET_PREFIX,
    COUNT_PREFIX,
    DESCRIPTION_PREFIX,
    DOCTOR_PARTITION,
    EXPIRES,
    IMPORT_PARTITION,
    LEASE_PARTITION,
    LEASE_PREFIX,
    PASS_PARTITION,
    RECONCILE_LATEST_PREFIX,
    RECONCILE_PREFIX,
    REVERSE_PREFIX,
    SCAN_PARTITION,
    SEQUENCE_PREFIX,
    VERSION_PREFIX,
    WATCH_PREFIX,
    WEBHOOK_PREFIX,
)
from ledger.core.sums import SUM_ATTRIBUTES
from ledger.pipeline.core.items import PIPELINE_PREFIX, STATE_PREFIX


class Role(StrEnum):
    """A part of the ledger that calls DynamoDB under its own policy."""

    WRITER = "writer"
    CORRECTOR = "corrector"
    SPENDER = "spender"
    STRICT_WRITER = "strict-writer"
    READER = "reader"
    WATCHER = "watcher"
    FOLLOWER = "follower"
    NOTIFIER = "notifier"
    COMPACTOR = "compactor"
    RECOVERY = "recovery"
    ARCHIVIST = "archivist"
    IMPORTER = "importer"
    METHODS = "methods"
    PIPELINE = "pipeline"
    AUDIT = "audit"
    OPERATOR = "operator"
    ADMINISTRATOR = "administrator"
    SERVICE = "service"


class Where(StrEnum):
    """In which regions a grant holds."""

    EVERY_REGION = "every region"
    HOME = "home"


@dataclass(frozen=True, slots=True)
class RoleGrant:
    """Some actions on the table: in which regions, and on which partition keys.

    A `*` in a key stands for any text. `tables` says of which tables: the ledger's own; that of
    markers, if it has one; its own and those of pipelines' states; its own if states have others,
    as those that were there before are moved; all of them; the streams of its own. Of `objects` and
    `buckets` the actions are S3's, on the archive's objects, and on the buckets that they are in.
    With `if_archived` it is only of a table that has an archive. `only_attributes` are the names of
    all attributes that a request may have, the keys' among them; `never_attributes` of some that it
    may not have.
    """

    name: str
    actions: tuple[str, ...]
    where: Where = Where.EVERY_REGION
    only_keys: tuple[str, ...] = ()
    never_keys: tuple[str, ...] = ()
    tables: Literal["own", "markers", "states", "left", "all", "streams", "objects", "buckets"] = (
        "own"
    )
    if_archived: bool = False
    only_attributes: tuple[str, ...] = ()
    never_attributes: tuple[str, ...] = ()

    @property
    def service(self) -> str:
        """The service whose actions they are."""
        return "s3" if self.tables in {"objects", "buckets"} else "dynamodb"


_COUNTS, _NUMBERS, _VERSIONS, _LEASES = (
    f"{prefix}*" for prefix in (COUNT_PREFIX, SEQUENCE_PREFIX, VERSION_PREFIX, LEASE_PREFIX)
)
_STATES, _LANES = f"{STATE_PREFIX}*", f"{PIPELINE_PREFIX}*"
_WATCHES, _INDEX, _DESCRIPTIONS = (
    f"{prefix}*" for prefix in (WATCH_PREFIX, INDEX_PREFIX, DESCRIPTION_PREFIX)
)
_WEBHOOKS, _BUDGETS = f"{WEBHOOK_PREFIX}*", f"{BUDGET_PREFIX}*"
_OWN = (_DESCRIPTIONS, *(f"~{letter}*" for letter in ascii_lowercase if letter != "d"))
"""All that is not a counter's but `~doctor`, where permissions are tried."""
_ENTRY = ("pk", "sk", *(name for name in ENTRY_ATTRIBUTES if name != once.REVERSES))
"""The attributes of an entry that is recorded."""
_RECORDS = tuple(
    f"{prefix}*" for prefix in (REVERSE_PREFIX, RECONCILE_PREFIX, RECONCILE_LATEST_PREFIX)
)
# Every process reads the contract in its own region before it acts, and again each minute.
_READ_CONTRACT = RoleGrant("ReadTheContract", ("Query",), only_keys=(CONTRACT_PARTITION,))
_READ_ARCHIVE = RoleGrant("ReadTheArchive", ("GetObject",), tables="objects")
# HeadBucket, which returns a bucket's region, and ListObjectsV2 are both under ListBucket.
_SEE_BUCKETS = RoleGrant("SeeTheArchive", ("ListBucket",), tables="buckets")
_LEASING = ("GetItem", "PutItem", "UpdateItem", "ConditionCheckItem")

_GRANTS: dict[Role, tuple[RoleGrant, ...]] = {
    Role.WRITER: (
        _READ_CONTRACT,
        # Changes with keys are sent as statements, 25 at a time, and if those are denied one by
        # one. An entry that names a grant is charged to it: only a spender may write one.
        RoleGrant(
            "WriteEntries",
            ("PutItem", "BatchWriteItem", "PartiQLInsert"),
            never_keys=_OWN,
            only_attributes=_ENTRY,
        ),
        RoleGrant("LeaveHints", ("BatchWriteItem",), only_keys=HINT_PARTITIONS),
        # A call past the retry horizon is answered from table and archive.
        RoleGrant("AnswerLateCalls", ("GetItem", "Query"), never_keys=_OWN, if_archived=True),
        _READ_ARCHIVE,
        RoleGrant("Describe", ("GetItem", "PutItem"), only_keys=(_DESCRIPTIONS,)),
        # `ledger doctor --probe`.
        RoleGrant("Probe", ("PutItem", "BatchWriteItem"), only_keys=(DOCTOR_PARTITION,)),
    ),
    # Besides writer's and reader's, for `reverse` and `reconcile`: every region is looked at, and
    # home written to.
    Role.CORRECTOR: (
        RoleGrant(
            "ReverseAndCorrect",
            ("PutItem",),
            Where.HOME,
            never_keys=_OWN,
            # The reversal of a spend gives rights back, of a grant that a spender's policy allows.
            only_attributes=(*once.ATTRIBUTES, GRANT),
        ),
        RoleGrant("KeepRecords", ("GetItem", "PutItem", "Query"), Where.HOME, only_keys=_RECORDS),
        RoleGrant("LookAtEntries", ("GetItem", "Query"), never_keys=_OWN),
    ),
    # Besides the writer's, for programs that spend from budgets, hold, or change limits: rights are
    # fetched through the regions that have them, and holds resolved through that of their entry.
    Role.SPENDER: (
        RoleGrant(
            "SpendAndHold",
            ("PutItem", "BatchWriteItem", "UpdateItem"),
            never_keys=_OWN,
            only_attributes=(*_ENTRY, *SPENDING_ATTRIBUTES),
        ),
        RoleGrant("LookAtEntries", ("GetItem",), never_keys=_OWN),
        RoleGrant("KeepRights", ("GetItem", "PutItem", "Query"), only_keys=(_BUDGETS,)),
    ),
    # Instead of the writer's, with `writer.strict`: it replaces and deletes no existing item,
    # and what it puts has no attribute that only net changes, sums or records have.
    Role.STRICT_WRITER: (
        _READ_CONTRACT,
        RoleGrant(
            "InsertEntries",
            ("PartiQLInsert",),
            never_keys=_OWN,
            only_attributes=_ENTRY,
        ),
        # An INSERT does not return an existing item.
        RoleGrant("LookAtWhatIsThere", ("GetItem",), never_keys=_OWN),
        RoleGrant("LeaveHints", ("BatchWriteItem",), only_keys=HINT_PARTITIONS),
        RoleGrant("AnswerLateCalls", ("Query",), never_keys=_OWN, if_archived=True),
        _READ_ARCHIVE,
        RoleGrant("Describe", ("GetItem", "PutItem"), only_keys=(_DESCRIPTIONS,)),
    ),
    Role.READER: (
        RoleGrant("ReadCollections", ("Query",)),
        RoleGrant("LeaveHints", ("BatchWriteItem",), only_keys=HINT_PARTITIONS),
        _READ_ARCHIVE,
        RoleGrant("ReadDescriptions", ("BatchGetItem",), only_keys=(_DESCRIPTIONS,)),
    ),
    # Beside the reader's, where totals are watched: each crossing is decided through home.
    Role.WATCHER: (
        RoleGrant("ReadTotalsAtHome", ("Query",), Where.HOME),
        RoleGrant("DecideCrossings", ("GetItem", "PutItem"), Where.HOME, only_keys=(_WATCHES,)),
    ),
    # Beside the reader's, where the feed is followed.
    Role.FOLLOWER: (
        RoleGrant(
            "ReadTheStream",
            ("DescribeStream", "GetRecords", "GetShardIterator", "ListStreams"),
            tables="streams",
        ),
    ),
    # Beside the reader's, the watcher's and the follower's, for the worker of webhooks.
    Role.NOTIFIER: (
        RoleGrant(
            "KeepWebhooks",
            ("DeleteItem", "GetItem", "PutItem", "Query"),
            Where.HOME,
            only_keys=(_WEBHOOKS,),
        ),
        RoleGrant(
            "HoldTheLease",
            ("GetItem", "PutItem", "UpdateItem"),
            Where.HOME,
            only_keys=(f"{LEASE_PREFIX}webhooks",),
        ),
    ),
    Role.COMPACTOR: (
        RoleGrant("ObserveEveryRegion", ("BatchGetItem", "GetItem", "Query")),
        RoleGrant("FindCollections", ("Scan",), Where.HOME),
        RoleGrant("SeeReplicas", ("DescribeTable",), Where.HOME),
        RoleGrant(
            "HoldTheLease",
            ("PutItem", "UpdateItem", "DeleteItem", "ConditionCheckItem"),
            Where.HOME,
            only_keys=(LEASE_PARTITION,),
        ),
        RoleGrant(
            "KeepThePlace",
            ("PutItem",),
            Where.HOME,
            only_keys=(SCAN_PARTITION, PASS_PARTITION),
        ),
        RoleGrant("DecideCrossings", ("PutItem",), Where.HOME, only_keys=(_WATCHES,)),
        # Grants are closed, and rights moved, through the regions that made them; so are holds.
        RoleGrant("KeepRights", ("PutItem",), only_keys=(_BUDGETS,)),
        RoleGrant(
            "ResolveHolds",
            ("UpdateItem",),
            never_keys=_OWN,
            only_attributes=("pk", "sk", "change", *SPENDING_ATTRIBUTES),
        ),
        RoleGrant(
            "KeepTheIndex",
            (
                "BatchGetItem",
                "DeleteItem",
                "PartiQLDelete",
                "PartiQLInsert",
                "PartiQLUpdate",
                "PutItem",
                "UpdateItem",
            ),
            Where.HOME,
            only_keys=(_INDEX,),
        ),
        RoleGrant(
            "MergeAndDelete",
            ("PutItem", "BatchWriteItem"),
            Where.HOME,
            never_keys=_OWN,
            never_attributes=(EXPIRES,),
        ),
        RoleGrant("FollowHints", ("BatchWriteItem",), Where.HOME, only_keys=HINT_PARTITIONS),
        RoleGrant("KeepRecords", ("PutItem",), Where.HOME, only_keys=_RECORDS),
        RoleGrant("Archive", ("GetObject", "PutObject"), Where.HOME, tables="objects"),
        replace(_SEE_BUCKETS, where=Where.HOME),
    ),
    # Beside the compactor's: what a lost region left in part is found and completed everywhere.
    Role.RECOVERY: (
        RoleGrant("FindCollections", ("Scan",)),
        RoleGrant("SeeReplicas", ("DescribeTable",)),
        RoleGrant(
            "CompleteAndDelete",
            ("PutItem", "ConditionCheckItem", "BatchWriteItem"),
            never_keys=_OWN,
            never_attributes=(EXPIRES,),
        ),
    ),
    # `ledger verify --archive`, `ledger archive sweep`, `erase` and `rebuild`.
    Role.ARCHIVIST: (
        RoleGrant("CompareRegions", ("Query", "Scan")),
        RoleGrant("LookAtEntries", ("GetItem",), Where.HOME),
        RoleGrant(
            "Rebuild", ("PutItem",), Where.HOME, never_keys=_OWN, never_attributes=(EXPIRES,)
        ),
        RoleGrant("KeepRecords", ("PutItem",), Where.HOME, only_keys=_RECORDS),
        RoleGrant("KeepTheArchive", ("DeleteObject", "GetObject", "PutObject"), tables="objects"),
        _SEE_BUCKETS,
    ),
    Role.IMPORTER: (
        RoleGrant(
            "WriteEntries", ("PutItem",), Where.HOME, never_keys=_OWN, only_attributes=_ENTRY
        ),
        RoleGrant("WriteMarkers", ("PutItem",), Where.HOME, only_keys=(IMPORT_PARTITION,)),
        RoleGrant("ReadMarkers", ("Query",), only_keys=(CONTRACT_PARTITION, IMPORT_PARTITION)),
        RoleGrant("LookAtMarkers", ("GetItem",), Where.HOME, only_keys=(IMPORT_PARTITION,)),
        RoleGrant("LeaveHints", ("BatchWriteItem",), Where.HOME, only_keys=HINT_PARTITIONS),
    ),
    Role.METHODS: (
        RoleGrant("ReadTheContract", ("Query",), Where.HOME, only_keys=(CONTRACT_PARTITION,)),
        RoleGrant("Count", ("GetItem", "PutItem", "UpdateItem"), Where.HOME, only_keys=(_COUNTS,)),
        # If markers have a separate table: they are put and read there, and nothing else is.
        RoleGrant(
            "Mark",
            ("GetItem", "PutItem"),
            Where.HOME,
            only_keys=(_COUNTS,),
            tables="markers",
        ),
        RoleGrant(
            "Number",
            ("GetItem", "PutItem", "Query", "UpdateItem"),
            Where.HOME,
            only_keys=(_NUMBERS,),
        ),
        # The lock of a subject is stored with its versions, so no guard needs any other lease.
        RoleGrant(
            "GuardVersions",
            ("DeleteItem", *_LEASING, "Query"),
            Where.HOME,
            only_keys=(_VERSIONS,),
        ),
        RoleGrant("HoldLeases", (*_LEASING, "DeleteItem"), Where.HOME, only_keys=(_LEASES,)),
    ),
    # States are written in their records' home regions, all else in the lane's: any may be either.
    Role.PIPELINE: (
        _READ_CONTRACT,
        RoleGrant(
            "KeepStates",
            ("BatchGetItem", "GetItem", "PartiQLInsert", "PartiQLUpdate", "PutItem", "UpdateItem"),
            only_keys=(_STATES,),
            tables="states",
        ),
        RoleGrant("MoveStates", ("DeleteItem",), only_keys=(_STATES,), tables="left"),
        RoleGrant("KeepLanes", ("DeleteItem", "GetItem", "PutItem", "Query"), only_keys=(_LANES,)),
        RoleGrant(
            "AddToTotals",
            ("PutItem", "UpdateItem"),
            never_keys=_OWN,
            only_attributes=(*_ENTRY, *SUM_ATTRIBUTES),
        ),
        RoleGrant("LeaveHints", ("BatchWriteItem",), only_keys=HINT_PARTITIONS),
    ),
    # `ledger pipeline audit`, `mend`, `rebuild`, `reset`, `move-states` find all by keyless scans.
    Role.AUDIT: (
        RoleGrant("FindStates", ("Query", "Scan"), tables="states"),
        RoleGrant(
            "PutStatesRight",
            ("DeleteItem", "GetItem", "PutItem"),
            only_keys=(_STATES,),
            tables="states",
        ),
        RoleGrant(
            "MarkLanes",
            ("ConditionCheckItem", "DeleteItem", "GetItem", "PutItem", "UpdateItem"),
            only_keys=(_LANES,),
        ),
        RoleGrant(
            "PutTotalsRight",
            ("PutItem", "UpdateItem"),
            never_keys=_OWN,
            only_attributes=(*_ENTRY, *SUM_ATTRIBUTES),
        ),
    ),
    # Beside another: `ledger table adopt` and `set`, `ledger lease list`, `compactor move-home`.
    Role.OPERATOR: (
        _READ_CONTRACT,
        RoleGrant("ChangeTheContract", ("PutItem",), Where.HOME, only_keys=(CONTRACT_PARTITION,)),
        # A Scan names no partition key, so it cannot be narrowed to those of leases.
        RoleGrant("ListLeases", ("Scan",), Where.HOME),
        RoleGrant("SeeReplicas", ("DescribeTable",)),
    ),
    # Beside writer's, reader's and corrector's: what `ledger serve` shows of the fleet.
    Role.SERVICE: (
        RoleGrant(
            "SeeTheFleet",
            ("DescribeContinuousBackups", "DescribeTable", "DescribeTimeToLive"),
        ),
        RoleGrant("SeeLeadersAndLanes", ("GetItem",), only_keys=(LEASE_PARTITION, _LANES)),
    ),
    Role.ADMINISTRATOR: (
        RoleGrant(
            "MakeTheTable",
            (
                "CreateTable",
                "CreateTableReplica",
                "DescribeContinuousBackups",
                "DescribeTable",
                "DescribeTimeToLive",
                "UpdateContinuousBackups",
                "UpdateTable",
                "UpdateTimeToLive",
            ),
            tables="all",
        ),
        # DynamoDB requires these to add a replica, which it fills in the name of the caller.
        RoleGrant(
            "FillReplicas",
            (
                "BatchWriteItem",
                "DeleteItem",
                "GetItem",
                "PutItem",
                "Query",
                "Scan",
                "UpdateItem",
            ),
            tables="all",
        ),
    ),
}


def grants(role: Role) -> tuple[RoleGrant, ...]:
    """Return what `role` may do, before it is bound to a table."""
    return _GRANTS[role]
