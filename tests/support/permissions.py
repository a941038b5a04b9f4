"""Stores that note which permission each call needs, and the rules by which IAM grants it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from support.ledgers import LOCAL

from ledger.administration.templates import Role, policy
from ledger.contract.view import ContractView
from ledger.core.contract_item import Contract, contract_item, contract_key
from ledger.core.entry import Item
from ledger.runtime.clock import SystemClock
from ledger.settings import Settings
from ledger.store.memory import MemoryStore, MemoryTable
from ledger.store.reads import FoundItems, Get, Page, Query, Scan
from ledger.store.wrappers.forwarder import ForwardingStore
from ledger.store.writes import (
    Action,
    BatchOutcome,
    BatchWrite,
    Check,
    Delete,
    EachOutcome,
    Outcome,
    Put,
    Rejected,
    Update,
    Write,
    placed,
)

HOME, OTHER = "us-east-1", "eu-west-1"
SETTINGS = Settings(
    table="money",
    home=HOME,
    regions={HOME: LOCAL, OTHER: LOCAL},
    retry_horizon=0.01,
    signature_lifetime=0.01,
    clock_skew=0.0,
    write_deadline=0.01,
    request_timeout=0.01,
    settle=0.03,
    read_deadline=0.01,
    observation_delay=0.02,
    # One page per pass, so that the search goes on over several and keeps its place.
    # Every entry leaves a hint, and so does a reader of one that is not merged for long.
    compactor={
        "fold_min": 1,
        "prune_min": 1,
        "lease": 5,
        "heartbeat": 0.01,
        "scan_pages_max": 1,
        "hint_every": 1,
        "scan_every": 0.05,
    },
)
ACTIONS: Mapping[type[Action], str] = {
    Put: "PutItem",
    Delete: "DeleteItem",
    Update: "UpdateItem",
    Check: "ConditionCheckItem",
}
"""The permission that DynamoDB asks for each action, alone or in a transaction."""

STATEMENTS: Mapping[type[Action], str] = {
    Put: "PartiQLInsert",
    Delete: "PartiQLDelete",
    Update: "PartiQLUpdate",
}
"""The permission for each write among several: Developer Guide, "IAM policies with PartiQL"."""


@dataclass(frozen=True, slots=True)
class Call:
    """What DynamoDB asks IAM before it does one request, or one action of a transaction."""

    action: str
    region: str
    partitions: tuple[str, ...] = ()
    table: str = "money"
    attributes: tuple[str, ...] = ("pk", "sk")

    @property
    def place(self) -> tuple[str, str]:
        """The action and its region."""
        return self.action, self.region

    def is_allowed(self, document: Mapping[str, Any]) -> bool:
        """Tell whether a policy allows it, by the rules of IAM that our policies use."""
        return any(self._is_allowed_by(statement) for statement in document["Statement"])

    def _is_allowed_by(self, statement: Mapping[str, Any]) -> bool:
        resource = f"arn:aws:dynamodb:{self.region}:111122223333:table/{self.table}"
        return (
            f"dynamodb:{self.action}" in statement["Action"]
            and resource in statement["Resource"]
            and all(
                self._meets(operator, key, values)
                for operator, tested in statement.get("Condition", {}).items()
                for key, values in tested.items()
            )
        )

    def _meets(self, operator: str, key: str, values: Any) -> bool:
        asked = {"dynamodb:LeadingKeys": self.partitions, "dynamodb:Attributes": self.attributes}
        match operator:
            case "Null":
                return bool(values == "true") == (not asked[key])
            case "ForAllValues:StringLike":
                return all(is_like(one, values) for one in asked[key])
            case "ForAllValues:StringNotLike":
                return not any(is_like(one, values) for one in asked[key])
            case "ForAllValues:StringEquals":
                return set(asked[key]) <= set(values)
            case "ForAllValues:StringNotEquals":
                return not set(asked[key]) & set(values)
        raise AssertionError(operator)


def is_like(partition: str, patterns: Sequence[str]) -> bool:
    """Tell whether a partition key is like one of IAM's patterns: `*` is any text, `?` a sign."""
    return any(fnmatchcase(partition, pattern) for pattern in patterns)


def attributes_of(action: Action) -> tuple[str, ...]:
    """Return the names of all attributes that a request for an action has."""
    if isinstance(action, Put):
        return tuple(action.item)
    if isinstance(action, Update):
        return ("pk", "sk", *action.set, *action.add, *action.remove)
    return ("pk", "sk")


@dataclass(slots=True)
class Recorder:
    """Stores of every region that note what each call asks of IAM."""

    calls: list[Call] = field(default_factory=list)
    table: MemoryTable = field(default_factory=MemoryTable)

    def store(self, region: str, *, forgetful: bool = False) -> "RecordingStore":
        """Give the store of one region; all regions show one table, as if replicated at once."""
        kind = ForgetfulStore if forgetful else RecordingStore
        return kind(MemoryStore(region, self.table), self.calls)

    async def read_contract(self, *regions: str) -> None:
        """Read the contract of these settings in regions, as each process does."""
        contract = contract_item(Contract(terms=SETTINGS.terms))
        self.table.set(contract_key(generation=1), contract)
        for region in regions:
            await ContractView(self.store(region), SETTINGS, clock=SystemClock()).open()


