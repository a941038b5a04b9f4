"""From what was seen to findings: settings, table, replicas, contract."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from support.ledgers import AWAY, HOME, SOUTH, make_settings

from ledger.administration.diagnosis import table_findings
from ledger.administration.diagnosis.diagnosis import CheckState, Diagnosis
from ledger.administration.diagnosis.observations import (
    RECOVERY,
    TIME_TO_LIVE,
    Cause,
    CredentialsObservation,
    FailedLook,
    RegionObservation,
    TableObservation,
)
from ledger.administration.table_plan import KEYS, STREAM_VIEW, TableView
from ledger.administration.warm_throughput import WarmThroughput
from ledger.core.contract_item import Contract
from ledger.core.errors import ContractDamaged, LedgerError
from ledger.core.keys import EXPIRES
from ledger.settings import Settings

SETTINGS = make_settings()
CONTRACT = Contract(terms=SETTINGS.terms)
SILENT = FailedLook(Cause.UNANSWERED, "no answer within 15 s")
DENIED = FailedLook(Cause.DENIED, "AccessDeniedException")
EXPIRED = FailedLook(Cause.EXPIRED, "ExpiredTokenException")
Shown = Contract | LedgerError | FailedLook | None


def view(region: str = HOME, **values: Any) -> TableView:
    """Return a region's table with a replica in the other, as `ledger table create` leaves it."""
    other = AWAY if region == HOME else HOME
    given: dict[str, Any] = {
        "status": "ACTIVE",
        "keys": KEYS,
        "stream": STREAM_VIEW,
        "replicas": {other: "ACTIVE"},
        "recovery": True,
        "protected": True,
        **values,
    }
    return TableView(region, **given)


def seen(
    region: str,
    table: TableView | TableObservation | FailedLook | None = None,
    contract: Shown = CONTRACT,
) -> RegionObservation:
    """Return what was seen of a region; its table is whole unless another is given."""
    shown = (
        table
        if isinstance(table, TableObservation | FailedLook)
        else TableObservation(table or view(region))
    )
    return RegionObservation(
        region=region, credentials=CredentialsObservation("env"), table=shown, contract=contract
    )


def both(
    home: TableView | TableObservation | FailedLook | None = None,
    away: TableView | TableObservation | FailedLook | None = None,
) -> list[RegionObservation]:
    """Return what was seen of both regions."""
    return [seen(HOME, home), seen(AWAY, away)]


def wrong(found: Iterable[Diagnosis]) -> list[Diagnosis]:
    """Return the findings that are not ok, each with advice."""
    left = [finding for finding in found if finding.state is not CheckState.OK]
    assert all(finding.do for finding in left)
    return left


def only(found: Iterable[Diagnosis]) -> Diagnosis:
    """Return the only finding that is not ok."""
    [finding] = wrong(found)
    return finding


def test_a_whole_table_is_described() -> None:
    """Its state, what it is billed by, what protects it, and what it serves at once."""
    warm = view(warm=WarmThroughput(4_000, 12_000), expires=EXPIRES)
    home, away = table_findings.table_findings(both(warm), SETTINGS)
    assert home.state is away.state is CheckState.OK
    assert home.what == (
        "ACTIVE, on demand, stream NEW_AND_OLD_IMAGES, protected from deletion, recoverable,"
        " time to live by ~expires, warm throughput 4,000 writes, 12,000 reads a second"
    )
    assert "time to live off" in away.what


@pytest.mark.parametrize(
    ("values", "state", "what", "do"),
    [
        ({"keys": KEYS[:1]}, CheckState.PROBLEM, "its keys are pk (S, HASH)", "another table name"),
        (
            {"stream": "KEYS_ONLY"},
            CheckState.PROBLEM,
            "its stream shows KEYS_ONLY",
            "turn the stream",
        ),
        ({"consistency": "STRONG"}, CheckState.PROBLEM, "STRONG consistent", "another table name"),
        ({"expires": "when"}, CheckState.PROBLEM, "time to live goes by 'when'", "turn it off"),
        ({"status": "ARCHIVED"}, CheckState.PROBLEM, "its state is ARCHIVED", "AWS console"),
        ({"stream": None}, CheckState.PROBLEM, "its stream is off", "`ledger table create`"),
        ({"status": "UPDATING"}, CheckState.WARNING, "its state is UPDATING", "wait until"),
        ({"billing": "PROVISIONED"}, CheckState.WARNING, "billed as provisioned", "on demand"),
        ({"recovery": False}, CheckState.WARNING, "recovery is off", "`ledger table create`"),
        ({"protected": False}, CheckState.WARNING, "protection is off", "`ledger table create`"),
    ],
)
def test_what_is_wrong_with_a_table(
    values: Mapping[str, Any], state: CheckState, what: str, do: str
) -> None:
    """One thing is one line, with its advice and without the region twice."""
    found = only(table_findings.table_findings(both(view(**values)), SETTINGS))
    assert (found.region, found.state) == (HOME, state)
    assert what in found.what
    assert HOME not in found.what
    assert do in found.do


