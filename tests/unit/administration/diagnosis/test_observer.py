"""The doctor's looks at regions that answer, refuse, throttle and hang."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from email.utils import format_datetime
from typing import Any, Self

import anyio
import pytest
from botocore.exceptions import (
    ClientError,
    ConnectTimeoutError,
    NoCredentialsError,
    ProfileNotFound,
    UnauthorizedSSOTokenError,
)
from support.fake_aws import refused
from support.ledgers import AWAY, HOME, SOUTH, make_settings, seeded

from ledger.administration.diagnosis.hot_collection import HotSample
from ledger.administration.diagnosis.hot_counters import hot_collections
from ledger.administration.diagnosis.lag_probe import probe_lag
from ledger.administration.diagnosis.observations import (
    RECOVERY,
    Cause,
    CredentialsObservation,
    FailedLook,
    LagObservation,
    RegionObservation,
    TableObservation,
)
from ledger.administration.diagnosis.observer import FleetObservation, look_at_all
from ledger.administration.diagnosis.region_client import (
    Looks,
    Notes,
    NotingTransport,
    RegionClients,
    failed,
)
from ledger.administration.diagnosis.region_findings import local_credentials
from ledger.administration.templates import Role
from ledger.core.contract_item import Contract, contract_item
from ledger.core.errors import ContractDamaged, SettingsError
from ledger.core.hints import hint_for
from ledger.core.ids import sort_key
from ledger.runtime.clock import Clock, SystemClock
from ledger.settings import Settings
from ledger.store.dynamodb.clock_watch import ClockWatch
from ledger.store.dynamodb.requests import Request
from ledger.store.dynamodb.transport import Response
from ledger.testing.clock import START, ManualClock

SECONDS_MAX = 1.0
"""Of a look: of those that hang all of it passes, and of no other."""
SETTINGS = make_settings()
CONTRACT = contract_item(Contract(terms=SETTINGS.terms))
Answer = Callable[[str, Request], Any]
"""What a region answers to an operation: a response, or an error to raise."""


async def hang() -> Any:
    """Answer nothing."""
    await anyio.sleep_forever()


def whole(operation: str, request: Request) -> Any:
    """Answer as a region with a whole table, a contract and an application that may do all."""
    table = {
        "TableStatus": "ACTIVE",
        "Replicas": [{"RegionName": AWAY, "ReplicaStatus": "ACTIVE"}],
    }
    on = {"PointInTimeRecoveryDescription": {"PointInTimeRecoveryStatus": "ENABLED"}}
    match operation:
        case "describe_table":
            return {"Table": table}
        case "describe_time_to_live":
            return {"TimeToLiveDescription": {"TimeToLiveStatus": "DISABLED"}}
        case "describe_continuous_backups":
            return {"ContinuousBackupsDescription": on}
        case "query" if request.get("ScanIndexForward") is False:
            return {"Items": [CONTRACT]}
        case "put_item" | "update_item" | "delete_item":
            return refused("ConditionalCheckFailedException")
    return {"Items": [], "Responses": [], "UnprocessedItems": {}}


class FakeTransport:
    """Answers each request as a function says."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    async def send(self, operation: str, request: Request) -> Response:
        """Answer, or raise the error that is the answer."""
        answer = self._answer(operation, request)
        if isinstance(answer, Exception):
            raise answer
        found: Response = await answer() if answer is hang else answer
        return found

    async def close(self) -> None:
        """Do nothing."""


async def nobody(_settings: Settings, _region: str) -> CredentialsObservation:
    """Ask nobody."""
    return local_credentials()


async def look(
    answers: Mapping[str, Answer] | None = None,
    *,
    roles: tuple[Role, ...] = (),
    settings: Settings = SETTINGS,
    **options: Any,
) -> FleetObservation:
    """Look at all regions; those without an answer of their own are whole."""

    @asynccontextmanager
    async def opening(_settings: Settings, region: str, *, clock: Any) -> AsyncIterator[Any]:
        assert clock is not None
        yield FakeTransport((answers or {}).get(region, whole))

    only = options.pop("only", None)
    given = {"opening": opening, "identify": nobody, **options}
    looks = Looks(ManualClock(), 7, SECONDS_MAX, **given)
    return await look_at_all(settings, looks, roles=roles, only=only)


def of(seen: FleetObservation, region: str) -> RegionObservation:
    """Return what was seen of a region."""
    return next(one for one in seen.regions if one.region == region)


