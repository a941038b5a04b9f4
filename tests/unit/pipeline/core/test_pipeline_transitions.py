from decimal import Decimal

from support.ledgers import HOME

from ledger.pipeline.core.category_sums import CategorySums, Changes, total
from ledger.pipeline.core.records import Record
from ledger.pipeline.core.transitions import State, advanced, between, is_newer

A, B = "lane-a", "lane-b"


def record(version: int, value: int, *categories: str) -> Record:
    """Return a version of a record."""
    return Record("T1", version, Decimal(value), categories or ("c",), HOME)


def put(state: State | None, one: Record, lane: str, position: str, **committed: str) -> State:
    """Return the state after a record of a lane."""
    lanes = {f"lane-{name}": position for name, position in committed.items()}
    return advanced(state, one, lane=lane, position=position, committed=lanes)


def numbers(changes: Changes) -> dict[str, int]:
    """Return changes as plain numbers."""
    return {category: int(change) for category, change in changes.items()}


def test_only_a_higher_version_is_newer() -> None:
    """The same version and an older one are not; where nothing is, every version is."""
    state = put(None, record(3, 7), A, "1")
    assert is_newer(record(0, 1), None)
    assert is_newer(record(4, 1), state)
    assert not is_newer(record(3, 8), state)
    assert not is_newer(record(2, 1), state)


def test_the_first_version_adds_its_value_to_each_category() -> None:
    """From nothing to a value is the value, in every category."""
    state = put(None, record(3, 7, "c", "d"), A, "1")
    assert state.image == CategorySums(Decimal(7), ("c", "d"))
    assert {at: numbers(one) for at, one in state.open[A].items()} == {"1": {"c": 7, "d": 7}}


def test_a_correction_moves_between_categories() -> None:
    """What a correction leaves loses the old value, what it enters gains the new one."""
    state = put(put(None, record(1, 7, "all", "old"), A, "1"), record(2, 9, "all", "new"), A, "2")
    assert numbers(state.open[A]["2"]) == {"all": 2, "old": -7, "new": 9}


def test_a_version_of_the_same_value_changes_nothing() -> None:
    """A newer version that changes no category leaves no transition; the version is noted."""
    state = put(put(None, record(1, 7), A, "1"), record(2, 7), B, "5")
    assert state.version == 2
    assert set(state.open) == {A}


def test_transitions_of_a_lane_stay_apart() -> None:
    """What a lane changed before, not committed yet, is neither changed nor joined."""
    state = put(put(None, record(1, 7), A, "1"), record(2, 9), A, "3")
    assert {at: numbers(one) for at, one in state.open[A].items()} == {"1": {"c": 7}, "3": {"c": 2}}


def test_interleaved_lanes_add_up() -> None:
    """Versions through two lanes in turn: the transitions of both add up to the newest value.

    One pair of images per lane could not do that: lane A from nothing to 40, lane B from 10 to 20,
    are 50.
    """
    state = put(None, record(1, 10), A, "1")
    state = put(state, record(2, 20), B, "1")
    state = put(state, record(3, 40), A, "2")
    changes = [one for lane in state.open.values() for one in lane.values()]
    assert numbers(total(changes)) == {"c": 40}


def test_what_a_lane_committed_is_dropped() -> None:
    """A transition that a committed position covers goes with the next write; others stay."""
    state = put(put(None, record(1, 10), A, "1"), record(2, 20), B, "4")
    state = put(state, record(3, 30), A, "3", a="1", b="3")
    assert {lane: set(one) for lane, one in state.open.items()} == {A: {"3"}, B: {"4"}}
    state = put(state, record(4, 30), B, "9", a="3", b="9")
    assert state.open == {}


def test_a_batch_takes_its_own_positions() -> None:
    """Open transitions are taken after a position up to another, of one lane."""
    state = put(put(put(None, record(1, 1), A, "1"), record(2, 3), A, "2"), record(3, 6), B, "2")
    assert [(at, numbers(one)) for at, one in between(state, A, "1", "2")] == [("2", {"c": 2})]
    assert list(between(state, A, "2", "9")) == []
    assert len(list(between(state, A, "", "9"))) == 2