def test_time_to_live_is_wanted() -> None:
    """Only where the settings want it; where it could not be seen, nothing is said to be off."""
    wanted = make_settings(time_to_live=True)
    found = only(table_findings.table_findings(both(), wanted))
    assert (found.region, found.what) == (HOME, "time to live is off, which the settings want")
    unseen = TableObservation(view(recovery=False), {TIME_TO_LIVE: DENIED, RECOVERY: DENIED})
    left = wrong(table_findings.table_findings(both(unseen), wanted))
    assert [finding.state for finding in left] == [CheckState.UNKNOWN, CheckState.UNKNOWN]


def test_a_table_is_missing() -> None:
    """In one region a replica is added, or given up; in all of them the table is made."""
    home, away = table_findings.table_findings(
        both(TableObservation(None), TableObservation(None)), SETTINGS
    )
    assert home.state is away.state is CheckState.PROBLEM
    assert home.do == away.do == table_findings.CREATE
    one = both(view(replicas={}), TableObservation(None))
    found = only(table_findings.table_findings(one, SETTINGS))
    assert (found.region, found.what) == (AWAY, "table ledger is not in this region")
    assert f"`compactor take-home HOME --lost {AWAY}`" in found.do
    assert wrong(table_findings.replica_findings(one, contract=CONTRACT)) == []


@pytest.mark.parametrize(
    ("failed", "state", "do"),
    [
        (SILENT, CheckState.PROBLEM, "check network"),
        (DENIED, CheckState.UNKNOWN, "credentials that may look"),
        (EXPIRED, CheckState.UNKNOWN, "the line of the credentials"),
        (FailedLook(Cause.THROTTLED, "slow"), CheckState.UNKNOWN, "run this again"),
        (
            FailedLook(Cause.SETTINGS, "one replica"),
            CheckState.PROBLEM,
            "correct it in the settings",
        ),
    ],
)
def test_a_table_is_not_described(failed: FailedLook, state: CheckState, do: str) -> None:
    """No answer is a problem; what may not be looked at is not known."""
    found = only(table_findings.table_findings(both(None, failed), SETTINGS))
    assert (found.region, found.state) == (AWAY, state)
    assert do in found.do


def test_replicas_are_those_of_the_contract() -> None:
    """One line for all, with the kind of replication."""
    [found] = table_findings.replica_findings(both(), contract=CONTRACT)
    assert found.what == f"{HOME} ACTIVE, {AWAY} ACTIVE (MREC), those of the contract"


def test_a_replica_does_not_replicate() -> None:
    """What DynamoDB says of it, and what can be done."""
    shown = both(view(replicas={AWAY: "REPLICATION_NOT_AUTHORIZED"}))
    found = only(table_findings.replica_findings(shown, contract=CONTRACT))
    assert (found.region, found.state) == (AWAY, CheckState.PROBLEM)
    assert "REPLICATION_NOT_AUTHORIZED" in found.what
    assert "AWSServiceRoleForDynamoDBReplication" in found.do


def test_contract_and_replicas_differ() -> None:
    """One way and the other; without a description nothing is known."""
    more = both(view(replicas={AWAY: "ACTIVE", SOUTH: "ACTIVE"}))
    found = only(table_findings.replica_findings(more, contract=CONTRACT))
    assert (found.region, found.state) == (SOUTH, CheckState.PROBLEM)
    assert f"`ledger table set regions {HOME},{AWAY},{SOUTH}`" in found.do
    fewer = both(view(replicas={}), SILENT)
    found = only(table_findings.replica_findings(fewer, contract=CONTRACT))
    assert (found.region, found.state) == (AWAY, CheckState.PROBLEM)
    unseen = both(SILENT, SILENT)
    assert (
        only(table_findings.replica_findings(unseen, contract=CONTRACT)).state is CheckState.UNKNOWN
    )


def contracts(home: Shown, away: Shown, table: FailedLook | None = None) -> list[Diagnosis]:
    """Return the findings on contracts that the regions show."""
    shown = [seen(HOME, None, home), seen(AWAY, table, away)]
    return list(table_findings.contract_findings(shown, SETTINGS))


def test_one_contract_is_in_force() -> None:
    """All regions show it."""
    [found] = contracts(CONTRACT, CONTRACT)
    assert found.what == f"revision 0 is in force, and shown by {HOME}, {AWAY}"


def test_a_table_has_no_contract() -> None:
    """One line for all regions."""
    found = only(contracts(None, None))
    assert (found.region, found.state) == ("", CheckState.PROBLEM)
    assert "`ledger table adopt`" in found.do


