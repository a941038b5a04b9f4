"""AWS's control plane in memory: tables, replicas and what is switched on, in several regions."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any, cast

from botocore.exceptions import ClientError

from ledger.administration.table import Clients, Patience, create_table
from ledger.administration.table_plan import KEYS, PASSING
from ledger.settings import Settings
from ledger.settings.groups import Region

REGIONS = ("us-east-1", "eu-west-1", "ap-southeast-1")


SETTINGS = Settings(home="us-east-1", regions={name: Region() for name in REGIONS})


CHANGE_OBSERVATIONS = 3
"""A change is seen as under way in this many descriptions."""


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
        self.warm_as: dict[str, Any] | None = None

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
            patience=self.patience(timeout_seconds=600.0),
        )

    def patience(self, *, timeout_seconds: float) -> Patience:
        """Return waits that pass the fake's time."""
        return Patience(
            timeout_seconds=timeout_seconds,
            poll_seconds=1.0,
            sleep=self.sleep,
            monotonic=lambda: self.now,
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
        if self.aws.warm_as is not None and "WarmThroughput" in request:
            table["WarmThroughput"] = self.aws.warm_as
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
