"""One batch in the state stage: what must be written, and the results of the rest.

States that a worker remembers, so that it need not read them before it writes the next.
"""

from collections import OrderedDict
from collections.abc import Collection
from dataclasses import replace

from ledger.pipeline.core.age_horizon import AgeHorizon, has_moved
from ledger.pipeline.core.kept_fields import NOT_REMEMBERED, REMEMBERED_CHARACTERS_MAX
from ledger.pipeline.core.records import Delivery, Poison, Record
from ledger.pipeline.core.transitions import State, is_newer
from ledger.pipeline.sources.dead_letters import DeadRecord


class StateBatch:
    """The records of one batch: the newest version of each record, and what became of the rest.

    A version that names another home than the others is judged apart: it may be a dead letter.
    """

    def __init__(self, lane: str, regions: Collection[str], horizon: AgeHorizon) -> None:
        self.horizon = horizon
        self.parked: list[tuple[Record, Delivery]] = []
        self.silent: set[str] = set()
        self.cause = ""
        self.newest: dict[tuple[str, str], tuple[Record, Delivery]] = {}
        self.states: dict[tuple[str, str], State] = {}
        self.dying: set[tuple[str, frozenset[str]]] = set()
        self.letters: list[DeadRecord] = []
        self.duplicates = 0
        self.stale = 0
        self._lane = lane
        self._regions = regions
        self._first: dict[str, str] = {}

    def is_elsewhere(self, record: Record, state: State) -> bool:
        """Return whether another region keeps a record; one that left the table keeps none."""
        return state.home != record.home and state.home in self._regions

    def is_due(self, record: Record, state: State) -> bool:
        """Return whether a record is to be written over a state."""
        return is_newer(record, state) and not (
            self.is_elsewhere(record, state) or has_moved(record, state)
        )

    def first_parked(self) -> str:
        """Return the position of the first record that is parked, in any of its versions.

        What precedes it may be committed: no process can still write a transition there.
        """
        return min(self._first[record.id] for record, _ in self.parked)

    def add(self, delivery: Delivery, read: Record | Poison) -> None:
        """Add one record as it was read."""
        record = self.horizon.judged(read)
        if isinstance(record, Poison):
            self._dead_letter(delivery, record.reason)
            if record.id:
                self.dying.add((record.id, record.homes))
            return
        place = record.id, record.home
        self._first.setdefault(record.id, delivery.position)
        known = self.newest.get(place)
        if known is None or record.version > known[0].version:
            self.stale += known is not None
            self.newest[place] = record, delivery
        elif record.version == known[0].version:
            self.duplicates += 1
        else:
            self.stale += 1

    def found(self, record: Record, delivery: Delivery, state: State) -> None:
        """Take in the state that a record has come to, or had before."""
        if self.is_elsewhere(record, state):
            self._dead_letter(
                delivery,
                f"record {record.id[:40]!r} is kept in {state.home}, not in {record.home}:"
                " what decides a record's home must never change",
            )
            self.dying.add((record.id, frozenset({state.home})))
            return
        if is_newer(record, state) and has_moved(record, state):
            self._dead_letter(
                delivery,
                f"the time of record {record.id[:40]!r} was {state.at}, is {record.at}: with"
                " pipeline.keep_states it never changes. Record what it changes with `ledger"
                " record`, or send it under another id, and this one with value 0",
            )
            self.dying.add((record.id, frozenset({record.home})))
            return
        self.states[record.id, record.home] = state
        if state.version > record.version:
            self.stale += 1
        elif delivery.position not in state.open.get(self._lane, ()):
            self.duplicates += 1

    def _dead_letter(self, delivery: Delivery, reason: str) -> None:
        self.letters.append(DeadRecord(self._lane, delivery.position, reason, delivery.raw))


class StateCache:
    """States that were seen last, up to a number; one that is behind costs a rejected write."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._states: OrderedDict[str, State] = OrderedDict()

    def get(self, record_id: str) -> State | None:
        """Return a record's state as it was last seen, if it is remembered."""
        return self._states.get(record_id)

    def keep(self, record_id: str, state: State) -> None:
        """Remember a record's state, without what it keeps of its record if that is long."""
        if len(state.kept) > REMEMBERED_CHARACTERS_MAX:
            state = replace(state, kept=NOT_REMEMBERED)
        self._states[record_id] = state
        self._states.move_to_end(record_id)
        if len(self._states) > self._most:
            self._states.popitem(last=False)