def but(operation: str, answer: Any) -> Answer:
    """Return the answers of a whole region but for one operation."""
    return lambda asked, request: answer if asked == operation else whole(asked, request)


async def test_whole_regions_are_seen() -> None:
    """Home first, with table, contract and every permission."""
    seen = await look(roles=(Role.WRITER,))
    assert [region.region for region in seen.regions] == [HOME, AWAY]
    assert seen.contract == Contract(terms=SETTINGS.terms)
    for region in seen.regions:
        assert isinstance(region.table, TableObservation)
        assert region.table.view is not None
        assert (region.table.view.recovery, region.table.unseen) == (True, {})
        outcomes = {tried.outcome for tried in region.tried["writer"]}
        assert outcomes == {"allowed", "not tried"}


@pytest.mark.slow
@pytest.mark.parametrize("operation", ["describe_table", "query", "describe_continuous_backups"])
@pytest.mark.parametrize("answer", [hang, refused("AccessDeniedException")], ids=["hang", "deny"])
async def test_a_look_that_fails_hides_no_other(operation: str, answer: Any) -> None:
    """Whatever hangs or is denied is a `FailedLook` in its place, and all else is seen."""
    seen = await look({HOME: but(operation, answer)})
    cause = Cause.UNANSWERED if answer is hang else Cause.DENIED
    home, away = seen.regions
    assert isinstance(away.table, TableObservation)
    assert away.contract == seen.contract == Contract(terms=SETTINGS.terms)
    table = home.table
    if operation == "describe_table":
        assert isinstance(table, FailedLook)
        assert (table.cause, home.contract) == (cause, seen.contract)
    else:
        assert isinstance(table, TableObservation)
        contract = home.contract if operation == "query" else table.unseen[RECOVERY]
        assert isinstance(contract, FailedLook)
        assert contract.cause is cause


async def test_a_region_that_cannot_be_opened() -> None:
    """A profile that is not there is said in each look's place, and of its trials."""

    @asynccontextmanager
    async def opening(_settings: Settings, region: str, **_: Any) -> AsyncIterator[Any]:
        if region == HOME:
            raise ProfileNotFound(profile="absent")
        yield FakeTransport(whole)

    seen = await look(opening=opening, roles=(Role.READER,))
    home = of(seen, HOME)
    assert isinstance(home.table, FailedLook)
    assert home.table.cause is Cause.BAD_CREDENTIALS
    assert "absent" in home.table.text
    assert {tried.outcome for tried in home.tried["reader"]} == {"unknown"}
    assert isinstance(of(seen, AWAY).table, TableObservation)


@pytest.mark.slow
async def test_a_search_for_credentials_that_hangs() -> None:
    """Ends in its time, too, and the other region is seen."""

    @asynccontextmanager
    async def opening(_settings: Settings, region: str, **_: Any) -> AsyncIterator[Any]:
        if region == HOME:
            await anyio.sleep_forever()
        yield FakeTransport(whole)

    async def identify(_settings: Settings, region: str) -> CredentialsObservation:
        if region == HOME:
            await anyio.sleep_forever()
        return local_credentials()

    seen = await look(opening=opening, identify=identify)
    home = of(seen, HOME)
    for found in (home.table, home.contract, home.credentials):
        assert isinstance(found, FailedLook)
        assert found.cause is Cause.UNANSWERED
    assert isinstance(of(seen, AWAY).table, TableObservation)


async def test_no_table_and_no_contract() -> None:
    """A region without a table is one; a table without a contract has none."""
    absent = refused("ResourceNotFoundException")
    seen = await look({HOME: lambda *_: absent, AWAY: but("query", {"Items": []})})
    assert of(seen, HOME).table == TableObservation(None)
    contract = of(seen, HOME).contract
    assert isinstance(contract, FailedLook)
    assert contract.cause is Cause.MISSING
    assert of(seen, AWAY).contract is None
    assert seen.contract is None


async def test_another_server_answers() -> None:
    """What it says is no answer, and ends nothing else."""
    seen = await look({HOME: lambda *_: {"message": "welcome"}}, roles=(Role.READER,))
    home = of(seen, HOME)
    for found in (home.table, home.contract):
        assert isinstance(found, FailedLook)
        assert found.cause is Cause.UNANSWERED
    assert {tried.outcome for tried in home.tried["reader"]} == {"unknown"}
    assert isinstance(of(seen, AWAY).table, TableObservation)


