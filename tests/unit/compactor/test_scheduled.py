"""Metrics that a scheduled pass leaves behind."""

import pytest
from prometheus_client import CollectorRegistry

from compactor.metrics import PushedMetrics
from ledger.core.errors import LedgerError


@pytest.mark.parametrize("gateway", ["9999-12-31T23:59Z", "http://[::1", "a b:1"])
def test_an_address_that_is_none_is_one_line(gateway: str) -> None:
    """The pass was done; what names no gateway is said with the address."""
    with (
        pytest.raises(LedgerError, match="metrics cannot be pushed to"),
        PushedMetrics(CollectorRegistry(), gateway=gateway).left(),
    ):
        pass
