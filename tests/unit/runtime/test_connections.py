"""Which connections there may be, and which gives way."""

import pytest

from ledger.runtime.connections import PLACES_KEPT, UNTAKEN_BYTES_MAX, Bounds, Connections

OF_ADDRESS = PLACES_KEPT + 2
"""As many as one address may have while it may have two that are busy."""


def test_a_new_connection_takes_the_place_of_the_one_that_waited_longest() -> None:
    """Of its address, once this has as many as it may have; a busy one keeps its place."""
    connections = Connections[int](Bounds(1_000, 2))
    for guest in range(OF_ADDRESS):
        assert connections.enter(guest, "10.0.0.1") == []
    connections.work(0)
    assert connections.enter(100, "10.0.0.1") == [1]
    assert connections.enter(101, "10.0.0.2") == []
    connections.wait(0)
    assert [connections.enter(guest, "10.0.0.1") for guest in (102, 103)] == [[2], [3]]
    assert len(connections.all()) == OF_ADDRESS + 1


def test_a_connection_that_answered_waits_anew() -> None:
    """It gives way after all that have waited longer."""
    connections = Connections[str](Bounds(1, 1_000))
    for guest in ("a", "b", *map(str, range(PLACES_KEPT - 1))):
        connections.enter(guest, "10.0.0.1")
    connections.work("a")
    connections.wait("a")
    assert connections.enter("c", "10.0.0.2") == ["b"]


def test_where_all_are_busy_a_new_connection_is_not_taken() -> None:
    """Nothing that is under way is cut off."""
    connections = Connections[int](Bounds(1_000, 2))
    for guest in range(OF_ADDRESS):
        connections.enter(guest, "10.0.0.1")
        connections.work(guest)
    assert connections.enter(100, "10.0.0.1") == [100]
    assert 100 not in connections.all()
    connections.leave(0)
    assert connections.enter(101, "10.0.0.1") == []


@pytest.mark.parametrize("bounds", [Bounds(2, 1_000), Bounds(1_000, 2)])
def test_requests_beyond_the_bound_are_told_apart(bounds: Bounds) -> None:
    """Places are kept for them, so that they are answered: as probes, or by a refusal."""
    connections = Connections[int](bounds)
    for guest in range(3):
        connections.enter(guest, "10.0.0.1")
    assert [connections.work(guest) for guest in range(3)] == [False, False, True]
    connections.wait(0)
    assert connections.work(1) is False


@pytest.mark.parametrize(
    ("one", "other", "is_one"),
    [
        ("2001:db8::1", "2001:db8::ffff:2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2", True),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        (None, "", True),
    ],
)
def test_addresses_of_one_holder_count_together(
    one: str | None, other: str, *, is_one: bool
) -> None:
    """A subnet of IPv6 does, as does an address of IPv4 in its form of IPv6."""
    connections = Connections[int](Bounds(1_000, 1))
    for guest in range(PLACES_KEPT):
        connections.enter(guest, one)
    assert connections.enter(100, other) == []
    assert connections.enter(101, one) == ([0] if is_one else [])


def test_what_left_is_forgotten() -> None:
    """Twice changes nothing, and nothing brings it back."""
    connections = Connections[int](Bounds(10, 10))
    connections.enter(1, "10.0.0.1")
    connections.leave(1)
    connections.leave(1)
    connections.wait(1)
    assert connections.work(1) is False
    assert connections.all() == []


def test_long_answers_that_wait_are_bounded_in_bytes() -> None:
    """Of the address that has most the oldest gives way, whoever asked last."""
    connections = Connections[str](Bounds(1_000, 1_000))
    for guest, address in (("slow", "10.0.0.2"), ("a", "10.0.0.1"), ("b", "10.0.0.1")):
        connections.enter(guest, address)
        assert connections.owe(guest, UNTAKEN_BYTES_MAX // 4) == []
    connections.enter("late", "10.0.0.3")
    assert connections.owe("late", UNTAKEN_BYTES_MAX // 2) == ["a"]
    assert "a" not in connections.all()
    connections.take("b", UNTAKEN_BYTES_MAX // 4)
    assert connections.owe("b", UNTAKEN_BYTES_MAX // 4) == []


def test_an_answer_that_is_begun_while_another_waits_counts_beside_it() -> None:
    """Of one connection: the first one taken leaves the second."""
    connections = Connections[str](Bounds(1_000, 1_000))
    for guest in ("a", "b"):
        connections.enter(guest, "10.0.0.1")
    half = UNTAKEN_BYTES_MAX // 2
    assert connections.owe("a", half) == connections.owe("a", half) == []
    connections.take("a", half)
    assert connections.owe("b", half) == []
    assert connections.owe("b", half) == ["a"]
    connections.take("a", half)
    assert connections.owe("b", 1) == ["b"]


@pytest.mark.parametrize("is_taken", [True, False])
def test_an_answer_that_was_taken_or_cut_off_counts_no_more(*, is_taken: bool) -> None:
    """So there is room for the next one."""
    connections = Connections[int](Bounds(1_000, 1_000))
    for guest in range(3):
        connections.enter(guest, "10.0.0.1")
        assert connections.owe(guest, UNTAKEN_BYTES_MAX) == []
        if is_taken:
            connections.take(guest, UNTAKEN_BYTES_MAX)
        else:
            connections.leave(guest)