async def test_a_damaged_contract() -> None:
    """Is the error that says so."""
    damaged = {**CONTRACT, "terms": {"S": "{}"}}
    seen = await look({AWAY: but("query", {"Items": [damaged]})})
    assert isinstance(of(seen, AWAY).contract, ContractDamaged)


async def test_a_region_that_only_the_contract_names() -> None:
    """Is looked at as well, where it can be reached; unless one region alone was asked for."""
    aws = Settings(home=HOME, regions={HOME: {}, AWAY: {}, SOUTH: {}})
    item = contract_item(Contract(terms=aws.terms))
    both = Settings(home=HOME, regions={HOME: {}, AWAY: {}})
    answers = dict.fromkeys((HOME, AWAY, SOUTH), but("query", {"Items": [item]}))
    seen = await look(answers, settings=both)
    assert [region.region for region in seen.regions] == [HOME, AWAY, SOUTH]
    seen = await look(answers, settings=both, only=AWAY)
    assert [region.region for region in seen.regions] == [AWAY]


async def test_permissions_of_one_kind_are_denied() -> None:
    """Those, and no other; statements have the refusal in their answers."""
    denied = {"Responses": [{"Error": {"Code": "AccessDenied", "Message": "no"}}]}
    answer: Answer = lambda asked, request: (  # noqa: E731
        refused("AccessDeniedException")
        if asked == "put_item"
        else denied
        if asked == "batch_execute_statement"
        else whole(asked, request)
    )
    seen = await look({HOME: answer}, roles=(Role.COMPACTOR,))
    tried = of(seen, HOME).tried["compactor"]
    names = {one.trial.action for one in tried if one.outcome == "denied"}
    assert names == {"PutItem", "PartiQLUpdate", "PartiQLDelete"}


@pytest.mark.slow
async def test_a_region_that_hangs_is_waited_for_once() -> None:
    """After one trial without an answer the others of a role are not sent."""
    sent: list[str] = []

    def answer(operation: str, _request: Request) -> Any:
        sent.append(operation)
        return hang

    seen = await look({HOME: answer}, roles=(Role.METHODS,))
    outcomes = {tried.outcome for tried in of(seen, HOME).tried["methods"]}
    assert outcomes == {"unknown"}
    assert len(sent) < len(of(seen, HOME).tried["methods"])


async def test_throttling_and_the_clock_are_noted() -> None:
    """The limits that DynamoDB names, else its code; its Date, also of errors."""
    clock = ManualClock()
    notes = Notes(ClockWatch(clock))
    date = format_datetime(START - timedelta(seconds=90), usegmt=True)

    def answer(operation: str, _request: Request) -> Any:
        response: Any = {"Error": {"Code": "ThrottlingException", "Message": "slow"}}
        if operation == "put_item":
            reason = {"reason": "TableWriteKeyRangeThroughputExceeded", "resource": "arn"}
            response["throttlingReasons"] = [reason]
        response["ResponseMetadata"] = {"HTTPHeaders": {"date": date}}
        return ClientError(response, operation)

    transport = NotingTransport(FakeTransport(answer), notes)
    for operation in ("put_item", "query"):
        with pytest.raises(ClientError):
            await transport.send(operation, {"Item": {"pk": {"S": "c"}, "sk": {"S": "1"}}})
    assert notes.requests == 2
    assert notes.throttled == {"KeyRangeThroughputExceeded": 1, "ThrottlingException": 1}
    assert list(notes.hot) == ["c"]
    assert notes.watch.offset is not None
    assert 89 <= notes.watch.offset.least <= notes.watch.offset.most <= 90


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (NoCredentialsError(), Cause.NO_CREDENTIALS),
        (UnauthorizedSSOTokenError(), Cause.EXPIRED),
        (refused("ExpiredTokenException"), Cause.EXPIRED),
        (refused("ExpiredToken"), Cause.EXPIRED),
        (refused("UnrecognizedClientException"), Cause.BAD_CREDENTIALS),
        (refused("InvalidSignatureException"), Cause.BAD_CREDENTIALS),
        (refused("AccessDeniedException"), Cause.DENIED),
        (refused("ResourceNotFoundException"), Cause.MISSING),
        (refused("ThrottlingException"), Cause.THROTTLED),
        (refused("InternalServerError"), Cause.UNANSWERED),
        (ConnectTimeoutError(endpoint_url="x"), Cause.UNANSWERED),
        (refused("ValidationException"), Cause.REFUSED),
        (SettingsError("one endpoint for two regions"), Cause.SETTINGS),
    ],
)
def test_causes(error: Exception, cause: Cause) -> None:
    """No credentials, expired ones, wrong ones and a denied action are different things."""
    found = failed(error, region=HOME, table="ledger")
    assert found.cause is cause
    assert "\n" not in found.text


