"""The local global table in a separate process, and how its holder talks to it.

The parent holds the child's standard input, which ends however the parent dies, and the child
stops then. The holder of a table talks to it in the process, or by its control port.
"""

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio

from ledger.core.errors import LedgerError, LocalTableError
from ledger.local.options import REPLICATION_WAIT_SECONDS_MAX
from ledger.runtime.signals import stopped_by_signals
from ledger.runtime.tasks import background_tasks

STOP_SECONDS_MAX = 20.0
ORPHAN_CHECK_SECONDS = 1.0
READ_BYTES = 4096
_PACKAGE_PARENT = str(Path(__file__).parents[2])


def start_child(options: Mapping[str, Any]) -> tuple[subprocess.Popen[bytes], dict[str, Any]]:
    """Start the process and wait until it is ready; return it with its first status.

    Raises:
        LocalTableError: it did not start; the message is its own.
    """
    search = os.pathsep.join(filter(None, (_PACKAGE_PARENT, os.environ.get("PYTHONPATH"))))
    process = subprocess.Popen(  # noqa: S603 (our own module)
        [sys.executable, "-m", "ledger.local", json.dumps(dict(options))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": search},
    )
    assert process.stdout is not None, "opened as a pipe above"  # noqa: S101 (narrowing)
    line = process.stdout.readline()
    try:
        status: dict[str, Any] = json.loads(line or b'{"error": "it ended at once"}')
    except ValueError:
        status = {"error": line.decode(errors="replace").strip()}
    if "error" in status:
        stop_child(process)
        raise LocalTableError(f"the local global table did not start: {status['error']}")
    return process, status


def stop_child(process: subprocess.Popen[bytes]) -> None:
    """Ask the process to stop, and wait for it; kill it if it does not."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    try:
        process.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def child_main(arguments: list[str], run: Callable[..., Any]) -> int:
    """Run the child: `run` opens the table with the options given as JSON, until input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    try:
        anyio.run(_serve, json.loads(arguments[0]), run)
    except LedgerError as error:
        with suppress(OSError):
            print(json.dumps({"error": str(error)}), flush=True)
        return 1
    return 0


async def _serve(options: Mapping[str, Any], run: Callable[..., Any]) -> None:
    parent = os.getppid()
    async with run(**options) as table, background_tasks() as tasks:
        tasks.start_soon(_until_input_ends, tasks.cancel_scope)
        async with stopped_by_signals(
            lambda _: tasks.cancel_scope.cancel(), watched=(signal.SIGTERM,)
        ):
            print(json.dumps(table.status()), flush=True)
            while os.getppid() == parent:  # noqa: ASYNC110 (the kernel sends no event)
                await anyio.sleep(ORPHAN_CHECK_SECONDS)


async def _until_input_ends(scope: anyio.CancelScope) -> None:
    while True:
        await anyio.wait_readable(sys.stdin)
        if not os.read(sys.stdin.fileno(), READ_BYTES):
            scope.cancel()
            return


ANSWER_SECONDS_MAX = REPLICATION_WAIT_SECONDS_MAX + 30.0

Control = Callable[[str, Mapping[str, Any]], dict[str, Any]]
"""Carries out a control request by name and returns the status after it; blocks meanwhile."""


def control_by_http(control_url: str) -> Control:
    """Return the control of a table that runs in another process.

    Raises (when used):
        LocalTableError: nothing answers there, or the request was refused.
    """
    try:
        parts = urlsplit(control_url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or not port:
        raise LocalTableError(f"{control_url!r} is not the control URL of a local global table")

    def control(name: str, body: Mapping[str, Any]) -> dict[str, Any]:
        connection = http.client.HTTPConnection(host, port, timeout=ANSWER_SECONDS_MAX)
        try:
            if name == "status":
                connection.request("GET", "/status")
            else:
                connection.request("POST", f"/{name}", body=json.dumps(body))
            response = connection.getresponse()
            answer: Any = json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise LocalTableError(
                f"no local global table answers at {control_url}: {error}"
            ) from None
        finally:
            connection.close()
        if not isinstance(answer, dict):
            raise LocalTableError(f"no local global table answers at {control_url}: no object")
        if "error" in answer:
            raise LocalTableError(str(answer["error"]))
        return answer

    return control
