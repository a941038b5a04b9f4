"""The options of a local global table. Needs none of the optional packages."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ledger.core.errors import LocalTableError
from ledger.local.front.faults import FaultHook

ENGINES = ("memory", "dynoxide")
REPLICATION_WAIT_SECONDS_MAX = 600.0
DELAY_SECONDS_MAX = 600.0
PORT_MAX = 65_535


@dataclass(frozen=True, slots=True)
class LocalOptions:
    """The options that a local global table is started with. Times in seconds.

    `ports` are those of the regions, in their order; 0 means any free port. `data` is the folder
    that keeps the state; None keeps nothing.
    """

    regions: Sequence[str]
    lag: float = 0.05
    jitter: float = 0.2
    seed: int = 7
    engine: str = "memory"
    table: str = "ledger"
    ports: Sequence[int] = ()
    control_port: int = 0
    replica_seconds: float = 0.2
    data: str | Path | None = None
    fault: FaultHook | None = field(default=None, compare=False)

    def check(self) -> None:
        """Check every value.

        Raises:
            LocalTableError: one breaks a rule.
        """
        if not self.regions or len(set(self.regions)) != len(self.regions):
            raise LocalTableError(
                f"regions must name at least one region, each once, got {list(self.regions)}"
            )
        if self.engine not in ENGINES:
            raise LocalTableError(
                f"engine must be one of {', '.join(ENGINES)}, got {self.engine!r}"
            )
        if self.ports and len(self.ports) != len(self.regions):
            raise LocalTableError(
                f"ports must be {len(self.regions)}, one for each region"
                f" ({', '.join(self.regions)}), got {len(self.ports)}; the control port is apart"
            )
        for port in (*self.ports, self.control_port):
            if not isinstance(port, int) or not 0 <= port <= PORT_MAX:
                raise LocalTableError(f"port must be between 0 and {PORT_MAX}, got {port!r}")
        if self.data is not None and (not str(self.data) or Path(self.data).is_file()):
            raise LocalTableError(f"data must name a folder, got {str(self.data)!r}")
        check_delay(self.lag, self.jitter)


def check_delay(lag: float, jitter: float) -> None:
    """Refuse delays that are negative, too long or not numbers.

    Raises:
        LocalTableError: one breaks the rule.
    """
    for name, value in (("lag", lag), ("jitter", jitter)):
        if not isinstance(value, (int, float)) or not 0 <= value <= DELAY_SECONDS_MAX:
            raise LocalTableError(
                f"{name} must be between 0 and {DELAY_SECONDS_MAX:g} seconds, got {value!r}"
            )
