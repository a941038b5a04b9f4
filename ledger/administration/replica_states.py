"""Problems of a table's replicas, as its regions describe them.

A replica that DynamoDB cannot reach, or may not replicate to, receives nothing and sends nothing:
merging waits for it, and after 20 hours DynamoDB removes it from the group for good. What it has
not received by then it never will.

Sources: botocore's model of DynamoDB (`ReplicaDescription`, `ReplicaStatus`, `TableStatus`) for
REGION_DISABLED and INACCESSIBLE_ENCRYPTION_CREDENTIALS; Amazon DynamoDB Developer Guide, "DynamoDB
global tables security", for REPLICATION_NOT_AUTHORIZED.

Pure: no clock, no randomness, no I/O.
"""

from ledger.administration.table_plan import TableView, Views

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


def problems(views: Views) -> tuple[str, ...]:
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
