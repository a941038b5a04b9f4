"""Where a pipeline's states are: in the table itself, or in a separate table.

The search for what is to be merged reads the whole table, so states of their own table cost it
nothing. Where they lie is in the registry of every region, and in every lane's item: a lane whose
worker's settings say otherwise is refused. While they move, a state is looked for at its own place,
then at the one before, and is moved by the first write of it::

    own place   before      a worker that finds it                 writes
    X           -           takes it                               put over X
    -           X           takes it, as one to be moved           { put, if none; delete X }
    -           -           takes it as new                       put, if none
    X           X           takes the one at its own place         put over X

The last line is what a worker of before the move leaves that was not stopped yet: its lane is
fenced, so that what its state shows is in no total, and its records come again.

Pure: no clock, no randomness, no I/O.
"""

from dataclasses import dataclass
from datetime import datetime

from ledger.core.entry import Item, Key, damaged
from ledger.store.conditions import Absent, Condition
from ledger.store.reads import Get
from ledger.store.writes import Delete, InTable, OwnWrite, Put, Write

ITSELF = "-"
"""Stands for the table itself in items: no table has a name this short."""


@dataclass(frozen=True, slots=True)
class StatePlaces:
    """The table of the states, "" for the table itself; `before`, where others may still be."""

    table: str = ""
    before: str | None = None

    def write(self, write: OwnWrite) -> Write:
        """Return a write of a state at its own place."""
        return in_table(self.table, write)

    def get(self, key: Key) -> Get:
        """Return the read of a state at its own place."""
        return Get(key, table=self.table)

    def move(
        self, item: Item, key: Key, condition: Condition, until: datetime | None = None
    ) -> list[Write]:
        """Return the transaction that moves a state which is as demanded at the place before."""
        gone = in_table(self.before or "", Delete(key, condition))
        return [self.write(Put(item, Absent(), not_after=until)), gone]


def in_table(table: str, write: OwnWrite) -> Write:
    """Return a write in a table, "" for the store's own."""
    return InTable(table, write) if table else write


def named(table: str) -> str:
    """Return what stands for a table in items."""
    return table or ITSELF


def table_of(name: str) -> str:
    """Return the table that a name in items stands for; no name, the table itself."""
    return "" if name == ITSELF else name


def places_of(region: Item | None) -> StatePlaces:
    """Return where the states are, by a region's item in the registry.

    Raises:
        DamagedItem: it does not say so in a string.
    """
    found = region or {}
    table, before = (found.get(name, {"S": ""}).get("S") for name in ("states", "before"))
    if not isinstance(table, str) or not isinstance(before, str):
        raise damaged(found, "states and before must be texts (S)")
    return StatePlaces(table_of(table), table_of(before) if before else None)


def shown(table: str) -> str:
    """Return a table's name in messages."""
    return f"table {table}" if table else "the table itself"
