import itertools
from collections import defaultdict
from collections.abc import Callable
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from ledger.administration.table import Clients, Progress, create_table, delete_table, table_state
from ledger.administration.table_plan import KEYS, PASSING, Kind, Step
from ledger.core.errors import (
    AccessDenied,
    LedgerError,
    RequestRefused,
    SettingsError,
    Unreachable,
)
from ledger.settings import Settings
from ledger.settings.groups import Region

REGIONS = ("us-east-1", "eu-west-1", "ap-southeast-1")
SETTINGS = Settings(home="us-east-1", regions={name: Region() for name in REGIONS})
CHANGE_OBSERVATIONS = 3
"""A change in the fake is seen as under way in this many descriptions."""


def refused(code: str, message: str = "") -> ClientError:
    """Give the error of an answer with this code."""
    return ClientError({"Error": {"Code": code, "Message": message}}, "operation")


class FakeAws:
    """The control plane of one table in memory, with AWS's rules for what may be changed when.

    Changes take a few descriptions to end; a table that changes refuses the next change; recovery
    and protection belong to each replica alone; a protected table is not deleted.
    """

    def __init__(self) -> None:
        self.tables: dict[str, dict[str, Any]] = {}
        self.changing: dict[tuple[str, str], int] = defaultdict(int)
        self.requests: list[tuple[str, str]] = []
        self.fail_at: int | None = None
        self.fail_with: Callable[[], Exception] = lambda: refused("AccessDeniedException")
        self.now = 0.0

    def connect(self, settings: Settings) -> Clients:
        """Give a client for each region, home first."""
        names = sorted(settings.regions, key=lambda name: name != settings.home)
        return cast("Clients", {name: FakeClient(self, name) for name in names})

    def request(self, region: str, name: str) -> None:
        """Count a request that changes something, and fail if this is the one that should."""
        self.requests.append((region, name))
        if self.fail_at is not None and len(self.requests) > self.fail_at:
            self.fail_at = None
            raise self.fail_with()

    def sleep(self, seconds: float) -> None:
        """Pass the time; changes go on as they are observed."""
        self.now += seconds

    def run(self, do: Callable[..., Any] = create_table, settings: Settings = SETTINGS) -> Any:
        """Create or delete with the fake's clock and clients."""
        return do(
            settings,
            connect=self.connect,
            sleep=self.sleep,
            monotonic=lambda: self.now,
            timeout=600.0,
            poll=1.0,
        )


