"""How merging stands by the recorded passes, as the doctor takes it in."""

from datetime import timedelta
from typing import Any

import pytest
from support.ledgers import AWAY, HOME, make_settings

from compactor.pass_history import FAILED, SEARCHED, SUCCEEDED, PassHistory, PassRecord
from compactor.report import CompactorReport
from compactor.slices import HEAD
from compactor.status import passes_of
from ledger.administration.diagnosis.observations import PassesObservation
from ledger.testing.clock import START

SETTINGS = make_settings()


def recorded(kind: str, seconds: float, member: str = HEAD, **values: Any) -> PassHistory:
    """Return the record of a pass that ended so many seconds ago."""
    report = CompactorReport(**values.pop("report", {}))
    record = PassRecord("me", START - timedelta(seconds=seconds), report, **values)
    return PassHistory(member, kind, record)


def seen(*passes: PassHistory) -> PassesObservation:
    """Return what these records say."""
    return passes_of(passes, SETTINGS, f"compactor@{HOME}", now=START)


def test_nothing_is_recorded() -> None:
    """Then no pass has run, or none that records."""
    assert seen() == PassesObservation(home=HOME)


def test_a_pass_that_succeeded() -> None:
    """How long ago, what the last search left, and the lag as it was measured."""
    found = seen(
        recorded(SUCCEEDED, 30.0, lag_seconds={AWAY: 1.5}),
        recorded(SEARCHED, 90.0, report={"backlog": 7, "oldest": "2026-11-21T06:00:00Z"}),
    )
    assert found == PassesObservation(
        home=HOME,
        success_age=30.0,
        search_age=90.0,
        search_backlog=7,
        search_oldest="2026-11-21T06:00:00Z",
        has_passes=True,
        lag_seconds={AWAY: 1.5},
    )


@pytest.mark.parametrize(
    ("report", "waits"),
    [
        ({"waits": "a clock is off"}, "a clock is off"),
        ({"unreadable": AWAY}, f"region {AWAY} cannot be read"),
        ({"problems": ["c: refused", "d: refused"]}, "c: refused"),
    ],
)
def test_a_pass_that_waits(report: dict[str, Any], waits: str) -> None:
    """Why is said of the newest pass alone."""
    found = seen(recorded(FAILED, 10.0, report=report), recorded(SUCCEEDED, 1_000.0))
    assert (found.waits, found.success_age) == (waits, 1_000.0)
    later = seen(recorded(SUCCEEDED, 1.0), recorded(FAILED, 10.0, report=report))
    assert later.waits == ""


def test_damage_and_pace_are_of_all_members() -> None:
    """Any member's damage counts, the latest of them, and any that falls behind."""
    damaged = {"damaged": 1, "quarantined": {"c": "its digest"}, "late": 2_000.0}
    found = seen(
        recorded(SUCCEEDED, 10.0),
        recorded(SUCCEEDED, 20.0, "other", report=damaged, drain_seconds=None),
    )
    assert "'c': its digest" in found.damage
    assert (found.late_seconds, found.falls_behind) == (2_000.0, True)


def test_a_record_of_another_release() -> None:
    """Is one, of which nothing is known."""
    found = seen(PassHistory(HEAD, SUCCEEDED, None))
    assert (found.has_passes, found.success_age) == (True, None)


def test_a_record_from_the_future_says_by_how_much() -> None:
    """Its age is none; a fraction of a second is no clock that is off."""
    assert seen(recorded(SUCCEEDED, -30.0)).ahead_seconds == 30.0
    assert seen(recorded(SUCCEEDED, -0.5)).ahead_seconds == 0.0


def test_deletes_that_are_missing_are_of_any_member() -> None:
    """The latest pass that met one says which entry it is, and where."""
    met = {"undeleted": 2, "undeleted_in": {"c": "'id' in eu-west-1"}}
    found = seen(recorded(SUCCEEDED, 10.0), recorded(SUCCEEDED, 20.0, "other", report=met))
    assert "2 merged entries are deleted at home" in found.undeleted
    assert "'c' shows 'id' in eu-west-1" in found.undeleted
    assert not seen(recorded(SUCCEEDED, 10.0)).undeleted
