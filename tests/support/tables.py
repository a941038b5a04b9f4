"""A table over a store in memory, and records for its pipeline."""

import json
from pathlib import Path

from prometheus_client import CollectorRegistry
from support.ledgers import HOME, make_settings, seeded
from support.pipelines import FIELDS

from ledger.runtime.clock import Clock
from ledger.runtime.services import Services
from ledger.session.assembly import GivenConnections
from ledger.store.memory import MemoryStore
from ledger.store.wrappers.meter import MeteredStore
from ledger.table import Table


def make_table(
    store: MemoryStore | MeteredStore | None = None,
    *,
    region: str = HOME,
    clock: Clock | None = None,
    registry: CollectorRegistry | None = None,
) -> Table:
    """Return a table over a store in memory, to be opened."""
    return Table(
        make_settings(pipeline={"fields": FIELDS, "categories": ["desk/{Desk}"]}),
        region=region,
        registry=registry,
        services=Services.of(clock=clock, randomness=seeded(), registry=registry),
        given=GivenConnections(store=store or MemoryStore(HOME)),
    )


def trades(folder: Path) -> Path:
    """Return a file of three records, one of them a correction."""
    rows = [("a", 1, "2"), ("b", 1, "5"), ("a", 2, "3.5")]
    file = folder / "trades.jsonl"
    lines = [
        json.dumps({"TradeID": trade, "Version": version, "Value": value, "Desk": "x"})
        for trade, version, value in rows
    ]
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return file


def changes_file(folder: Path, rows: str = "a,1\na,2.5\nb,-1\n") -> Path:
    """Return a file of changes."""
    file = folder / "changes.csv"
    file.write_text(f"counter,change\n{rows}", encoding="utf-8")
    return file
