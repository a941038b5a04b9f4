"""From what was seen to findings: credentials, clock, permissions, lag, passes, rates."""

from collections.abc import Iterable
from typing import Any

import pytest
from support.ledgers import AWAY, HOME, SOUTH

from ledger.administration.diagnosis import region_findings
from ledger.administration.diagnosis.diagnosis import CheckState, Diagnosis, DoctorCheck, in_order
from ledger.administration.diagnosis.hot_collection import HotCollection, HotSample
from ledger.administration.diagnosis.observations import (
    Cause,
    CredentialsObservation,
    FailedLook,
    LagObservation,
    PassesObservation,
    RegionObservation,
    TableObservation,
)
from ledger.administration.diagnosis.permission_trials import NO_INSERT, Outcome, Trial, TrialResult
from ledger.core.clock_offset import ClockOffset
from ledger.settings.groups import SHARDS_MAX

ARN = "arn:aws:sts::111122223333:assumed-role/writer/me"
EXPIRED = FailedLook(Cause.EXPIRED, "ExpiredTokenException: the token has expired")
DENIED = FailedLook(Cause.DENIED, "no DescribeTable")
SILENT = FailedLook(Cause.UNANSWERED, "no answer within 15 s")
LIMIT_SECONDS = 15.0


def seen(**values: Any) -> RegionObservation:
    """Return what was seen of a region without a table, and with credentials that were asked."""
    given: dict[str, Any] = {
        "region": HOME,
        "credentials": CredentialsObservation("env", ARN),
        "table": TableObservation(None),
        "contract": None,
        **values,
    }
    return RegionObservation(**given)


def one(found: Iterable[Diagnosis]) -> Diagnosis:
    """Return the only finding."""
    [finding] = found
    return finding


@pytest.mark.parametrize(
    ("values", "state", "what", "do"),
    [
        ({}, CheckState.OK, ARN, ""),
        (
            {"credentials": region_findings.local_credentials()},
            CheckState.OK,
            "on this machine",
            "",
        ),
        (
            {"credentials": FailedLook(Cause.NO_CREDENTIALS, "none found")},
            CheckState.PROBLEM,
            "no credentials: none found",
            "AWS_PROFILE",
        ),
        (
            {"credentials": CredentialsObservation("sso", EXPIRED)},
            CheckState.PROBLEM,
            "expired",
            "log in",
        ),
        ({"table": EXPIRED}, CheckState.PROBLEM, "expired credentials", "log in again"),
        (
            {"table": FailedLook(Cause.BAD_CREDENTIALS, "InvalidSignatureException")},
            CheckState.PROBLEM,
            "refused credentials",
            "the line of the clock",
        ),
        (
            {"credentials": CredentialsObservation("env", DENIED)},
            CheckState.UNKNOWN,
            "identity unknown",
            "none needed",
        ),
        (
            {"credentials": CredentialsObservation("env", SILENT), "table": SILENT},
            CheckState.UNKNOWN,
            "STS: no answer",
            "let the role ask STS",
        ),
        ({"credentials": SILENT}, CheckState.UNKNOWN, "no answer", "see the line of the table"),
        ({"table": DENIED}, CheckState.OK, ARN, ""),
    ],
)
def test_credentials(values: dict[str, Any], state: CheckState, what: str, do: str) -> None:
    """None, expired and denied are told apart; a denied action says nothing against them."""
    found = one(region_findings.credentials_findings(seen(**values)))
    assert (found.check, found.region, found.state) == (DoctorCheck.CREDENTIALS, HOME, state)
    assert what in found.what
    assert do in found.do
    assert bool(found.do) == bool(do)


@pytest.mark.parametrize(
    ("offset", "state", "do"),
    [
        (None, CheckState.UNKNOWN, "see the line"),
        (ClockOffset(-0.5, 0.5), CheckState.OK, ""),
        (ClockOffset(29.5, 30.5), CheckState.OK, ""),
        (ClockOffset(30.1, 31.0), CheckState.WARNING, "NTP"),
        (ClockOffset(-61.0, -59.5), CheckState.WARNING, "NTP"),
        (ClockOffset(60.1, 61.0), CheckState.PROBLEM, "nothing is written or merged"),
        (ClockOffset(-62.0, -60.1), CheckState.PROBLEM, "nothing is written or merged"),
    ],
)
def test_clock(offset: ClockOffset | None, state: CheckState, do: str) -> None:
    """A warning from half of the skew, a problem beyond it, as far as that is certain."""
    found = one(region_findings.clock_findings(seen(offset=offset), skew=60.0))
    assert found.state is state
    assert do in found.do
    assert bool(found.do) == bool(do)


def tried(*outcomes: tuple[str, Outcome]) -> dict[str, list[TrialResult]]:
    """Return trials of the writer with these outcomes, by action."""
    return {
        "writer": [
            TrialResult(Trial("Write", action, "money", "~doctor"), outcome, NO_INSERT)
            for action, outcome in outcomes
        ]
    }


