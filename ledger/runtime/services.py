"""`Services`: the clock, the randomness and the metrics of the process that a part runs in."""

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Self

from ledger.runtime.clock import Clock, SystemClock, system_random
from ledger.runtime.metrics import Metrics

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


@dataclass(frozen=True, slots=True)
class Services:
    """The services that parts take from their process; tests and simulated worlds replace them.

    They hold no settings: a part takes a value of those, or a live view.
    """

    clock: Clock
    randomness: Random
    metrics: Metrics

    @classmethod
    def of(
        cls,
        *,
        clock: Clock | None = None,
        randomness: Random | None = None,
        registry: "CollectorRegistry | None" = None,
    ) -> Self:
        """Return the services of this process, but for those that are given.

        Raises:
            InvalidInput: `registry` is not a registry of prometheus_client.
        """
        return cls(clock or SystemClock(), randomness or system_random(), Metrics.of(registry))
