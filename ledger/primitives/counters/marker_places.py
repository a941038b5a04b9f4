"""Where a marker is put or looked for: a key, in the counter's table or in a table for markers.

Pure: no clock, no randomness, no I/O.
"""

import re
from typing import Literal, NamedTuple, get_args

from ledger.core.entry import Item, Key
from ledger.core.errors import InvalidInput
from ledger.store.conditions import Absent
from ledger.store.reads import Get
from ledger.store.writes import Action, InTable, Put

MarkerPlaces = Literal["own", "both", "only"]
"""Where markers are put, and where those of callers' tokens are looked for first.

- own: at their own place; those before are looked at;
- both: at their own place and the one before;
- only: at their own place, and no other is looked at.
"""
_TABLE_NAME = re.compile(r"[A-Za-z0-9_.-]{3,255}")


class Place(NamedTuple):
    """One place of a marker; without a `table` it is in the counter's."""

    key: Key
    table: str = ""

    @property
    def get(self) -> Get:
        """The read of the marker."""
        return Get(self.key, table=self.table)

    def put(self, marker: Item) -> Action:
        """Return the action that puts a marker here, if there is none."""
        put = Put(marker, Absent())
        return InTable(self.table, put) if self.table else put


def checked_table(name: str | None) -> str:
    """Return the name of the markers' table, "" for the counter's.

    Raises:
        InvalidInput: DynamoDB allows no table of this name.
    """
    if name is None:
        return ""
    if not isinstance(name, str) or not _TABLE_NAME.fullmatch(name):
        raise InvalidInput(
            "marker_table must be 3 to 255 letters, digits, '_', '-' or '.', got"
            f" {str(name)[:60]!r}"
        )
    return name


def checked_places(places: MarkerPlaces) -> MarkerPlaces:
    """Return where markers are put.

    Raises:
        InvalidInput: there is no such choice.
    """
    if not isinstance(places, str) or places not in get_args(MarkerPlaces):
        raise InvalidInput(
            f"marker_places must be one of {', '.join(get_args(MarkerPlaces))}, got {places!r}"
        )
    return places
