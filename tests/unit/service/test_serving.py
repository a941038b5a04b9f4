"""One process of the service: how it listens."""

import logging
import socket

import pytest
from prometheus_client import CollectorRegistry
from support.ledgers import seeded

from ledger.client.ledger import IDLE_SECONDS_MAX
from ledger.core.errors import LedgerError
from ledger.service.access.port import OpenAccess
from ledger.service.options import ServiceOptions
from ledger.service.serving import KEEP_ALIVE_SECONDS, Instance, Running
from ledger.testing import MemoryGlobalTable


def test_clients_close_idle_connections_before_the_service_does() -> None:
    """So do load balancers, after a minute: no request is on its way when one is closed."""
    load_balancers = 60.0
    assert IDLE_SECONDS_MAX < load_balancers < KEEP_ALIVE_SECONDS


async def test_a_port_that_is_taken_is_one_error(caplog: pytest.LogCaptureFixture) -> None:
    """It is raised, and nothing is logged beside it."""
    table = MemoryGlobalTable(["us-east-1"])
    with socket.create_server(("127.0.0.1", 0)) as taken, caplog.at_level(logging.DEBUG, "uvicorn"):
        options = ServiceOptions(port=taken.getsockname()[1])
        instance = Instance(table.ledger(), options, CollectorRegistry(), lambda _: None)
        running = Running(instance, OpenAccess(), table.clock, seeded())
        with pytest.raises(LedgerError, match=r"cannot listen on 127.0.0.1 port \d+: it is taken"):
            await running.run()
    assert [record for record in caplog.records if record.name.startswith("uvicorn")] == []
