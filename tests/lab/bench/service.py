"""The service, measured as its clients call it: requests over sockets, from a process of their own.

What counts is the processor time of the service's process; the clients' share a core with the stub.
"""

import socket
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

import anyio
import uvicorn
from fastapi import FastAPI
from pydantic import TypeAdapter

from lab.bench.clients import Asked, Offered
from lab.bench.measurement import Measured
from lab.bench.rounds import Round, warm_seconds
from lab.harness.processes import child_environment, module_words, spare_cores
from ledger.core.errors import LedgerError
from ledger.http.service.access.access import FileAccess
from ledger.http.service.access.token_file import create_token
from ledger.http.service.access.tokens import SCOPES, checked_grant
from ledger.http.service.gate import NOBODY
from ledger.http.service.options import ServiceOptions
from ledger.http.service.server import Running, ServerInstance
from ledger.runtime.clock import SystemClock, system_random
from ledger.runtime.gc import tune_gc
from ledger.runtime.logs import LogFormat, begin_logging
from ledger.runtime.tasks import background_tasks
from ledger.session.ledger import Ledger


@dataclass(frozen=True, slots=True)
class _Service:
    """A service that runs in this process."""

    port: int
    token: str


async def requests(round_: Round) -> Measured:
    """Answer requests of so many connections, each with a token, with the audit log written.

    Raises:
        LedgerError: what arrived is not what was acknowledged.
    """
    found = await _measured(round_, _serving(round_))
    if round_.options["kind"] == "write" and found.items != found.work:
        raise LedgerError(f"{found.items} entries arrived of {found.work} acknowledged")
    return found


async def empty(round_: Round) -> Measured:
    """Answer the same requests by endpoints of FastAPI on uvicorn that do nothing."""
    return await _measured(round_, _serving_nothing())


async def _measured(round_: Round, serving: AbstractAsyncContextManager[_Service]) -> Measured:
    """Measure what serves, in this process, while clients in another send requests."""
    round_.stub.reset()
    tune_gc()
    async with serving as service:
        await _offer(round_, service, warm_seconds(round_.seconds))
        before, units = round_.stub.arrived(), round_.units("write")
        cpu_before = process_time()
        found = await _offer(round_, service, round_.seconds)
        cpu_seconds = process_time() - cpu_before
        arrived, units = round_.stub.arrived(), round_.units("write") - units
    return Measured(
        work=found.calls,
        calls=found.calls,
        seconds=found.seconds,
        cpu_seconds=cpu_seconds,
        p50_seconds=found.p50_seconds,
        p99_seconds=found.p99_seconds,
        requests=arrived.requests - before.requests,
        items=arrived.items - before.items,
        units=units,
        stub_cpu_seconds=arrived.cpu_seconds - before.cpu_seconds,
    )


@asynccontextmanager
async def _serving_nothing() -> AsyncIterator[_Service]:
    app = FastAPI()

    @app.get("/v1/counters/{counter}")
    @app.post("/v1/counters/{counter}/entries", status_code=HTTPStatus.CREATED)
    async def nothing(counter: str) -> dict[str, str]:
        return {"counter": counter}

    config = uvicorn.Config(app, http="httptools", log_config=None, access_log=False)
    server, listener = uvicorn.Server(config), socket.create_server(("127.0.0.1", 0))
    async with background_tasks() as tasks:
        tasks.start_soon(server.serve, [listener])
        yield _Service(listener.getsockname()[1], NOBODY)
        server.should_exit = True


@asynccontextmanager
async def _serving(round_: Round) -> AsyncIterator[_Service]:
    """Run the service as `ledger serve --log-format json` does."""
    begin_logging(LogFormat.JSON)
    clock, ports = SystemClock(), list[int]()
    listening = anyio.Event()

    def on_listening(port: int) -> None:
        ports.append(port)
        listening.set()

    with TemporaryDirectory() as folder:
        path = Path(folder) / "tokens.json"
        token = create_token(
            path,
            checked_grant("bench", SCOPES),
            now=clock.now(),
            randomness=system_random(),
            expires=None,
        )
        instance = ServerInstance(
            Ledger.open(round_.settings(), registry=round_.registry),
            ServiceOptions(port=0, drain_seconds=0.0),
            round_.registry,
            on_listening,
        )
        running = Running(instance, FileAccess(path, clock), clock, system_random())
        async with background_tasks() as tasks:
            tasks.start_soon(running.run)
            await listening.wait()
            yield _Service(ports[0], token)


async def _offer(round_: Round, service: _Service, seconds: float) -> Offered:
    """Run the clients for so long."""
    asked = Asked(
        port=service.port,
        token=service.token,
        kind=round_.options["kind"],
        callers=round_.options["callers"],
        counters=round_.options["counters"],
        seconds=seconds,
        core=spare_cores()[1],
    )
    words = module_words("lab.bench.clients", TypeAdapter(Asked).dump_json(asked).decode())
    done = await anyio.run_process(words, check=False, env=child_environment())
    if done.returncode:
        raise LedgerError(f"clients: {done.stderr.decode(errors='replace').strip()[-500:]}")
    return TypeAdapter(Offered).validate_json(done.stdout)
