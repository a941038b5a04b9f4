"""A world says nothing but what its auditor finds."""

import logging

from proof.simulator.run import _quiet


def test_a_world_logs_nothing_of_the_faults_that_it_draws() -> None:
    """No module of either package, whichever logs next; afterwards all log as before."""
    logs = [logging.getLogger(f"{name}.new") for name in ("compactor", "ledger")]
    with _quiet():
        assert not any(log.isEnabledFor(logging.ERROR) for log in logs)
    assert all(log.isEnabledFor(logging.WARNING) for log in logs)