class FakeClient:
    """The requests of boto3's client that the code under test sends, in one region."""

    def __init__(self, aws: FakeAws, region: str) -> None:
        self.aws = aws
        self.region = region

    def own(self, *, resting: bool = False) -> dict[str, Any]:
        """Give this region's table; with `resting`, only if it is not changing."""
        table = self.aws.tables.get(self.region)
        if table is None:
            raise refused("ResourceNotFoundException")
        if resting and table["TableStatus"] != "ACTIVE":
            raise refused("ResourceInUseException")
        return table

    def begin(self, region: str, status: str) -> None:
        """Let a region's table change for a few descriptions."""
        self.aws.tables[region]["TableStatus"] = status
        self.aws.changing[region, status] = CHANGE_OBSERVATIONS

    def create_table(self, **request: Any) -> None:
        """Make the table, as asked for."""
        self.aws.request(self.region, "create_table")
        if self.region in self.aws.tables:
            raise refused("ResourceInUseException")
        assert request["BillingMode"] == "PAY_PER_REQUEST"
        self.aws.tables[self.region] = {**request, "recovery": False, "peers": {self.region}}
        self.begin(self.region, "CREATING")

    def update_table(self, **request: Any) -> None:
        """Change stream, protection or replicas."""
        self.aws.request(self.region, "update_table")
        table = self.own(resting=True)
        for update in request.pop("ReplicaUpdates", []):
            self.replica(table, update)
        table.update({key: value for key, value in request.items() if key != "TableName"})
        for peer in table["peers"]:
            if self.aws.tables[peer]["TableStatus"] == "ACTIVE":
                self.begin(peer, "UPDATING")

    def replica(self, table: dict[str, Any], update: dict[str, dict[str, str]]) -> None:
        """Add or remove a replica; protection and recovery are not carried over."""
        if "Create" in update:
            region = update["Create"]["RegionName"]
            if region in self.aws.tables:
                raise refused("ValidationException", "already a table")
            assert table["StreamSpecification"]["StreamViewType"] == "NEW_AND_OLD_IMAGES"
            self.aws.tables[region] = {
                **table,
                "recovery": False,
                "DeletionProtectionEnabled": False,
            }
            table["peers"].add(region)
            self.begin(region, "CREATING")
        else:
            region = update["Delete"]["RegionName"]
            if self.aws.tables[region].get("DeletionProtectionEnabled"):
                raise refused("ValidationException", "protected")
            self.begin(region, "DELETING")

    def update_continuous_backups(self, **request: Any) -> None:
        """Turn recovery on."""
        self.aws.request(self.region, "update_continuous_backups")
        specification = request["PointInTimeRecoverySpecification"]
        self.own(resting=True)["recovery"] = specification["PointInTimeRecoveryEnabled"]

    def update_time_to_live(self, **request: Any) -> None:
        """Turn time to live on, for all replicas; a second time is refused, as AWS does."""
        self.aws.request(self.region, "update_time_to_live")
        specification = request["TimeToLiveSpecification"]
        assert specification["Enabled"]
        if self.own(resting=True).get("expires"):
            raise refused("ValidationException", "TimeToLive is already enabled")
        for peer in self.own()["peers"]:
            self.aws.tables[peer]["expires"] = specification["AttributeName"]

    def describe_time_to_live(self, **_: Any) -> dict[str, Any]:
        """Describe time to live: being turned on takes AWS up to an hour."""
        if self.own()["TableStatus"] == "CREATING":
            raise refused("ResourceNotFoundException")
        if attribute := self.own().get("expires"):
            described = {"TimeToLiveStatus": "ENABLING", "AttributeName": attribute}
        else:
            described = {"TimeToLiveStatus": "DISABLED"}
        return {"TimeToLiveDescription": described}

    def delete_table(self, **_: Any) -> None:
        """Delete a table that is neither protected nor has other replicas."""
        self.aws.request(self.region, "delete_table")
        table = self.own(resting=True)
        if table.get("DeletionProtectionEnabled") or table["peers"] != {self.region}:
            raise refused("ValidationException", "protected, or has replicas")
        self.begin(self.region, "DELETING")

    def describe_table(self, **_: Any) -> dict[str, Any]:
        """Describe the table; each description brings its changes nearer to their end."""
        self.go_on(self.region)
        table = self.own()
        replicas = [
            {"RegionName": peer, "ReplicaStatus": self.aws.tables[peer]["TableStatus"]}
            for peer in table["peers"] - {self.region}
        ]
        return {"Table": {**table, "Replicas": replicas}}

    def go_on(self, region: str) -> None:
        """End this region's change once it was observed often enough."""
        table = self.aws.tables.get(region)
        if table is None or table["TableStatus"] not in PASSING:
            return
        key = (region, table["TableStatus"])
        self.aws.changing[key] -= 1
        if self.aws.changing[key] > 0:
            return
        if table["TableStatus"] == "DELETING":
            table["peers"].discard(region)
            del self.aws.tables[region]
        else:
            table["TableStatus"] = "ACTIVE"

    def describe_continuous_backups(self, **_: Any) -> dict[str, Any]:
        """Describe recovery; AWS does not know it while the table is being made."""
        if self.own()["TableStatus"] == "CREATING":
            raise refused("TableNotFoundException")
        status = "ENABLED" if self.own()["recovery"] else "DISABLED"
        return {
            "ContinuousBackupsDescription": {
                "PointInTimeRecoveryDescription": {"PointInTimeRecoveryStatus": status}
            }
        }


def finished(aws: FakeAws) -> bool:
    """Tell whether every region has an active, recoverable, protected replica."""
    return set(aws.tables) == set(REGIONS) and all(
        table["TableStatus"] == "ACTIVE"
        and table["recovery"]
        and table["DeletionProtectionEnabled"]
        for table in aws.tables.values()
    )


def plain_table(**changes: Any) -> dict[str, Any]:
    """Give a table of the ledger's shape without stream, recovery or protection."""
    return {
        "TableStatus": "ACTIVE",
        "KeySchema": [{"AttributeName": name, "KeyType": role} for name, role, _ in KEYS],
        "AttributeDefinitions": [
            {"AttributeName": name, "AttributeType": kind} for name, _, kind in KEYS
        ],
        "recovery": False,
        "peers": {"us-east-1"},
        **changes,
    }


def test_the_table_is_made_whole() -> None:
    """The table comes first, then replicas one at a time, then each region's own protections."""
    aws = FakeAws()
    state = aws.run()
    assert finished(aws)
    assert state.left == ()
    kinds = [kind for kind, _ in itertools.groupby(step.kind for step in state.taken)]
    assert kinds == [Kind.CREATE, Kind.REPLICA, Kind.RECOVERY, Kind.PROTECT]
    recovered = [step.region for step in state.taken if step.kind is Kind.RECOVERY]
    assert recovered == list(REGIONS)


