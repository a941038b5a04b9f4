"""`App`: one run of an application process of a world."""

from dataclasses import dataclass

from ledger.session.ledger import Ledger
from proof.simulator.process import Process
from proof.simulator.store import SimStore


@dataclass(frozen=True, slots=True)
class App:
    """One run of an application process."""

    process: Process
    ledger: Ledger
    store: SimStore
