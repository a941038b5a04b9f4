"""States that a worker remembers, so that it need not read them before it writes the next."""

from collections import OrderedDict
from dataclasses import replace

from ledger.pipeline.core.kept import NOT_REMEMBERED, REMEMBERED_CHARACTERS_MAX
from ledger.pipeline.core.transitions import State


class Remembered:
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