class RecordingStore(ForwardingStore):
    """A `Store` that notes the permission behind each call."""

    def __init__(self, inner: MemoryStore, calls: list[Call]) -> None:
        super().__init__(inner)
        self._calls = calls

    def _note(
        self,
        action: str,
        *partitions: str,
        table: str = "",
        attributes: Sequence[str] = ("pk", "sk"),
    ) -> None:
        asked = action, self.region, partitions, table or SETTINGS.table
        self._calls.append(Call(*asked, attributes=tuple(attributes)))

    def _note_action(self, action: Action, actions: Mapping[type[Action], str]) -> None:
        table, own = placed(action)
        is_statement = isinstance(own, Put) and own.as_statement
        asked = "PartiQLInsert" if is_statement else actions[type(own)]
        self._note(asked, own.key[0], table=table, attributes=attributes_of(own))

    async def write(self, write: Write) -> Outcome:
        """Do one conditional write."""
        self._note_action(write, ACTIONS)
        return await super().write(write)

    async def write_batch(self, writes: Sequence[BatchWrite]) -> BatchOutcome:
        """Do a batch."""
        named = dict.fromkeys(name for write in writes for name in attributes_of(write))
        self._note("BatchWriteItem", *(write.key[0] for write in writes), attributes=[*named])
        return await super().write_batch(writes)

    async def write_each(self, writes: Sequence[Write]) -> EachOutcome:
        """Do several writes: alone, as a batch of one is sent, or as statements."""
        for write in writes:
            self._note_action(write, ACTIONS)
            if len(writes) > 1 and type(placed(write)[1]) in STATEMENTS:
                self._note_action(write, STATEMENTS)
        return await super().write_each(writes)

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Do a transaction."""
        for action in actions:
            self._note_action(action, ACTIONS)
        return await super().transact(actions, token=token)

    async def get(self, get: Get) -> Item | None:
        """Read one item."""
        self._note("GetItem", get.key[0], table=get.table)
        return await super().get(get)

    async def get_each(self, gets: Sequence[Get]) -> FoundItems:
        """Read several items."""
        for table in dict.fromkeys(get.table for get in gets):
            keys = [get.key[0] for get in gets if get.table == table]
            self._note("BatchGetItem", *keys, table=table)
        return await super().get_each(gets)

    async def query(self, query: Query) -> Page:
        """Read one page of a partition."""
        self._note("Query", query.partition)
        return await super().query(query)

    async def scan(self, scan: Scan) -> Page:
        """Read one page of one segment."""
        self._note("Scan", table=scan.table)
        return await super().scan(scan)

    async def replicas(self) -> Mapping[str, str] | None:
        """Describe the table."""
        self._note("DescribeTable")
        return await super().replicas()


class ForgetfulStore(RecordingStore):
    """A store that shows no marker until it is asked for that very one.

    So does a region whose marker arrives while the import runs, on an engine that does not hand
    back the item that was in the way.
    """

    async def query(self, query: Query) -> Page:
        """Read one page of a partition."""
        page = await super().query(query)
        return page if query.first == query.last else page._replace(items=())

    async def write(self, write: Write) -> Outcome:
        """Do one conditional write."""
        return _forgotten(await super().write(write))

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Do a transaction."""
        return _forgotten(await super().transact(actions, token=token))


def _forgotten(outcome: Outcome) -> Outcome:
    if isinstance(outcome, Rejected):
        return Rejected(found=dict.fromkeys(outcome.found))
    return outcome


def granted(role: Role, region: str) -> set[str]:
    """Give the actions that a role holds in a region, whatever the keys."""
    return {
        action.removeprefix("dynamodb:")
        for statement in policy(SETTINGS, role)["Statement"]
        for action in statement["Action"]
        if any(f":{region}:" in resource for resource in statement["Resource"])
    }


def assert_just_enough(
    role: Role, calls: Sequence[Call], regions: Sequence[str], settings: Settings = SETTINGS
) -> None:
    """Every call is allowed, and each statement's every action was called in each region."""
    document = policy(settings, role)
    assert [call for call in calls if not call.is_allowed(document)] == []
    for statement in document["Statement"]:
        allowed = {call.place for call in calls if call.is_allowed({"Statement": [statement]})}
        actions = [action.removeprefix("dynamodb:") for action in statement["Action"]]
        places = [
            (action, region)
            for action in actions
            for region in regions
            if any(f":{region}:" in resource for resource in statement["Resource"])
        ]
        assert allowed == set(places), statement["Sid"]
