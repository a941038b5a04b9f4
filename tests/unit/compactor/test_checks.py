"""The table's own replicas, compared with the regions that are observed."""

from collections.abc import Mapping

import pytest
from botocore.loaders import Loader
from support.compacting import World
from support.ledgers import HOME, SOUTH, WEST

from compactor.checks import REPLICAS_SECONDS, REPLICATING, check_replicas
from ledger.core.errors import AccessDenied, ReplicasDiffer
from ledger.store.wrappers.faults import Fault, FaultCall, Raises

GOOD = {WEST: "ACTIVE", SOUTH: "ACTIVE"}
NEW = "eu-north-1"


@pytest.mark.parametrize(
    ("described", "message"),
    [
        ({**GOOD, NEW: "ACTIVE"}, rf"has a replica in {NEW} \(ACTIVE\), which its contract does"),
        ({**GOOD, NEW: "CREATING"}, rf"has a replica in {NEW} \(CREATING\), which its contract"),
        ({**GOOD, NEW: "DELETING"}, rf"has a replica in {NEW} \(DELETING\), which its contract"),
        ({WEST: "ACTIVE"}, f"no replica in {SOUTH}, which its contract names"),
        ({}, f"no replica in {WEST}, which its contract names"),
        ({**GOOD, SOUTH: "CREATING"}, f"the replica in {SOUTH} is CREATING: it does not replicate"),
        (
            {**GOOD, WEST: "REPLICATION_NOT_AUTHORIZED"},
            f"{WEST} is REPLICATION_NOT_AUTHORIZED: .*AWSServiceRoleForDynamoDBReplication",
        ),
        (
            {**GOOD, WEST: "INACCESSIBLE_ENCRYPTION_CREDENTIALS"},
            f"{WEST} is INACCESSIBLE_ENCRYPTION_CREDENTIALS: its KMS key cannot be used",
        ),
        ({**GOOD, WEST: "ARCHIVED"}, f"{WEST} is ARCHIVED: it was archived"),
        ({**GOOD, WEST: "REGION_DISABLED"}, f"{WEST} is REGION_DISABLED: the region is disabled"),
        ({**GOOD, WEST: "of unknown state"}, f"{WEST} is of unknown state: it does not replicate"),
    ],
)
def test_replicas_that_differ_are_named(described: Mapping[str, str], message: str) -> None:
    """Each message has the region, what is wrong, and that merging waits."""
    with pytest.raises(ReplicasDiffer, match=f"{message}.*nothing is merged meanwhile"):
        check_replicas(described, home=HOME, regions=(HOME, WEST, SOUTH))


@pytest.mark.parametrize(
    ("described", "regions"),
    [
        (GOOD, (HOME, WEST, SOUTH)),
        ({WEST: "UPDATING", SOUTH: "ACTIVE"}, (SOUTH, WEST, HOME)),
        ({}, (HOME,)),
        (None, (HOME, WEST, SOUTH)),
    ],
)
def test_the_regions_of_the_contract_are_well(
    described: Mapping[str, str] | None, regions: tuple[str, ...]
) -> None:
    """A table of one region has no replicas, and a store in memory no description."""
    check_replicas(described, home=HOME, regions=regions)


def test_every_other_state_of_botocore_stops_merging() -> None:
    """A state that AWS adds counts as not replicating until it is looked at here."""
    model = Loader().load_service_model("dynamodb", "service-2")
    for state in set(model["shapes"]["ReplicaStatus"]["enum"]) - REPLICATING:
        with pytest.raises(ReplicasDiffer):
            check_replicas({WEST: state}, home=HOME, regions=(HOME, WEST))


async def test_a_replica_added_elsewhere_stops_merging_and_no_more() -> None:
    """The pass says so, by its report, its status and a metric; it merges again once named."""
    world = World()
    await world.settled(entries=6)
    one = world.instance()
    home = world.regions.replicas[HOME]
    home.described = {**GOOD, NEW: "ACTIVE"}
    report = await world.run_once(one)
    assert (report.led, report.merged, report.is_success, report.is_whole) == (
        True,
        0,
        False,
        False,
    )
    assert f"merging waits: the table has a replica in {NEW}" in report.sentence()
    assert one.metric("compactor_waiting", reason="replicas") == 1
    assert one.metric("compactor_passes_total", outcome="waiting") == 1
    home.described = GOOD
    report = await world.run_once(one)
    assert (report.merged, report.is_success) == (6, True)
    assert one.metric("compactor_waiting", reason="replicas") == 0


async def test_a_pass_without_work_says_so_too() -> None:
    """Its operator must hear of the replica before there is something that waits for it."""
    world = World()
    one = world.instance()
    world.regions.replicas[HOME].described = {**GOOD, NEW: "ACTIVE"}
    report = await world.run_once(one)
    assert f"the table has a replica in {NEW}" in report.waits


async def test_a_replica_added_during_a_long_pass_ends_it() -> None:
    """What was described is taken for true for a minute; later visits look again."""
    world = World()
    for counter in "abc":
        await world.settled(entries=6, counter=counter)
    one = world.instance(concurrency=1, pending_max=1)
    home = world.regions.replicas[HOME]
    home.described = GOOD

    async def slow() -> None:
        if any(world.shown(HOME, counter).net for counter in "abc"):
            home.described = {**GOOD, NEW: "CREATING"}
            await world.clock.sleep(REPLICAS_SECONDS / 2)

    world.regions.before_page = slow
    report = await world.run_once(one)
    assert report.folds == 2
    assert f"replica in {NEW}" in report.waits


async def test_without_the_permission_nothing_is_merged() -> None:
    """A policy without the action is met by DynamoDB's own words, not by merging unseen."""
    world = World()
    await world.settled(entries=6)
    one = world.instance()
    denied = Raises(AccessDenied("not authorized to perform: dynamodb:DescribeTable"))

    def refuse(call: FaultCall) -> Fault | None:
        return denied if call.operation == "replicas" else None

    one.faults[HOME] = refuse
    with pytest.raises(AccessDenied, match="DescribeTable"):
        await world.run_once(one)
    assert world.shown(HOME).net is None
