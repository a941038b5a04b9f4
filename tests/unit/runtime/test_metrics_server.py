"""Metrics and health over HTTP, answered by a thread of its own."""

import json
import socket
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import anyio
import pytest
from prometheus_client import CollectorRegistry

from ledger.core.errors import LedgerError
from ledger.runtime import metrics_server
from ledger.runtime.connections import HEAD_BYTES_MAX, PLACES_KEPT
from ledger.runtime.metrics import Metrics
from ledger.runtime.metrics_server import (
    BEAT_SECONDS,
    LOOP_SECONDS_MAX,
    WORK_SECONDS_MAX,
    Liveness,
    keep_beating,
    serve_metrics,
)


class Watch:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """Return the time that is set."""
        return self.now


def asked(port: int, path: str) -> tuple[int, str]:
    """Return status and body of a page."""
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}") as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def health_of(port: int) -> tuple[int, dict[str, Any]]:
    """Return status and content of /healthz."""
    status, body = asked(port, "/healthz")
    return status, json.loads(body)


def is_ended(connection: socket.socket) -> bool:
    """Return whether the other side ends a connection."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_metrics_are_served_until_closed() -> None:
    """The page has the metrics; after closing, the port is free again."""
    registry = CollectorRegistry()
    Metrics.of(registry).cache_miss("eu-west-1")
    with serve_metrics(0, registry) as server:
        status, page = asked(server.port, "/metrics")
    assert status == 200
    assert 'ledger_cache_misses_total{region="eu-west-1"} 1.0' in page
    serve_metrics(server.port, registry).close()


def test_closing_again_does_nothing() -> None:
    """Whoever holds a page may close it early, and its block then once more."""
    with serve_metrics(0, CollectorRegistry()) as server:
        server.close()
        server.close()
    serve_metrics(server.port, CollectorRegistry()).close()


def test_a_taken_port_is_one_clear_error() -> None:
    """The message names host and port and what to do."""
    with serve_metrics(0, CollectorRegistry()) as server:
        with pytest.raises(LedgerError, match=rf"127\.0\.0\.1 port {server.port}: .*in use") as got:
            serve_metrics(server.port, CollectorRegistry())
        assert "choose another port" in str(got.value)


@pytest.mark.parametrize(
    ("host", "port"), [("127.0.0.1", -1), ("127.0.0.1", 65_536), ("no.such.host.invalid", 0)]
)
def test_a_place_that_cannot_be_is_one_clear_error(host: str, port: int) -> None:
    """A number that is no port, or a host that is none, is refused like a taken one."""
    with pytest.raises(LedgerError, match=f"on {host} port {port}: "):
        serve_metrics(port, CollectorRegistry(), host=host)


def test_health_is_that_of_the_loop_and_not_of_the_thread_that_answers() -> None:
    """200 while the loop beats; 503 with the reason once it stands still; 200 once it goes on."""
    watch = Watch()
    health = Liveness(watch)
    with serve_metrics(0, CollectorRegistry(), health=health) as server:
        assert health_of(server.port) == (
            200,
            {
                "status": "ok",
                "loop_age_seconds": 0,
                "work_seconds": None,
                "last_work_age_seconds": None,
            },
        )
        watch.now += LOOP_SECONDS_MAX + 1
        status, said = health_of(server.port)
        assert status == 503
        assert "no heartbeat" in said["status"]
        assert said["loop_age_seconds"] == LOOP_SECONDS_MAX + 1
        assert asked(server.port, "/metrics")[0] == 200  # which is why it is no probe
        health.beat()
        assert health_of(server.port)[0] == 200


def test_work_that_does_not_end_is_no_health() -> None:
    """An hour of one pass; what has ended, however long ago, is for the alerts."""
    watch = Watch()
    health = Liveness(watch)
    with serve_metrics(0, CollectorRegistry(), health=health) as server:
        health.begin()
        watch.now += WORK_SECONDS_MAX
        health.beat()
        status, said = health_of(server.port)
        assert (status, said["work_seconds"]) == (200, WORK_SECONDS_MAX)
        watch.now += 1
        status, said = health_of(server.port)
        assert status == 503
        assert "has not ended" in said["status"]
        health.end()
        watch.now += 10 * WORK_SECONDS_MAX
        health.beat()
        status, said = health_of(server.port)
        assert (status, said["last_work_age_seconds"]) == (200, 10 * WORK_SECONDS_MAX)


def test_without_health_the_path_is_the_metrics() -> None:
    """As any path is, in the client library."""
    with serve_metrics(0, CollectorRegistry()) as server:
        assert asked(server.port, "/healthz") == asked(server.port, "/")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET / HTTP/1.1\r\nA: " + b"a" * HEAD_BYTES_MAX, b"431"),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n", b"431"),
        (b"POST / HTTP/1.1\r\n\r\n", b"400"),
        (b"HEAD / HTTP/1.1\r\n\r\n", b"200"),
    ],
)
def test_a_request_that_is_none_of_a_page_is_refused(sent: bytes, status: bytes) -> None:
    """A head that is too long is, whether it ends or not."""
    with (
        serve_metrics(0, CollectorRegistry()) as server,
        socket.create_connection(("127.0.0.1", server.port)) as connection,
    ):
        connection.sendall(sent)
        assert connection.recv(1_000).split()[1] == status


def test_connections_that_ask_nothing_lock_nobody_out() -> None:
    """Those that have waited longest give way."""
    with serve_metrics(0, CollectorRegistry(), health=Liveness()) as server:
        place = ("127.0.0.1", server.port)
        most = metrics_server.CONNECTIONS.of_address + PLACES_KEPT
        idle = [socket.create_connection(place) for _ in range(most + 1)]
        assert health_of(server.port)[0] == 200
        assert is_ended(idle[0])
        for connection in idle:
            connection.close()


def test_a_head_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the time that a head may take, whatever has come of it."""
    monkeypatch.setattr(metrics_server, "HEAD_SECONDS_MAX", 0.1)
    with (
        serve_metrics(0, CollectorRegistry()) as server,
        socket.create_connection(("127.0.0.1", server.port)) as connection,
    ):
        connection.sendall(b"GET / HT")
        assert is_ended(connection)


async def test_a_loop_leaves_its_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Again and again, until it is cancelled."""
    beats: list[float] = []
    slept: list[float] = []

    class Counting(Liveness):
        def beat(self) -> None:
            beats.append(0)

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise LedgerError("enough")

    monkeypatch.setattr(anyio, "sleep", sleep)
    with pytest.raises(LedgerError, match="enough"):
        await keep_beating(Counting())
    assert (len(beats), slept) == (3, [BEAT_SECONDS] * 3)