def test_a_second_run_changes_nothing() -> None:
    """When all is there, no request that changes anything is sent."""
    aws = FakeAws()
    aws.run()
    sent = len(aws.requests)
    assert aws.run().taken == ()
    assert len(aws.requests) == sent


EXPIRING = SETTINGS.replace(time_to_live=True)


def test_time_to_live_is_off_until_it_is_asked_for() -> None:
    """It is turned on once, for the whole table, by the attribute that only markers have."""
    aws = FakeAws()
    aws.run()
    assert aws.tables["eu-west-1"].get("expires") is None
    assert aws.run(settings=EXPIRING).taken == (Step(Kind.EXPIRY, "us-east-1"),)
    assert {table["expires"] for table in aws.tables.values()} == {"~expires"}
    assert aws.run(settings=EXPIRING).taken == ()


def test_time_to_live_once_on_is_left_on() -> None:
    """Settings that do not ask for it do not turn it off: markers of others may rest on it."""
    aws = FakeAws()
    aws.run(settings=EXPIRING)
    assert aws.run().taken == ()
    assert aws.tables["us-east-1"]["expires"] == "~expires"


def test_the_state_says_that_time_to_live_is_missing() -> None:
    """`ledger table status` names it where the settings want it and the table has it not."""
    aws = FakeAws()
    aws.run()
    assert table_state(SETTINGS, connect=aws.connect).left == ()
    left = table_state(EXPIRING, connect=aws.connect).left
    assert [str(step) for step in left] == ["us-east-1: turn on time to live by ~expires"]


CREATE_REQUESTS = 9


@pytest.mark.parametrize("step", range(CREATE_REQUESTS))
def test_a_run_stopped_at_any_step_is_finished_by_the_next(step: int) -> None:
    """Whichever request was the last, running again does what is missing."""
    aws = FakeAws()
    aws.fail_at = step
    with pytest.raises(AccessDenied, match="table ledger"):
        aws.run()
    aws.run()
    assert finished(aws)


def test_the_steps_above_are_all_there_are() -> None:
    """The test of interruptions covers each request of a whole run."""
    aws = FakeAws()
    aws.run()
    assert len(aws.requests) == CREATE_REQUESTS


@pytest.mark.parametrize(
    "code", ["ResourceInUseException", "LimitExceededException", "ThrottlingException"]
)
@pytest.mark.parametrize("step", range(CREATE_REQUESTS))
def test_a_busy_control_plane_is_waited_for(step: int, code: str) -> None:
    """A step refused because something else is under way is taken again later."""
    aws = FakeAws()
    aws.fail_at, aws.fail_with = step, lambda: refused(code)
    aws.run()
    assert finished(aws)


def test_a_replica_missing_later_is_added() -> None:
    """A region added to the settings gets its replica and nothing else is touched."""
    aws = FakeAws()
    two = SETTINGS.replace(regions={name: Region() for name in REGIONS[:2]})
    aws.run(settings=two)
    taken = aws.run().taken
    assert {step.region for step in taken} == {"ap-southeast-1"}
    assert [step.kind for step in taken] == [Kind.REPLICA, Kind.RECOVERY, Kind.PROTECT]


def test_a_new_home_is_added_through_the_region_that_has_the_table() -> None:
    """The table is never made a second time beside an existing one."""
    aws = FakeAws()
    aws.run(settings=Settings(home="eu-west-1", regions={"eu-west-1": Region()}))
    aws.run()
    assert finished(aws)
    assert [region for region, name in aws.requests if name == "create_table"] == ["eu-west-1"]


