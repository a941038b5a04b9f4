from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core.clock_offset import (
    WINDOW_SECONDS,
    ClockOffset,
    MeasuredOffset,
    Quiet,
    measured,
)

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    """Return a time of day by its seconds after noon."""
    return NOON + timedelta(seconds=seconds)


def after(*answers: tuple[float, float, float]) -> ClockOffset | None:
    """Return what these answers tell, each of the times sent, answered and dated."""
    known: MeasuredOffset | None = None
    for sent, answered, date in answers:
        known = measured(known, sent=at(sent), answered=at(answered), date=at(date))
    return None if known is None else known.offset


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([(0.0, 0.0, 0.0)], ClockOffset(-1.0, 0.0)),
        ([(0.25, 0.75, 0.0)], ClockOffset(-0.75, 0.75)),
        ([(700.0, 700.5, 0.0)], ClockOffset(699.0, 700.5)),
        ([(0.0, 30.0, 20.0)], ClockOffset(-21.0, 10.0)),
        # A shorter round trip narrows what a longer one has told, and is not undone by it.
        ([(0.0, 10.0, 5.0), (10.0, 10.5, 10.0)], ClockOffset(-1.0, 0.5)),
        ([(10.0, 10.5, 10.0), (11.0, 21.0, 16.0)], ClockOffset(-1.0, 0.5)),
        # The second changes between two answers: together they tell it to a fraction.
        ([(0.875, 0.9375, 0.0), (1.0, 1.0625, 1.0)], ClockOffset(-0.125, 0.0625)),
        # No one offset explains both: a clock was set, and the newest counts.
        ([(0.0, 0.5, 0.0), (701.0, 701.5, 1.0)], ClockOffset(699.0, 700.5)),
        ([(700.0, 700.5, 0.0), (1.0, 1.5, 1.0)], ClockOffset(-1.0, 0.5)),
        # Of a later window: a clock may have drifted since.
        ([(0.5, 0.5, 0.0), (WINDOW_SECONDS, 0.5 + WINDOW_SECONDS, 60.0)], ClockOffset(-1.0, 0.5)),
        # The clock was set back between request and answer: nothing can be told.
        ([(0.0, -700.0, 0.0)], None),
        ([(0.0, 0.5, 0.0), (1.0, -699.0, 1.0)], ClockOffset(-1.0, 0.5)),
    ],
)
def test_answers_tell_bounds(
    answers: list[tuple[float, float, float]], expected: ClockOffset | None
) -> None:
    """Bounds follow from whole seconds and round trips, of many answers the narrowest."""
    assert after(*answers) == expected


@pytest.mark.parametrize(
    ("offset", "beyond"),
    [
        (ClockOffset(-1.0, 0.5), False),
        (ClockOffset(59.5, 60.5), False),
        (ClockOffset(60.0, 61.0), False),
        (ClockOffset(60.5, 61.5), True),
        (ClockOffset(-61.0, -60.0), False),
        (ClockOffset(-62.0, -60.5), True),
        (ClockOffset(-5000.0, 5000.0), False),
    ],
)
def test_a_clock_is_off_only_if_all_that_is_possible_is_beyond(
    offset: ClockOffset, *, beyond: bool
) -> None:
    """A slow answer never makes a clock look wrong."""
    assert offset.is_beyond(60.0) is beyond


@given(
    offset=st.integers(-(10**9), 10**9),
    answers=st.lists(st.tuples(*(st.integers(0, 10**7) for _ in range(3))), min_size=1, max_size=8),
)
def test_the_true_offset_is_always_within(offset: int, answers: list[tuple[int, int, int]]) -> None:
    """Whatever the delays (in microseconds), the bounds hold the offset of a steady clock."""
    known, now = None, NOON
    for before, there, back in answers:
        sent = now + timedelta(microseconds=before)
        served = sent + timedelta(microseconds=there)
        now = served + timedelta(microseconds=back)
        off = timedelta(microseconds=offset)
        date = served.replace(microsecond=0)
        known = measured(known, sent=sent + off, answered=now + off, date=date)
        assert known is not None
        true, noise = offset / 10**6, 1e-9
        assert known.offset.least - noise <= true <= known.offset.most + noise


@given(
    answers=st.lists(
        st.tuples(st.integers(-80_000, 80_000), st.integers(-5, 2_000), st.integers(-3, 3)),
        min_size=2,
        max_size=8,
    )
)
def test_an_answer_that_is_taken_for_quiet_adds_nothing(
    answers: list[tuple[int, int, int]],
) -> None:
    """Which answers tell nothing is known beforehand: `measured` would return what is known."""
    known, quiet = None, None
    for sent_ms, wait_ms, date_seconds in answers:
        sent, answered = at(sent_ms / 1000), at((sent_ms + wait_ms) / 1000)
        date = at(date_seconds)
        after = measured(known, sent=sent, answered=answered, date=date)
        if quiet is not None and quiet.covers(str(date), sent, answered):
            assert after is known
        known = after
        quiet = None if known is None else Quiet.of(known, str(date), date)


def test_the_answers_of_a_second_are_quiet() -> None:
    """Beside a first answer a like one tells nothing; another `Date`, or a shorter way, does."""
    known = measured(None, sent=at(0.2), answered=at(0.4), date=at(0))
    assert known is not None
    quiet = Quiet.of(known, "noon", at(0))

    assert quiet.covers("noon", at(0.2), at(0.5))
    assert not quiet.covers("a second later", at(0.2), at(0.5))
    assert not quiet.covers("noon", at(0.3), at(0.5))
    assert not quiet.covers("noon", at(0.1), at(0.3))
    assert not quiet.covers("noon", at(0.1), at(WINDOW_SECONDS + 1))
    assert not quiet.covers("noon", at(0.2), at(0.1))


@pytest.mark.parametrize(
    ("offset", "text"),
    [
        (ClockOffset(699.0, 700.0), "11 min 39 s ahead of"),
        (ClockOffset(-701.0, -700.0), "11 min 40 s behind"),
    ],
)
def test_messages_say_ahead_or_behind(offset: ClockOffset, text: str) -> None:
    """An operator sees at once which way the clock is to be set."""
    assert str(offset) == text
