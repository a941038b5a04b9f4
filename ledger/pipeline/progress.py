"""How far a lane has come, for displays and summaries: from its positions and its metrics."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client import CollectorRegistry

from ledger.pipeline.sources.file_positions import place_of
from ledger.runtime.metrics import summed


@dataclass(frozen=True, slots=True)
class Figures:
    """The counts of one run; records that were read again after a restart are counted again.

    `additions` are to the sums of the region, or entries where a total is corrected by one.
    """

    records: int
    duplicates: int
    stale: int
    dead: int
    additions: int
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
        additions=count("out", stage="reduce"),
        retried=count("retried"),
        restarts=count("restarts"),
    )


@dataclass(slots=True)
class LaneProgress:
    """Lanes of files on their way into the totals: how many bytes of the files they show.

    `problems` are what keeps the run from having taken in everything.
    """

    files: Path | Sequence[Path]
    registry: CollectorRegistry
    problems: list[str] = field(default_factory=list)
    _counted: dict[str, int] = field(default_factory=dict)

    @property
    def lanes(self) -> Sequence[str]:
        """The lanes that were begun, in order."""
        return list(self._counted)

    @property
    def bytes_counted(self) -> int:
        """How many bytes of the files the totals show; of their content, if compressed."""
        return sum(self._counted.values())

    def begin(self, lane: str) -> Callable[[str], None]:
        """Begin a lane; returns the callback for positions that the totals have reached."""
        self._counted.setdefault(lane, 0)

        def counted(position: str) -> None:
            self._counted[lane] = place_of(position)

        return counted

    def bytes_there(self) -> int:
        """Return how long the files are by now, and never less than what the totals show."""
        files = [self.files] if isinstance(self.files, Path) else self.files
        return max(self.bytes_counted, sum(map(_size, files)))

    def figures(self) -> Figures:
        """Return the counts so far."""
        return figures(self.registry)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:  # moved away, while it is followed
        return 0


@dataclass(slots=True)
class StreamProgress:
    """Lanes of a stream on their way into the totals; `problems` are of those that stopped."""

    registry: CollectorRegistry
    problems: list[str] = field(default_factory=list)
    _lanes: dict[str, str] = field(default_factory=dict)

    @property
    def lanes(self) -> Sequence[str]:
        """The lanes that were begun here, in order."""
        return list(self._lanes)

    def begin(self, lane: str) -> Callable[[str], None]:
        """Begin a lane; returns the callback for positions that the totals have reached."""
        self._lanes.setdefault(lane, "")

        def counted(position: str) -> None:
            self._lanes[lane] = position

        return counted

    def figures(self) -> Figures:
        """Return the counts so far."""
        return figures(self.registry)