def test_a_table_without_a_stream_gets_one() -> None:
    """A table of the right keys made by hand becomes the global table."""
    aws = FakeAws()
    aws.tables["us-east-1"] = plain_table()
    state = aws.run()
    assert state.taken[0] == Step(Kind.STREAM, "us-east-1")
    assert finished(aws)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        (
            {"KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}]},
            r"its keys are id \(\?, HASH\), the ledger's are pk \(S, HASH\), sk \(S, RANGE\)",
        ),
        (
            {
                "AttributeDefinitions": [
                    {"AttributeName": "pk", "AttributeType": "S"},
                    {"AttributeName": "sk", "AttributeType": "N"},
                ]
            },
            r"sk \(N, RANGE\), the ledger's",
        ),
        (
            {"StreamSpecification": {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}},
            "its stream shows KEYS_ONLY, replicas need NEW_AND_OLD_IMAGES",
        ),
        ({"MultiRegionConsistency": "STRONG"}, "STRONG consistent, where AWS offers no trans"),
        ({"TableStatus": "INACCESSIBLE_ENCRYPTION_CREDENTIALS"}, "does not pass by itself"),
        ({"expires": "change"}, "its time to live goes by 'change', so an item of the ledger"),
    ],
)
@pytest.mark.parametrize("do", [create_table, delete_table])
def test_a_table_of_another_shape_is_refused(
    do: Callable[..., Any], changes: dict[str, Any], named: str
) -> None:
    """The difference is named and nothing is changed, nor deleted."""
    aws = FakeAws()
    aws.tables["us-east-1"] = plain_table(**changes)
    with pytest.raises(RequestRefused, match=named):
        aws.run(do)
    assert aws.requests == []


def test_two_tables_of_one_name_are_no_global_table() -> None:
    """A table in another region that is no replica of home's is never touched."""
    aws = FakeAws()
    aws.tables["us-east-1"] = plain_table()
    aws.tables["eu-west-1"] = plain_table(peers={"eu-west-1"})
    with pytest.raises(RequestRefused, match="eu-west-1, table ledger: it is a table of its own"):
        aws.run()
    assert aws.requests == []


def test_a_replica_that_the_settings_do_not_name_is_refused() -> None:
    """Merging must see every replica, so one that it would not see stops everything."""
    aws = FakeAws()
    aws.run()
    two = SETTINGS.replace(regions={name: Region() for name in REGIONS[:2]})
    with pytest.raises(SettingsError, match="a replica in ap-southeast-1, which is not one of"):
        aws.run(settings=two)


def test_waiting_ends_with_what_is_still_to_do() -> None:
    """A step that never ends is reported as such, and is not sent again and again."""
    aws = FakeAws()

    def stuck(settings: Settings) -> Clients:
        clients = aws.connect(settings)
        cast("Any", clients["eu-west-1"]).go_on = lambda _region: None
        return clients

    with pytest.raises(Unreachable, match=r"not done within 60 s, still to do: eu-west-1: add"):
        create_table(
            SETTINGS,
            connect=stuck,
            sleep=aws.sleep,
            monotonic=lambda: aws.now,
            timeout=60,
            poll=1,
        )
    assert aws.requests.count(("us-east-1", "update_table")) == 1


def test_progress_counts_to_the_end() -> None:
    """Each report names the step, whether it waits, and never goes back."""
    aws = FakeAws()
    seen: list[Progress] = []
    create_table(
        SETTINGS,
        connect=aws.connect,
        sleep=aws.sleep,
        monotonic=lambda: aws.now,
        report=seen.append,
    )
    assert [each.done for each in seen] == sorted(each.done for each in seen)
    assert {each.total for each in seen} == {CREATE_REQUESTS}
    assert {each.waiting for each in seen} == {True, False}
    assert str(seen[0]) == "us-east-1: create the table"


def test_deleting_takes_protection_replicas_and_table() -> None:
    """Nothing is left in any region, and the base goes last."""
    aws = FakeAws()
    aws.run()
    state = aws.run(delete_table)
    assert aws.tables == {}
    kinds = [kind for kind, _ in itertools.groupby(step.kind for step in state.taken)]
    assert kinds == [Kind.UNPROTECT, Kind.REMOVE, Kind.DELETE]
    assert aws.run(delete_table).taken == ()


@pytest.mark.parametrize("step", range(6))
def test_a_deletion_stopped_at_any_step_is_finished_by_the_next(step: int) -> None:
    """Whichever request was the last, deleting again does the rest."""
    aws = FakeAws()
    aws.run()
    aws.fail_at = len(aws.requests) + step
    with pytest.raises(LedgerError):
        aws.run(delete_table)
    aws.run(delete_table)
    assert aws.tables == {}


def test_the_state_shows_regions_that_cannot_be_read() -> None:
    """One region's error does not hide what the others show."""
    aws = FakeAws()
    aws.run()

    def half(settings: Settings) -> Clients:
        clients = aws.connect(settings)

        def denied(**_: Any) -> None:
            raise refused("AccessDeniedException")

        cast("Any", clients["eu-west-1"]).describe_table = denied
        return clients

    state = table_state(SETTINGS, connect=half)
    assert set(state.errors) == {"eu-west-1"}
    assert state.views["us-east-1"] is not None
    assert state.views["eu-west-1"] is None
