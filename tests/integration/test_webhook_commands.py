"""`ledger webhook` on a local global table, with a receiver on this machine."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sized
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import orjson
import pytest
import yaml
from anyio import to_thread
from anyio.abc import SocketAttribute, SocketStream
from prometheus_client import CollectorRegistry
from support.commands import Ran, run_command_here
from support.hooks import SECRET

from ledger import Ledger
from ledger.commands.webhook import open_delivery
from ledger.http.webhooks.events import HookEvent
from ledger.http.webhooks.hooks import read_hooks
from ledger.http.webhooks.progress_items import ProgressItems
from ledger.local import LocalGlobalTable
from ledger.runtime.clock import SystemClock
from ledger.settings.model import CONTRACTED
from ledger.store.connections import open_store

FILE = "hooks.yaml"


@asynccontextmanager
async def receiver(statuses: list[int]) -> AsyncIterator[tuple[int, list[Any]]]:
    """Answer requests of HTTP with these statuses, then 200; yield the port, and what came."""
    came: list[Any] = []

    async def answer(stream: SocketStream) -> None:
        async with stream:
            data = b""
            while b"\r\n\r\n" not in data:
                data += await stream.receive()
            head, _, body = data.partition(b"\r\n\r\n")
            size = next(
                int(line.split(b":")[1])
                for line in head.split(b"\r\n")
                if line.lower().startswith(b"content-length")
            )
            while len(body) < size:
                body += await stream.receive()
            came.append(json.loads(body))
            status = statuses.pop(0) if statuses else 200
            await stream.send(f"HTTP/1.1 {status} x\r\ncontent-length: 0\r\n\r\n".encode())

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, answer)
        port: int = listener.extra(SocketAttribute.local_port)  # noqa: S610 (not Django's)
        yield port, came
        tasks.cancel_scope.cancel()


@pytest.mark.slow
async def test_events_are_delivered_and_what_is_left_is_shown_and_sent_again(
    tmp_path: Path,
) -> None:
    """By two workers beside each other, of which one delivers; then by the commands."""

    async def run(*words: str) -> Ran:
        command = partial(run_command_here, "ledger", "webhook", *words, folder=tmp_path)
        return await to_thread.run_sync(command)

    async with (
        LocalGlobalTable.start(regions=["us-east-1", "eu-west-1"], lag=0.01) as world,
        receiver([]) as (port, came),
        receiver([200, 410, 500]) as (other, refused),
    ):
        settings = world.settings()
        values = settings.model_dump(mode="json", exclude=set(CONTRACTED))
        # Its first region is not the home, which the contract alone names.
        (tmp_path / "regions.yaml").write_text(yaml.safe_dump(values))
        hook = {"secret": SECRET, "private": True}
        bound = {"on": "crossings", "counters": "stock-*", "above": 4}
        hooks = {
            "all": {**hook, "url": f"http://127.0.0.1:{port}/a"},
            "high": {**hook, **bound, "url": f"http://127.0.0.1:{other}/b"},
        }
        (tmp_path / FILE).write_text(yaml.safe_dump({"webhooks": hooks}))
        read = read_hooks(tmp_path / FILE)
        tried = await run("test", FILE, "high")
        assert (tried.status, tried.out) == (0, "high: delivered, 200\n")
        registries = [CollectorRegistry(), CollectorRegistry()]
        async with (
            open_delivery(settings, read, registries[0]),
            open_delivery(settings, read, registries[1]),
            Ledger.open(settings, region="eu-west-1") as away,
        ):
            await until(lambda: saved(run), 2)
            for _ in range(5):
                await away.record("stock-1", 1)
            await until(lambda: disabled(run), 1)
            await until(lambda: count(came), 5)
            assert sorted(map(leads, registries)) == [0, 1]
        assert [*map(leads, registries)] == [0, 0]
        assert [body["data"]["counter"] for body in came] == ["stock-1"] * 5
        assert refused[1]["data"]["total"] == "5"
        assert json_rows(await run("dead", "high", "--json")) == []
        lost = HookEvent("msg_lost", orjson.dumps({"type": "total.crossed"}))
        async with open_store(settings, settings.home) as store:
            await ProgressItems(store, "high").put_dead(
                lost, "500 (tried 10 times)", SystemClock().now()
            )
        (letter,) = json_rows(await run("dead", "high", "--json"))
        assert letter["said"] == "500 (tried 10 times)"
        again = await run("redeliver", FILE, "high", "--json")
        assert (again.status, json.loads(again.out)["said"]) == (1, "500")
        again = await run("redeliver", FILE, "high", letter["event"])
        assert again.status == 0
        assert letter["event"] in again.out
        assert (await run("dead", "high")).out.count("msg_") == 0
        assert (await run("enable", "high")).out == "high: enabled\n"
        assert (await run("enable", "high")).out == "high: it was not disabled\n"
        async with open_delivery(settings, read):  # from the crossing that was answered by 410
            await until(lambda: count(refused), 5)
        assert refused[4] == refused[1]
        unknown = await run("test", FILE, "none")
        assert unknown.status == 2
        assert "no webhook 'none': all, high" in unknown.errors


Run = Callable[..., Awaitable[Ran]]


async def until(look: Callable[[], Awaitable[int]], wanted: int) -> None:
    """Look until there are as many."""
    with anyio.fail_after(30):
        while await look() < wanted:  # noqa: ASYNC110 (another process's, or a table's)
            await anyio.sleep(0.1)


async def saved(run: Run) -> int:
    """Return how many webhooks have a position."""
    return sum(row["saved"] is not None for row in json_rows(await run("list", FILE, "--json")))


async def disabled(run: Run) -> int:
    """Return how many webhooks are disabled."""
    return sum(row["disabled"] is not None for row in json_rows(await run("list", FILE, "--json")))


def leads(registry: CollectorRegistry) -> float:
    """Return whether a worker delivers, as it shows to Prometheus."""
    return registry.get_sample_value("ledger_webhook_leader") or 0.0


async def count(came: Sized) -> int:
    """Return how many there are."""
    return len(came)


def json_rows(ran: Ran) -> list[Any]:
    """Return the objects that a command printed."""
    assert ran.status == 0, ran.errors
    return [json.loads(line) for line in ran.out.splitlines()]
