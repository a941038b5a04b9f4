"""One process of the service: how it listens."""

import logging
import socket
import ssl
from pathlib import Path

import anyio
import httpx
import pytest
import trustme
from prometheus_client import CollectorRegistry
from support.ledgers import seeded

from ledger.client.ledger import IDLE_SECONDS_MAX
from ledger.core.errors import LedgerError
from ledger.runtime.connections import PLACES_KEPT
from ledger.runtime.tasks import background_tasks
from ledger.service.access.port import OpenAccess
from ledger.service.options import ServiceOptions, Tls
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


async def test_an_unfinished_handshake_gives_way_as_an_idle_connection_does(
    tmp_path: Path,
) -> None:
    """TLS begins once a connection is counted, so that nobody is locked out before it."""
    table, authority = MemoryGlobalTable(["us-east-1"]), trustme.CA()
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(str(key))
    for part in issued.cert_chain_pems:
        part.write_to_path(str(certificate), append=True)
    trusted = ssl.create_default_context()
    authority.configure_trust(trusted)
    ports: list[int] = []
    listening = anyio.Event()

    def on_listening(port: int) -> None:
        ports.append(port)
        listening.set()

    options = ServiceOptions(port=0, drain_seconds=0, of_address=1, tls=Tls(certificate, key))
    instance = Instance(table.ledger(), options, CollectorRegistry(), on_listening)
    running = Running(instance, OpenAccess(), table.clock, seeded())
    async with background_tasks() as tasks:
        tasks.start_soon(running.run)
        await listening.wait()
        silent = [await anyio.connect_tcp("127.0.0.1", ports[0]) for _ in range(PLACES_KEPT + 1)]
        async with httpx.AsyncClient(verify=trusted) as http:
            for _ in range(2):
                answer = await http.get(f"https://127.0.0.1:{ports[0]}/healthz")
                assert answer.status_code == 200
        with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            await silent[0].receive()
        for connection in silent:
            await connection.aclose()
