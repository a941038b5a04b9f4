"""A lane's item: what it says, who may go on, and what of it is never forgotten."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core.errors import DamagedItem, LeftOut
from ledger.pipeline.core.lane_state import (
    LaneState,
    Span,
    joined,
    lane_item,
    lane_state_of,
    still,
)
from ledger.store.conditions import holds

LANE = "us-east-1/records/shard"
PLACES = st.integers(1, 99).map("{:02d}".format)
STATES = st.builds(
    LaneState,
    rev=st.integers(1, 9),
    position=st.just("") | PLACES,
    form=st.sampled_from(["", "f" * 16]),
    is_open=st.booleans(),
    begun=st.none() | st.builds(Span, PLACES, PLACES),
    fence=st.integers(0, 3),
    is_closed=st.booleans(),
    is_resetting=st.booleans(),
    required=st.sampled_from(["", "e" * 16]),
    at=st.sampled_from([0, 1_763_846_400]),
) | st.builds(LaneState, rev=st.just(1), audit=st.integers(1, 9), retain=PLACES)


def mark(first: int, last: int) -> Span:
    """Return a mark from one position to another."""
    return Span(f"{first:04d}", f"{last:04d}")


@pytest.mark.parametrize(
    ("known", "committed", "asked", "left"),
    [
        (None, 0, mark(1, 9), mark(1, 9)),
        (mark(1, 9), 9, mark(10, 19), mark(10, 19)),  # the usual: all of it is committed
        (mark(1, 9), 9, mark(30, 39), mark(30, 39)),  # nothing in between was begun
        (mark(10, 19), 9, mark(10, 19), mark(10, 19)),  # the same again
        (mark(10, 19), 9, mark(10, 14), mark(10, 19)),  # divided: the rest stays begun
        (mark(10, 19), 9, mark(10, 29), mark(10, 29)),
        (mark(10, 19), 9, mark(5, 19), mark(5, 19)),  # the mapping starts over, further back
        (mark(10, 19), 14, mark(15, 19), mark(15, 19)),  # the rest of what is committed in part
        (mark(10, 19), 14, mark(15, 16), mark(15, 19)),
    ],
)
def test_a_mark_is_moved_on(known: Span | None, committed: int, asked: Span, left: Span) -> None:
    """Records that follow what is committed may be begun; what was begun is never forgotten."""
    assert joined(known, f"{committed:04d}" if committed else "", asked) == left


@pytest.mark.parametrize(
    ("known", "committed", "asked"),
    [
        (mark(1, 9), 0, mark(10, 19)),  # the very first event is missing
        (mark(10, 19), 9, mark(20, 29)),
        (mark(10, 19), 9, mark(15, 19)),  # the first half is missing
        (mark(10, 19), 14, mark(20, 29)),  # the rest of what is committed in part
    ],
)
def test_records_begun_and_then_missing_stop_the_lane(
    known: Span, committed: int, asked: Span
) -> None:
    """What may be in states and is not in totals must come before what follows it."""
    with pytest.raises(LeftOut, match="restart the event source"):
        joined(known, f"{committed:04d}" if committed else "", asked)


@given(STATES)
def test_a_lane_is_read_as_it_is_written(state: LaneState) -> None:
    """The item holds all of the state, and the condition that it is still there."""
    item = lane_item(LANE, state)
    assert lane_state_of(item) == state
    assert holds(still(state), item)
    assert not holds(still(state), lane_item(LANE, replace(state, rev=state.rev + 1)))
    assert not holds(still(LaneState()), item)


def test_an_item_without_a_revision_is_damaged() -> None:
    """A lane without an item is new; an item in another form is not guessed."""
    known = LaneState(rev=1, position="07")
    assert lane_state_of(None) == LaneState()
    assert holds(still(LaneState()), None)
    item = lane_item(LANE, known)
    without = {name: value for name, value in item.items() if name != "rev"}
    for damaged in (without, {**item, "rev": {"N": "x"}}, {**item, "begun": {"L": [{"S": "1"}]}}):
        with pytest.raises(DamagedItem):
            lane_state_of(damaged)


def test_a_commit_of_all_that_was_begun_closes_the_lane() -> None:
    """Nothing is under way once the position has passed the mark; without one it stays open."""
    opened = LaneState(position="0003").opened("form", mark(4, 9))
    assert (opened.is_open, opened.begun, opened.form) == (True, mark(4, 9), "form")
    half, whole = opened.moved("0006"), opened.moved("0009")
    assert (half.is_open, half.begun) == (True, mark(4, 9))
    assert (whole.is_open, whole.begun) == (False, None)
    assert LaneState().opened("form").moved("0009").is_open


def test_only_an_audit_may_come_in_between() -> None:
    """Work goes on if nothing but an audit, or another's closing, is new in the lane's item."""
    known = LaneState(rev=3, position="03", form="f", is_open=True)
    audited = replace(known, rev=4, audit=2, retain="03")
    assert audited.is_begun_as(known)
    assert replace(known, rev=4, is_open=False).is_begun_as(known)
    assert (audited.covers, replace(audited, position="07").covers) == ("03", "03")
    assert known.covers == "03"
    for other in (
        replace(known, position="04"),
        replace(known, form="g"),
        replace(known, fence=1),
        replace(known, is_closed=True),
        replace(known, begun=mark(1, 2)),
    ):
        assert not other.is_begun_as(known)
