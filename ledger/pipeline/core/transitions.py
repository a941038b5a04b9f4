"""The effect of a newer version of a record on its state. The rule on which exactness depends.

The state of a record holds its newest version, and, for each lane, the *open transitions*: what
that lane's records changed, each under the position of its record, for as long as the lane's
committed position does not cover it::

    state   version 3, value 7      open: lane A: {position 12: +5}, lane B: {position 40: -1}
                                                      |                        |
    map     lane A commits (10, 20]: takes +5, once --+    lane B commits ... -+

- A version is written once, on condition that the version and the `rev` it was judged by are still
  there (`mend` rewrites a state under the same version), and changes the state to
  exactly that version: the transitions add up to the newest value, whichever lanes they came
  through.
- A transition never changes once it is written, and is never joined with another. A worker that
  is taken for dead may commit what it saw earlier; were a later change joined with what it saw, the
  next commit would count that again.
- No transition appears below a version that is there: once a record shows the newest version
  of a batch, the transitions of that batch's positions are all that there will ever be.
- One is dropped only once a position that its lane has committed, read at any time, covers it.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from ledger.pipeline.core.category_sums import CategorySums, Changes, difference
from ledger.pipeline.core.records import Record

Open = Mapping[str, Mapping[str, Changes]]
"""Lane, position, changes."""


@dataclass(frozen=True, slots=True)
class State:
    """A record as its home region knows it; `rev` is raised by each write, of whomever.

    `kept` is JSON of the fields that another form may need of its record; empty if it has none.
    """

    version: int
    image: CategorySums
    home: str
    open: Open
    rev: int = 0
    kept: str = ""
    at: datetime | None = None
    """The record's own time, by which it can be forgotten; it never changes."""
    is_before: bool = field(default=False, compare=False)
    """Whether it was found at the place before, from which its next write moves it."""


def is_newer(record: Record, state: State | None) -> bool:
    """Return whether a record is a newer version than the state's."""
    return state is None or record.version > state.version


def advanced(
    state: State | None,
    record: Record,
    *,
    lane: str,
    position: str,
    committed: Mapping[str, str],
    at: datetime | None = None,
) -> State:
    """Return the state after a newer version, which came through a lane at this position.

    `committed` has positions that lanes are known to have committed; what they cover is dropped.
    `at` is the time that it keeps of its record.
    """
    image = CategorySums(record.value, record.categories, record.counted)
    still_open = dict(_uncovered(state.open, committed)) if state and state.open else {}
    changes = difference(state.image if state else None, image)
    if changes:
        still_open[lane] = {**still_open.get(lane, {}), position: changes}
    rev = state.rev if state else 0
    return State(record.version, image, record.home, still_open, rev + 1, record.kept, at)


def between(state: State, lane: str, after: str, upto: str) -> Iterator[tuple[str, Changes]]:
    """Yield a lane's open transitions with a position in (after, upto]."""
    for position, changes in state.open.get(lane, {}).items():
        if after < position <= upto:
            yield position, changes


def beyond(state: State, lane: str, position: str) -> Mapping[str, Changes]:
    """Return a lane's open transitions beyond a position."""
    return {at: one for at, one in state.open.get(lane, {}).items() if at > position}


def without(state: State, lane: str, position: str) -> State:
    """Return the state without a lane's transitions beyond a position, under a new revision."""
    kept = {at: one for at, one in state.open.get(lane, {}).items() if at <= position}
    others = {name: one for name, one in state.open.items() if name != lane}
    return replace(state, open=others | ({lane: kept} if kept else {}), rev=state.rev + 1)


def with_image(state: State, image: CategorySums, kept: str) -> State:
    """Return the state of the same version with another image, under a new revision."""
    return replace(state, image=image, kept=kept, rev=state.rev + 1)


def _uncovered(
    transitions: Open, committed: Mapping[str, str]
) -> Iterator[tuple[str, Mapping[str, Changes]]]:
    for lane, by_position in transitions.items():
        covered = committed.get(lane, "")
        left = {
            position: transition
            for position, transition in by_position.items()
            if position > covered
        }
        if left:
            yield lane, left