@pytest.mark.parametrize(("archive", "count"), [((), 2), (("s3://a", "s3://b"), 1)])
def test_books_without_an_archive_keep_no_journal(archive: tuple[str, ...], count: int) -> None:
    """The finding names them, and what keeps each transfer."""
    terms = replace(SETTINGS.terms, books=("book/*",), archive=archive)
    shown = replace(CONTRACT, terms=terms)
    found = contracts(shown, shown)
    assert len(found) == count
    if not archive:
        assert found[1].state is CheckState.WARNING
        assert found[1].what.startswith("books (book/*) without an archive: they keep balances")
        assert "`ledger table set archive URLS`" in found[1].do


def test_a_change_is_pending() -> None:
    """What it changes, and how it is finished or taken back."""
    coming = replace(SETTINGS.terms, settle=1_800.0)
    pending = replace(CONTRACT, revision=1, coming=coming)
    found = only(contracts(pending, pending))
    assert (found.region, found.state) == ("", CheckState.WARNING)
    assert found.what == "revision 1 is pending, settle: 1320 s to 1800 s"
    dated = replace(pending, since=datetime(2026, 11, 24, 18, tzinfo=UTC))
    assert "is pending since 2026-11-24T18:00:00Z, settle" in only(contracts(dated, dated)).what
    assert "--resume" in found.do
    assert "--withdraw" in found.do


@pytest.mark.parametrize(
    ("shown", "table", "state", "what"),
    [
        (None, None, CheckState.WARNING, "shows no contract, another region revision 2"),
        (CONTRACT, None, CheckState.WARNING, "shows revision 0, another region revision 2"),
        (ContractDamaged("its digest"), None, CheckState.PROBLEM, "its digest"),
        (SILENT, None, CheckState.PROBLEM, "no answer"),
        (SILENT, SILENT, CheckState.UNKNOWN, "no answer"),
        (DENIED, None, CheckState.PROBLEM, "denied"),
        (EXPIRED, None, CheckState.UNKNOWN, "expired"),
        (FailedLook(Cause.MISSING, "no table"), None, CheckState.UNKNOWN, "no table"),
    ],
)
def test_a_region_does_not_show_the_contract(
    shown: Shown, table: FailedLook | None, state: CheckState, what: str
) -> None:
    """Behind, damaged, denied or silent; a region that is down is a problem once, of its table."""
    newest = replace(CONTRACT, revision=2)
    found = only(contracts(newest, shown, table))
    assert (found.region, found.state) == (AWAY, state)
    assert what in found.what


def settings_of(
    settings: Settings = SETTINGS, contract: Contract | None = CONTRACT
) -> list[Diagnosis]:
    """Return the findings on settings; AWS has the regions of these tests and no others."""
    found = table_findings.settings_findings(
        settings, source="regions.yaml", known={HOME, AWAY}, contract=contract
    )
    return list(found)


def test_settings_say_where_they_are_from() -> None:
    """And whether they agree with the contract, if there is one."""
    [found] = settings_of()
    assert found.what.startswith(f"from regions.yaml: table ledger in {HOME}, {AWAY}; they agree")
    [found] = settings_of(contract=None)
    assert "agree" not in found.what


def test_settings_differ_from_the_contract() -> None:
    """The value, or the region, that differs."""
    found = only(settings_of(make_settings(settle=9_000)))
    assert found.state is CheckState.PROBLEM
    assert "settle is 9000 s in the settings, 1320 s in the contract" in found.what
    regions = {**SETTINGS.model_dump()["regions"], SOUTH: {"endpoint": "http://127.0.0.1:9"}}
    found = only(settings_of(make_settings(regions=regions)))
    assert f"the contract does not name {SOUTH}" in found.what


def test_a_region_is_none_of_aws() -> None:
    """Unless it has an endpoint of its own, or the list could not be had."""
    aws = Settings(home=HOME, regions={HOME: {}, "eu-wst-1": {}})
    found = only(settings_of(aws, contract=None))
    assert found.state is CheckState.WARNING
    assert "eu-wst-1 (did you mean eu-west-1?)" in found.what
    unlisted = table_findings.settings_findings(aws, source="x", known=None, contract=None)
    assert wrong(unlisted) == []


@pytest.mark.parametrize(
    ("mode", "is_open"), [(0o600, False), (0o640, False), (0o644, True), (0o660, True)]
)
def test_a_file_of_signature_keys_is_not_for_others(mode: int, *, is_open: bool) -> None:
    """A group may read it, as a service's; nobody else may, and no group may change it."""
    found = list(table_findings.key_file_findings("/run/keys", 0o100000 | mode))
    assert bool(found) == is_open
    if is_open:
        assert found[0].state is CheckState.WARNING
        assert found[0].what.startswith(f"signatures.keys /run/keys has mode {mode:o}: others may")
        assert found[0].do.startswith("`chmod 600 /run/keys`")
