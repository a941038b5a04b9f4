"""The services of a process: its own, but for those that a caller gives."""

import pytest
from prometheus_client import CollectorRegistry
from support.ledgers import seeded

from ledger.core.errors import InvalidInput
from ledger.runtime.clock import SystemClock
from ledger.runtime.services import Services
from ledger.testing.clock import ManualClock


def test_what_is_not_given_is_the_processs_own() -> None:
    """The clock is the system's; metrics are those of the registry, once for all of its parts."""
    registry = CollectorRegistry()
    own = Services.of(registry=registry)
    assert isinstance(own.clock, SystemClock)
    assert Services.of(registry=registry).metrics is own.metrics


def test_what_is_given_is_taken() -> None:
    """A test's clock and randomness take the place of the process's."""
    clock, randomness = ManualClock(), seeded()
    given = Services.of(clock=clock, randomness=randomness)
    assert (given.clock, given.randomness) == (clock, randomness)


def test_a_registry_is_one_of_prometheus() -> None:
    """Anything else is refused by name."""
    with pytest.raises(InvalidInput, match="registry"):
        Services.of(registry="metrics")  # type: ignore[arg-type]
