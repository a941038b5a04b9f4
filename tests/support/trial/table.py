"""A local global table that is killed and started again, with everything it had answered."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ledger.local import LocalGlobalTable
from ledger.local.process import start_child, stop_child

LAG, JITTER = 0.02, 0.1


class KeptTable:
    """A table in a child process that keeps its data in a folder; `restart` kills it with 9."""

    def __init__(self, regions: Sequence[str], engine: str, folder: Path, seed: int) -> None:
        self._options: dict[str, Any] = {
            "regions": list(regions),
            "engine": engine,
            "data": str(folder),
            "seed": seed,
            "lag": LAG,
            "jitter": JITTER,
        }
        self._process, status = start_child(self._options)
        self.world = LocalGlobalTable.connect(status["control_url"])
        self._options |= {
            "ports": [urlsplit(self.world.endpoints[region]).port for region in regions],
            "control_port": urlsplit(self.world.control_url).port,
            "create": False,
        }

    def restart(self) -> None:
        """Kill it, and start it again on the same ports with what it kept; cuts are healed."""
        self._process.kill()
        stop_child(self._process)
        self._process, _ = start_child(self._options)

    def stop(self) -> None:
        """Stop it."""
        stop_child(self._process)


@contextmanager
def kept_table(regions: Sequence[str], engine: str, folder: Path, seed: int) -> Iterator[KeptTable]:
    """Run a table that can be restarted."""
    table = KeptTable(regions, engine, folder, seed)
    try:
        yield table
    finally:
        table.stop()
