"""What a soak measures over time."""

import pytest
from lab.soak.curves import Curves, growth_of


def test_intervals_follow_each_other() -> None:
    """What happened in none is there too, with nothing in it."""
    curves = Curves(60.0)
    curves.at(125.0).calls["write"] += 1
    assert [interval.calls.total() for interval in curves.intervals] == [0, 0, 1]


def test_failed_attempts_are_those_without_an_answer_that_a_client_can_use() -> None:
    """The server's failures, and words; refusals of the request are answers."""
    interval = Curves(1.0).at(0.0)
    interval.attempts.update({"200": 9, "410": 2, "503": 3, "cut": 1, "timed out": 4})
    assert interval.failed == {"503": 3, "cut": 1, "timed out": 4}


def test_growth_is_from_the_first_quarter_to_the_last() -> None:
    """Neither the start nor a peak in between decides it."""
    sizes = [100, 110, 900, 150, 120, 130]
    growth = growth_of([(float(at), size) for at, size in enumerate(sizes)], restarts=2)
    assert growth.first_bytes == pytest.approx(105)
    assert growth.last_bytes == pytest.approx(125)
    assert growth.share == pytest.approx(125 / 105 - 1)
    assert (growth.peak_bytes, growth.restarts) == (900, 2)


def test_a_process_that_was_never_seen_has_no_growth() -> None:
    """Others have theirs, with how often they were started again."""
    curves = Curves(1.0)
    curves.memory["a"].append((0.0, 5))
    assert curves.memory["b"] == []
    assert {name: one.restarts for name, one in curves.growth({"a": 3}).items()} == {"a": 2}