def test_all_permissions_are_there() -> None:
    """One line; what was not tried is another, with the reason and what to compare."""
    shown = tried(("PutItem", "allowed"), ("Query", "allowed"), ("PartiQLInsert", "not tried"))
    allowed, left = region_findings.permission_findings(seen(tried=shown))
    assert (allowed.state, allowed.what) == (CheckState.OK, "writer: 2 tried, all allowed")
    assert left.state is CheckState.UNKNOWN
    assert left.what == f"writer: not tried: PartiQLInsert: {NO_INSERT}"
    assert "`ledger deploy policy writer`" in left.do


def test_a_permission_is_denied() -> None:
    """It is named with the key that it was tried on, and nothing says that all is allowed."""
    shown = tried(("PutItem", "denied"), ("Query", "allowed"))
    found = one(region_findings.permission_findings(seen(tried=shown)))
    assert (found.state, found.what) == (CheckState.PROBLEM, "writer: denied: PutItem on '~doctor'")
    assert "`ledger deploy policy writer`" in found.do


def test_a_permission_could_not_be_tried() -> None:
    """No answer is neither allowed nor denied."""
    found = one(region_findings.permission_findings(seen(tried=tried(("PutItem", "unknown")))))
    assert found.state is CheckState.UNKNOWN
    assert "no answer to the trial of PutItem" in found.what


def test_many_permissions_are_counted() -> None:
    """A line names four, and how many more."""
    shown = tried(*((f"Action{place}", "denied") for place in range(6)))
    found = one(region_findings.permission_findings(seen(tried=shown)))
    assert found.what.endswith("Action3 on '~doctor' and 2 more")


def test_throttling() -> None:
    """The limits that DynamoDB named, and the advice of each; a code without one is named, too."""
    quiet = one(region_findings.throttling_findings(seen(requests=9)))
    assert (quiet.state, quiet.what) == (CheckState.OK, "none of 9 requests of this run")
    shown = {"KeyRangeThroughputExceeded": 2, "ThrottlingException": 1}
    hot, other = region_findings.throttling_findings(seen(requests=9, throttled=shown, hot=("c",)))
    assert hot.state is other.state is CheckState.WARNING
    assert hot.what == "KeyRangeThroughputExceeded: 2 of 9 requests of this run, at c"
    assert "shard this counter" in hot.do
    assert "--warm" in other.do
    assert one(region_findings.throttling_findings(seen())).state is CheckState.UNKNOWN


def lags(*probed: LagObservation, passes: PassesObservation | FailedLook) -> list[Diagnosis]:
    """Return the findings of lag; without a probe, by the last pass."""
    found = region_findings.lag_findings(
        probed or None, passes, regions=(HOME, AWAY, SOUTH), seconds_max=LIMIT_SECONDS
    )
    return list(found)


def test_lag_as_probed() -> None:
    """Each pair is a line: as usual, slow, not within the limit, not measured."""
    found = lags(
        LagObservation(HOME, AWAY, 0.8),
        LagObservation(AWAY, HOME, 7.0),
        LagObservation(SOUTH, HOME, None),
        LagObservation(HOME, SOUTH, None, "denied"),
        passes=SILENT,
    )
    states = [CheckState.OK, CheckState.WARNING, CheckState.PROBLEM, CheckState.UNKNOWN]
    assert [finding.state for finding in found] == states
    assert [finding.region for finding in found] == [AWAY, HOME, HOME, SOUTH]
    assert found[2].what == f"from {SOUTH}: not shown within 15 s"
    assert all(finding.do for finding in found[1:])


def test_lag_by_the_last_pass() -> None:
    """From home alone; the other pairs need a probe."""
    passes = PassesObservation(
        home=HOME, has_passes=True, lag_seconds={HOME: 0.0, AWAY: 1.0, SOUTH: 9.0}
    )
    away, south, others = lags(passes=passes)
    assert (away.region, away.state) == (AWAY, CheckState.OK)
    assert "by the compactor's last pass" in away.what
    assert (south.region, south.state) == (SOUTH, CheckState.WARNING)
    assert others.state is CheckState.UNKNOWN
    assert "--probe" in others.do
    assert lags(passes=SILENT)[0].what == "not measured of any pair"


def test_one_region_has_no_lag() -> None:
    """There is nothing to replicate."""
    found = one(region_findings.lag_findings(None, SILENT, regions=(HOME,), seconds_max=1.0))
    assert found.state is CheckState.OK


