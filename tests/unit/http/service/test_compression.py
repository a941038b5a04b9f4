"""Answers by gzip: which are, for whom, and that they are the same answers."""

import gzip
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message
from support.serving import served
from support.tokens import token_header

from ledger.http.service import compression
from ledger.http.service.access.access import FileAccess
from ledger.http.service.access.proxies import ProxyHeader
from ledger.http.service.access.token_file import set_proxy
from ledger.http.service.compression import (
    ACCEPTED_MAX,
    BYTES_MIN,
    SLICE_BYTES,
    Compressed,
    takes_gzip,
)
from ledger.testing import MemoryGlobalTable

TAKEN = {"Accept-Encoding": "gzip"}
NOT_TAKEN = {"Accept-Encoding": "identity"}
MANY = "/v1/totals?" + "&".join(f"id=counter-{number}" for number in range(20))


@pytest.mark.parametrize(
    ("accepted", "is_taken"),
    [
        ([], False),
        (["gzip"], True),
        (["GZIP;q=0.5"], True),
        (["br, gzip", "deflate"], True),
        (["br", "gzip"], True),
        (["*"], True),
        (["identity"], False),
        (["gzip;q=0"], False),
        (["gzip; q=0.000, *"], False),
        (["*;q=0"], False),
        (["x-gzip-2, notgzip"], False),
        (["gzip" + "," * (ACCEPTED_MAX - 4)], True),
        (["gzip" + "," * (ACCEPTED_MAX - 3)], False),
        (["gzip", *["a"] * 300], False),
    ],
)
def test_gzip_is_taken_where_it_is_said(accepted: list[str], is_taken: bool) -> None:  # noqa: FBT001
    """By its name or by any, unless its weight is none."""
    assert takes_gzip(accepted) is is_taken


async def sent(body: bytes, *, kind: str, **headers: str) -> tuple[dict[str, str], bytes]:
    """Return headers and body of an answer that was sent in one part to who takes gzip."""
    named = {"content-type": kind, "content-length": str(len(body)), **headers}
    messages: list[Any] = []

    async def send(message: Message) -> None:
        messages.append(message)

    compressed = Compressed(send, is_taken=True)
    raw = [(name.encode(), value.encode()) for name, value in named.items()]
    await compressed({"type": "http.response.start", "status": 200, "headers": raw})
    await compressed({"type": "http.response.body", "body": body, "more_body": False})
    start, part = messages
    return {name.decode(): value.decode() for name, value in start["headers"]}, part["body"]


@pytest.mark.parametrize("length", [BYTES_MIN + 1, SLICE_BYTES, 3 * SLICE_BYTES + 1])
async def test_a_long_answer_is_shorter_and_the_same(length: int) -> None:
    """To the byte, whatever the slices in which it is compressed."""
    body = b"".join(b"%d," % number for number in range(length))[:length]
    headers, packed = await sent(body, kind="application/json", etag='"a"')
    assert (headers["content-encoding"], headers["vary"]) == ("gzip", "Accept-Encoding")
    assert headers["content-length"] == str(len(packed))
    assert headers["etag"] == 'W/"a"'
    assert gzip.decompress(packed) == body


@pytest.mark.parametrize(
    ("kind", "length"),
    [("application/json", BYTES_MIN), ("text/event-stream", 5_000), ("image/png", 5_000)],
)
async def test_what_gains_nothing_is_sent_as_it_is(kind: str, length: int) -> None:
    """A short answer, a stream, and what is no text."""
    headers, body = await sent(b"a" * length, kind=kind)
    assert "content-encoding" not in headers
    assert body == b"a" * length


async def test_what_comes_in_parts_is_sent_as_it_is() -> None:
    """Its length is said, and stays."""
    messages: list[Message] = []

    async def send(message: Message) -> None:
        messages.append(message)

    compressed = Compressed(send, is_taken=True)
    raw = [(b"content-type", b"text/plain"), (b"content-length", b"4000")]
    await compressed({"type": "http.response.start", "status": 200, "headers": raw})
    for more in (True, False):
        await compressed({"type": "http.response.body", "body": b"a" * 2_000, "more_body": more})
    start, *parts = messages
    assert (b"content-length", b"4000") in start["headers"]
    assert b"".join(part["body"] for part in parts) == b"a" * 4_000


@pytest.mark.parametrize("path", [MANY, "/openapi.json", "/page/main.js"])
async def test_an_answer_of_more_than_a_kilobyte_is_compressed(path: str) -> None:
    """For who takes it; caches on the way are told that it depends."""
    async with served() as service:
        await service.http.get(path)  # totals are then cached
        plain = await service.http.get(path, headers=NOT_TAKEN)
        packed = await service.http.get(path, headers=TAKEN)
        assert packed.headers["content-encoding"] == "gzip"
        assert int(packed.headers["content-length"]) < len(plain.content)
        assert packed.headers["vary"] == plain.headers["vary"] == "Accept-Encoding"
        assert "content-encoding" not in plain.headers
        assert packed.content == plain.content
        short = await service.http.get("/v1/counters/a", headers=TAKEN)
        assert "content-encoding" not in short.headers


@pytest.mark.parametrize("path", ["/openapi.json", "/", "/page/main.js"])
async def test_what_anybody_may_ask_for_is_compressed_once(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When it is made; by its tag a client that has it is sent nothing."""
    async with served() as service:
        first = await service.http.get(path, headers=NOT_TAKEN)
        monkeypatch.setattr(compression, "_gzipped", None)
        packed = await service.http.get(path, headers=TAKEN)
        assert (packed.headers["content-encoding"], packed.content) == ("gzip", first.content)
        assert packed.headers["etag"] == f"W/{first.headers['etag']}"
        for known in (first.headers["etag"], packed.headers["etag"]):
            again = await service.http.get(path, headers=TAKEN | {"If-None-Match": known})
            assert (again.status_code, again.content) == (304, b"")


async def test_a_stream_of_events_is_not_compressed() -> None:
    """Its events would wait for each other."""
    async with served() as service:
        service.context.is_brief = True
        path = MANY.replace("totals", "live")
        answer = await service.http.get(path, headers=TAKEN)
        assert len(answer.content) > BYTES_MIN
        assert "content-encoding" not in answer.headers


async def test_an_answer_to_whom_a_proxy_named_is_not_compressed(tmp_path: Path) -> None:
    """A page of another site may have asked in that caller's name; lengths tell nothing."""
    table, path = MemoryGlobalTable(["us-east-1"]), tmp_path / "tokens.json"
    token = token_header(path, table, "read")
    set_proxy(path, ProxyHeader.of("X-Caller", ["10.0.7.0/24"]))
    access = FileAccess(path, table.clock)
    async with served(table, access=access, peer="10.0.7.9") as service:
        by_proxy = await service.http.get(MANY, headers=TAKEN | {"X-Caller": "shop"})
        by_token = await service.http.get(MANY, headers=TAKEN | token)
    assert (by_proxy.status_code, by_token.status_code) == (200, 200)
    assert "content-encoding" not in by_proxy.headers
    assert by_token.headers["content-encoding"] == "gzip"
