"""How far a lane has come, for displays and summaries: from its positions and its metrics."""

from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry

from ledger.runtime.metrics import summed


@dataclass(frozen=True, slots=True)
class Figures:
    """What one run did; records that were read again after a restart are counted again."""

    records: int
    duplicates: int
    stale: int
    dead: int
    entries: int
    retried: int
    restarts: int


def figures(registry: CollectorRegistry) -> Figures:
    """Read the figures from a registry."""

    def count(name: str, **labels: str) -> int:
        return int(summed(registry, f"ledger_pipeline_{name}_total", **labels))

    return Figures(
        records=count("in", stage="state"),
        duplicates=count("left_out", stage="state", reason="duplicate"),
        stale=count("left_out", stage="state", reason="stale"),
        dead=count("left_out", stage="state", reason="dead"),
        entries=count("out", stage="reduce"),
        retried=count("retried"),
        restarts=count("restarts"),
    )


@dataclass(slots=True)
class Progress:
    """A file's lane on its way into the totals: how many bytes of the file they show."""

    file: Path
    registry: CollectorRegistry
    bytes_counted: int = 0

    def counted(self, position: str) -> None:
        """Take note that the totals show all up to a position."""
        self.bytes_counted = int(position)

    def bytes_there(self) -> int:
        """Return how long the file is by now."""
        return self.file.stat().st_size

    def figures(self) -> Figures:
        """Return what has been done so far."""
        return figures(self.registry)
