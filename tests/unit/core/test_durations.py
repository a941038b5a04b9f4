"""Durations as people read them: two units at most, and nothing larger than it is."""

import pytest

from ledger.core.durations import spoken


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.04, "0 s"),
        (0.75, "0.7 s"),
        (2.0, "2 s"),
        (59.97, "59.9 s"),
        (60.1, "60.1 s"),
        (119.96, "119.9 s"),
        (120, "2 min"),
        (150.9, "2 min 30 s"),
        (840, "14 min"),
        (3_599.9, "59 min 59 s"),
        (3_600, "1 h"),
        (7_260, "2 h 1 min"),
        (86_399, "23 h 59 min"),
        (86_400, "1 d"),
        (621_507.2, "7 d 4 h"),
        (400_000_000, "4,629 d 15 h"),
    ],
)
def test_a_duration_has_two_units_at_most(seconds: float, text: str) -> None:
    """What is smaller is cut off, so that less is never said to be a minute."""
    assert spoken(seconds) == text
