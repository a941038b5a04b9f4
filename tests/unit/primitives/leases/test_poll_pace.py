"""The pauses of a contender: drawn, longer for one that is beaten, and as before afterwards."""

import pytest

from ledger.primitives.leases.poll_pace import SHORTEST_SHARE, SLOWER_MAX, PollPace

POLL = 2.0


@pytest.mark.parametrize(
    ("draw", "seconds"), [(0.0, POLL * SHORTEST_SHARE), (0.5, POLL * 0.75), (1.0, POLL)]
)
def test_a_pause_is_drawn_up_to_a_poll(draw: float, seconds: float) -> None:
    """A contender that was never beaten looks again within a poll, and never spins."""
    assert PollPace(POLL).pause_seconds(draw) == seconds


def test_a_contender_that_is_beaten_looks_less_often_within_a_bound() -> None:
    """Each lost race doubles its pauses, up to the bound."""
    pace, pauses = PollPace(POLL), []
    for _ in range(4):
        pace.beaten()
        pauses.append(pace.pause_seconds(1.0))
    assert pauses == [2 * POLL, 4 * POLL, 4 * POLL, 4 * POLL]
    assert pauses[-1] == SLOWER_MAX * POLL


def test_a_lease_that_stays_with_its_holder_ends_the_rush() -> None:
    """While the epoch changes nothing is faster; once it stays, each look halves the pauses."""
    pace, pauses = PollPace(POLL), []
    pace.beaten()
    pace.beaten()
    for epoch in (7, 8, None, 8, 8, 8, 8):
        pace.looked(epoch)
        pauses.append(pace.pause_seconds(1.0) / POLL)
    assert pauses == [4, 4, 4, 4, 2, 1, 1]