@pytest.mark.parametrize(
    ("values", "state", "what", "do"),
    [
        ({"has_passes": False}, CheckState.WARNING, "no pass is recorded", "`compactor run"),
        ({}, CheckState.OK, "last success 60 s ago; 7 entries wait, the oldest of 2026", ""),
        (
            {"success_age": 901.0},
            CheckState.PROBLEM,
            "has succeeded for 15 min 1 s",
            "see that it runs",
        ),
        (
            {"success_age": None, "waits": "replicas differ"},
            CheckState.PROBLEM,
            "has succeeded ever: replicas differ",
            "compactor status",
        ),
        ({"waits": "clock"}, CheckState.WARNING, "merged nothing: clock", "fix what it names"),
        ({"ahead_seconds": 300.0}, CheckState.WARNING, "dated 5 min in the future", "with NTP"),
        ({"damage": "1 damaged"}, CheckState.PROBLEM, "1 damaged", "`ledger verify COUNTER`"),
        ({"undeleted": "2 merged"}, CheckState.WARNING, "2 merged", "delete each in the region"),
        ({"falls_behind": True}, CheckState.WARNING, "falls behind", "run more processes"),
        (
            {"late_seconds": 1_801.0},
            CheckState.WARNING,
            "30 min 1 s late; 7 entries",
            "more processes",
        ),
    ],
)
def test_compactor(values: dict[str, Any], state: CheckState, what: str, do: str) -> None:
    """Each thing that is wrong with the passes is a line; without any, the last success."""
    given: dict[str, Any] = {
        "home": HOME,
        "success_age": 60.0,
        "search_age": 60.0,
        "search_backlog": 7,
        "search_oldest": "2026",
        "has_passes": True,
        **values,
    }
    found = one(region_findings.compactor_findings(PassesObservation(**given)))
    assert found.state is state
    assert what in found.what
    assert do in found.do
    assert bool(found.do) == bool(do)


@pytest.mark.parametrize(
    ("nets", "state", "do"),
    [
        ({"k1": 5}, CheckState.OK, ""),
        ({"k1": 5, "": 1}, CheckState.WARNING, "`ledger table sign`, and"),
        ({"k1": 5, "k2": 1}, CheckState.WARNING, "before the former key is taken out"),
    ],
)
def test_how_far_nets_are_signed(nets: dict[str, int], state: CheckState, do: str) -> None:
    """A line beside that of the passes, where they are signed."""
    passes = PassesObservation(home=HOME, success_age=1.0, has_passes=True, nets_signed=nets)
    _, found = region_findings.compactor_findings(passes)
    assert (found.check, found.region, found.state) == (DoctorCheck.COMPACTOR, HOME, state)
    assert "5 by 'k1'" in found.what
    assert do in found.do
    assert bool(found.do) == bool(do)


def test_passes_cannot_be_read() -> None:
    """Then nothing is known of merging."""
    assert one(region_findings.compactor_findings(SILENT)).state is CheckState.UNKNOWN


@pytest.mark.parametrize(
    ("rate", "shards", "do"),
    [
        (351.0, 1, "`ledger table set shards 'hits=2'`"),
        (1_200.0, 1, "'hits=4'"),
        (400.0, 8, "'hits=16'"),
        (400.0, SHARDS_MAX, "combine its changes"),
    ],
)
def test_a_hot_counter_wants_shards(rate: float, shards: int, do: str) -> None:
    """As many times more as one collection takes more than its share of a partition key."""
    sample = HotSample([HotCollection("hits", "hits", rate, shards)], 1)
    found = one(region_findings.hot_findings(sample, region=HOME))
    assert (found.state, found.region) == (CheckState.WARNING, HOME)
    assert f"{rate:,.0f} changes a second" in found.what
    assert do in found.do


def test_no_counter_is_hot() -> None:
    """Below its share a counter is not named; what was looked at is, and what was not."""
    sample = HotSample([HotCollection("hits", "hits", 340.0)], 2)
    found = one(region_findings.hot_findings(sample, region=HOME))
    assert (found.state, found.what) == (
        CheckState.OK,
        "none among 1 collections (the newest hints, and 2 MB of the table at most)",
    )
    unseen = HotSample([], 0, "Scan is denied")
    assert [finding.state for finding in region_findings.hot_findings(unseen, region=HOME)] == [
        CheckState.OK,
        CheckState.UNKNOWN,
    ]
    assert one(region_findings.hot_findings(SILENT, region=HOME)).state is CheckState.UNKNOWN


def test_findings_go_by_check() -> None:
    """Each check's stay in their order."""
    found = [
        Diagnosis(check, region, CheckState.OK, "")
        for region in (HOME, AWAY)
        for check in (DoctorCheck.THROTTLING, DoctorCheck.SETTINGS)
    ]
    assert [(finding.check, finding.region) for finding in in_order(found)] == [
        (DoctorCheck.SETTINGS, HOME),
        (DoctorCheck.SETTINGS, AWAY),
        (DoctorCheck.THROTTLING, HOME),
        (DoctorCheck.THROTTLING, AWAY),
    ]
