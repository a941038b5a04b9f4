"""How many connections the limit of open files allows."""

import logging
import resource

import pytest

from ledger.runtime.connections import PLACES_KEPT
from ledger.runtime.descriptors import DESCRIPTORS_KEPT, connections_allowed


def limited(monkeypatch: pytest.MonkeyPatch, soft: int, hard: int) -> list[int]:
    """Set the limits of the process, as it sees them; return what it sets."""
    raised: list[int] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: raised.append(limits[0]))
    return raised


def test_the_limit_is_raised_as_far_as_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default of systemd is 1,024, which a process may raise."""
    raised = limited(monkeypatch, 1_024, 500_000)
    assert connections_allowed(4_096, listeners=2) == 4_096
    assert raised == [2 * (4_096 + PLACES_KEPT) + DESCRIPTORS_KEPT]


def test_a_low_limit_allows_fewer_connections(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says so, and what sets the limit."""
    limited(monkeypatch, 1_024, 1_024)
    with caplog.at_level(logging.WARNING):
        assert connections_allowed(4_096) == 1_024 - DESCRIPTORS_KEPT - PLACES_KEPT
    assert "LimitNOFILE" in caplog.text


def test_a_high_limit_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is set, and nothing said."""
    raised = limited(monkeypatch, 20_000, resource.RLIM_INFINITY)
    assert connections_allowed(4_096) == 4_096
    assert raised == []
