"""Probes notice every kind of wrong read, and take no right one for wrong."""

from decimal import Decimal

import pytest

from ledger.demo.harness.digit_tags import CHANGES_MAX
from ledger.demo.harness.probes import Probe

HOME, AWAY = "us-east-1", "eu-west-1"


def written(changes: int) -> Probe:
    """Return a probe whose changes were written at home and are durable there."""
    probe = Probe("probe")
    for _ in range(changes):
        following = probe.next_change()
        assert following is not None
        probe.acknowledge(HOME, following[0])
    return probe


def check(probe: Probe, region: str, total: int) -> str | None:
    """Check a total that was read all at once."""
    return probe.end_read(probe.begin_read(region), Decimal(total))


def test_each_change_has_its_own_digit() -> None:
    """The sum of all changes is a row of ones; after the last there is none to write."""
    probe = written(CHANGES_MAX)
    assert probe.expected_total() == Decimal("1" * CHANGES_MAX)
    assert probe.next_change() is None
    assert check(probe, HOME, int("1" * CHANGES_MAX)) is None


@pytest.mark.parametrize("total", [0, 1, 10, 101, 111])
def test_another_region_may_show_any_part(total: int) -> None:
    """Where nothing was acknowledged or seen, any subset of the changes is right, none too."""
    assert check(written(3), AWAY, total) is None


@pytest.mark.parametrize(
    ("total", "complaint"),
    [
        (2, "change 0 counted 2 times"),
        (120, "change 1 counted 2 times"),
        (99, "change 0 counted 9 times"),
        (-1, "a sum that no changes make up"),
        (1000, "change 3 was never called for"),
    ],
)
def test_a_total_that_no_changes_make_up_is_wrong(total: int, complaint: str) -> None:
    """A change counted twice, a negative total, and a change from nowhere are noticed."""
    found = check(written(3), AWAY, total)
    assert found is not None
    assert complaint in found
    assert AWAY in found


def test_an_acknowledged_change_must_be_counted_where_it_was_written() -> None:
    """A read that began after the acknowledgement and misses the change is wrong there only."""
    probe = written(2)
    assert check(probe, HOME, 11) is None
    assert "change 1 is not counted" in str(check(probe, HOME, 1))
    assert check(probe, AWAY, 1) is None


def test_a_change_once_counted_stays_counted() -> None:
    """What a region has shown it must go on showing; other regions are not bound by it."""
    probe = written(3)
    assert check(probe, AWAY, 110) is None
    assert "change 1 is not counted" in str(check(probe, AWAY, 101))
    assert check(probe, "ap-southeast-1", 101) is None


def test_a_read_owes_only_what_was_known_when_it_began() -> None:
    """A change acknowledged or seen while the read was on its way need not be in it."""
    probe = written(1)
    read = probe.begin_read(HOME)
    following = probe.next_change()
    assert following is not None
    probe.acknowledge(HOME, following[0])
    assert probe.end_read(read, Decimal(1)) is None
    assert check(probe, HOME, 1) is not None


def test_a_wrong_read_proves_nothing() -> None:
    """What a wrong total seemed to show is not held against later reads."""
    probe = written(3)
    assert check(probe, AWAY, 1001) is not None
    assert check(probe, AWAY, 0) is None