def noting(answer: Answer, clock: Clock) -> NotingTransport:
    """Return a transport to one region."""
    return NotingTransport(FakeTransport(answer), Notes(ClockWatch(clock)))


async def test_a_probe_is_measured_and_deleted() -> None:
    """Each pair that shows the item has its lag, and the item has a time to live meanwhile."""
    clock = ManualClock(instant=True)
    items: dict[str, Any] = {}
    looks = dict.fromkeys((HOME, AWAY), 0)

    def answer(region: str) -> Answer:
        def one(operation: str, request: Request) -> Any:
            if operation == "put_item":
                items[request["Item"]["sk"]["S"]] = request["Item"]
            elif operation == "batch_write_item":
                [part] = request["RequestItems"]["ledger"]
                del items[part["DeleteRequest"]["Key"]["sk"]["S"]]
            else:
                looks[region] += 1
                sort_keys = request["ExpressionAttributeValues"]
                is_shown = looks[region] > 3
                return {"Items": [items[sort_keys[":1"]["S"]]] if is_shown else []}
            assert all(int(item["~expires"]["N"]) > START.timestamp() for item in items.values())
            assert {item["pk"]["S"] for item in items.values()} <= {"~doctor"}
            return {}

        return one

    transports = {region: noting(answer(region), clock) for region in looks}
    found = await probe_lag(transports, table="ledger", clock=clock, number=7, seconds_max=30.0)
    assert [(lag.source, lag.target) for lag in found] == [(HOME, AWAY), (AWAY, HOME)]
    assert all(lag.seconds is not None and lag.seconds > 0.2 for lag in found)
    assert items == {}


@pytest.mark.slow
async def test_a_probe_that_is_denied_or_not_shown() -> None:
    """Why nothing was measured where it was denied; None where it never arrived."""
    clock = SystemClock()
    denied = refused("AccessDeniedException", "no")
    transports = {
        HOME: noting(but("put_item", denied), clock),
        AWAY: noting(lambda asked, _: denied if asked == "query" else {}, clock),
        SOUTH: noting(lambda *_: {"Items": []}, clock),
    }
    found = {
        (lag.source, lag.target): lag
        for lag in await probe_lag(
            transports, table="ledger", clock=clock, number=7, seconds_max=SECONDS_MAX
        )
    }
    assert "AccessDeniedException" in found[HOME, SOUTH].failed
    assert "AccessDeniedException" in found[SOUTH, AWAY].failed
    assert found[AWAY, SOUTH] == LagObservation(AWAY, SOUTH, None)
    assert found[SOUTH, HOME] == LagObservation(SOUTH, HOME, None)


async def sampled(answer: Answer, pages: int = 1) -> HotSample:
    """Look for hot collections in one region."""
    clock = ManualClock()
    return await hot_collections(
        noting(answer, clock), SETTINGS, clock=clock, randomness=seeded(), pages=pages
    )


def entries(count: int, per_second: float) -> list[dict[str, Any]]:
    """Return the newest entries of a collection, the newest first."""
    step = timedelta(seconds=1 / per_second)
    return [
        {"pk": {"S": "hits"}, "sk": {"S": sort_key(START - place * step, place)}}
        for place in range(count)
    ]


async def test_a_hinted_counter_is_looked_at_more_closely() -> None:
    """Two hundred entries of a hot one make it suspect, five thousand tell how hot it is."""
    hint = hint_for("hits", START, settle=SETTINGS.settle)
    assert hint is not None
    asked: list[tuple[str, int]] = []

    def answer(operation: str, request: Request) -> Any:
        if operation == "scan":
            return {"Items": [], "ConsumedCapacity": {"CapacityUnits": 0.5}}
        partition = request["ExpressionAttributeValues"][":0"]["S"]
        asked.append((partition, request["Limit"]))
        if partition == "hits":
            return {"Items": entries(request["Limit"], 400.0)}
        return {"Items": [hint.item] if partition == hint.partition else []}

    sample = await sampled(answer)
    [found] = sample.collections
    assert found.counter == "hits"
    assert found.rate == pytest.approx(400.0, rel=1e-2)
    assert [limit for partition, limit in asked if partition == "hits"] == [200, 5_000]


