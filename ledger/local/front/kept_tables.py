"""The catalog as values that can be kept, and made again from them.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ledger.core.errors import LocalTableError
from ledger.local.engines.port import TableKey
from ledger.local.front.catalog import Catalog, Table

NAME = "tables"
"""The fact of the journal that holds them."""


def to_values(tables: Catalog) -> dict[str, Any]:
    """Return all tables with their settings, and the regions that they were made for."""
    described = []
    for table in tables.every():
        values = asdict(table)
        del values["active_at"]  # a later start waits for no replica
        described.append(values)
    return {"regions": list(tables.regions), "groups": tables.groups, "tables": described}


def restore(tables: Catalog, values: Mapping[str, Any]) -> None:
    """Put the tables into an empty catalog of the same regions.

    Raises:
        LocalTableError: they are of other regions.
    """
    if sorted(values["regions"]) != sorted(tables.regions):
        raise LocalTableError(
            f"the state that was kept is of the regions {', '.join(values['regions'])}, asked for "
            f"are {', '.join(tables.regions)}: choose those, or another --data folder"
        )
    made = []
    for described in values["tables"]:
        key = TableKey(tuple(described["key"]["names"]), tuple(described["key"]["kinds"]))
        made.append(Table(**{**described, "key": key, "active_at": 0.0}))
    tables.restore(made, groups=values["groups"])
