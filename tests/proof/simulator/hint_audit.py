"""What must hold of hints, in a calm world: each acknowledged change has one that is soon ripe.

There is no fault in such a world, and every change is to leave a hint, so that none waits for a
search. In any other a hint may be lost, which costs time and no total.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from ledger.core.entry import Item, Key
from ledger.core.values import Entry

_PREFIX = "~hint-"
_TIME_CHARACTERS = 26
SPANS_PER_SETTLE = 3


class HintAudit:
    """The hints that were left, and the changes that must have left them."""

    def __init__(self, *, settle: float = 0.0, is_calm: bool = False) -> None:
        self._span = timedelta(seconds=settle / SPANS_PER_SETTLE)
        self._is_calm = is_calm
        self._acknowledged: set[tuple[str, str]] = set()
        self._left: set[tuple[str, datetime]] = set()

    def arrived(self, key: Key, item: Item | None) -> None:
        """Note a hint."""
        if self._is_calm and item is not None and key[0].startswith(_PREFIX):
            ripe, _, counter = key[1].partition("#")
            self._left.add((counter, _time(ripe)))

    def answered(self, entries: Sequence[Entry]) -> None:
        """Note changes that were acknowledged."""
        if self._is_calm:
            self._acknowledged.update((entry.counter, entry.id) for entry in entries)

    def wrong_at_rest(self) -> str:
        """Return what is wrong with the hints; empty if nothing is."""
        for counter, id_ in sorted(self._acknowledged):
            made = _time(id_)
            ripes = [ripe for name, ripe in self._left if name == counter]
            if not any(made < ripe <= made + self._span for ripe in ripes):
                return f"change {id_} of {counter} left no hint"
        return ""


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text[:_TIME_CHARACTERS])