async def test_a_page_of_the_table_names_a_large_collection() -> None:
    """Pages are read until they cost what was asked for; what is in few items is no candidate."""
    scans: list[Request] = []

    def answer(operation: str, request: Request) -> Any:
        if operation == "scan":
            scans.append(request)
            items = [*entries(300, 1.0), {"pk": {"S": "rare"}, "sk": {"S": "x"}}]
            last = {"pk": {"S": "hits"}, "sk": {"S": "x"}}
            units = {"CapacityUnits": 128.0}
            return {"Items": items, "LastEvaluatedKey": last, "ConsumedCapacity": units}
        is_hits = request["ExpressionAttributeValues"][":0"]["S"] == "hits"
        return {"Items": entries(request["Limit"], 1.0) if is_hits else []}

    sample = await sampled(answer, pages=3)
    assert len(scans) == 3
    assert [collection.counter for collection in sample.collections] == ["hits"]
    assert sample.collections[0].rate == pytest.approx(1.0)


async def test_a_small_table_is_read_whole() -> None:
    """Of a segment that ends early the next one is larger, until it is the table."""
    segments: list[int] = []

    def answer(operation: str, request: Request) -> Any:
        if operation == "scan":
            segments.append(request.get("TotalSegments", 1))
        return {"Items": [], "ConsumedCapacity": {"CapacityUnits": 0.5}}

    await sampled(answer)
    assert segments == [10_000, 100, 1]
    segments.clear()
    await sampled(answer, pages=0)
    assert segments == []


async def test_a_role_that_may_not_scan_sees_hints() -> None:
    """And the sample says that no page was read."""
    answer: Answer = lambda operation, _: (  # noqa: E731
        refused("AccessDeniedException") if operation == "scan" else {"Items": []}
    )
    sample = await sampled(answer)
    assert (sample.pages, "Scan is denied" in sample.unseen) == (0, True)


class FakeObjects:
    """A client of S3 that answers each operation with an error, or not at all."""

    def __init__(self, **errors: Any) -> None:
        self._errors = errors

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        pass

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        async def answer(**_request: Any) -> Any:
            error = self._errors.get(operation)
            if error is hang:
                await hang()
            if error is not None:
                raise error
            return {}

        return answer


ARCHIVED = make_settings(archive=["s3://kept/ledger"])


@pytest.mark.slow
async def test_the_archives_objects_are_tried() -> None:
    """What each answers, of the reader and of the compactor; what is not answered is unknown."""
    objects = FakeObjects(
        get_object=refused("NoSuchKey"), put_object=refused("AccessDenied"), head_bucket=hang
    )
    contract = contract_item(Contract(terms=ARCHIVED.terms))

    def answer(operation: str, request: Request) -> Any:
        if operation == "query" and request.get("ScanIndexForward") is False:
            return {"Items": [contract]}
        return whole(operation, request)

    seen = await look(
        {HOME: answer, AWAY: answer},
        settings=ARCHIVED,
        roles=(Role.READER, Role.COMPACTOR),
        objects=lambda: objects,
    )
    tried = {
        (role, one.trial.action): one.outcome
        for role, each in of(seen, HOME).tried.items()
        for one in each
        if one.trial.service == "s3"
    }
    assert tried == {
        ("reader", "GetObject"): "allowed",
        ("compactor", "GetObject"): "allowed",
        ("compactor", "PutObject"): "denied",
        ("compactor", "ListBucket"): "unknown",
    }


async def test_a_region_is_opened_once_for_all_looks() -> None:
    """And closed in the end; one that could not be opened is tried again."""
    said: list[str] = []

    @asynccontextmanager
    async def opening(_settings: Settings, region: str, *, clock: Any) -> AsyncIterator[Any]:
        assert clock is not None
        said.append(f"opens {region}")
        if region == AWAY and said.count(f"opens {AWAY}") == 1:
            raise ProfileNotFound(profile="absent")
        yield FakeTransport(whole)
        said.append(f"closes {region}")

    async with RegionClients(opening) as kept:
        await look(opening=kept, roles=(Role.READER,))
        await look(opening=kept)
        assert sorted(said) == [f"opens {AWAY}", f"opens {AWAY}", f"opens {HOME}"]
    assert sorted(said[3:]) == [f"closes {AWAY}", f"closes {HOME}"]
