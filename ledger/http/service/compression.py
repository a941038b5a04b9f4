"""Answers by gzip: those of more than a kilobyte, where the client takes it.

What an answer's length tells (BREACH) needs a browser that sends a request with its user's rights
for a page of another site. A token is in a header that no such page can send. Where a proxy names
the caller, the browser may have been let in by a cookie or a certificate, which it sends for any
page: those answers are never compressed. Nor are streams, whose events would wait in a buffer.

What anybody may ask for is compressed once, and named by its content, so an answer without a token
costs no more than others do. Nothing of the table is in it, so its length tells nothing.
"""

import gzip
import re
import zlib
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from typing import Any, Self

from anyio.lowlevel import checkpoint
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Send

from ledger.http.wire.problems import MEDIA_TYPE

BYTES_MIN = 1024
"""An answer of so many bytes, or fewer, is one packet in any case."""
ACCEPTED_MAX = 512
"""Characters of Accept-Encoding that are read: a program sends some 30, and anybody may send more.
"""
SLICE_BYTES = 64 * 1024
"""What is compressed at once; other requests go on in between."""
KINDS = ("text/", "application/json", MEDIA_TYPE, "image/svg+xml")
_LEVEL = 4  # of the 9 of zlib: a page of 1,000 entries comes to a twelfth, in a millisecond
_GZIP = 31  # by zlib: a window of 15 bits, and gzip's head and end
_EVENTS = "text/event-stream"
_NEVER = re.compile(r"q=0(\.0*)?", re.ASCII)


def takes_gzip(accepted: Sequence[str]) -> bool:
    """Return whether a request's Accept-Encoding headers take gzip (RFC 9110, 12.5.3)."""
    taken = dict[str, bool]()
    said = ",".join(accepted)
    if len(said) > ACCEPTED_MAX:
        return False
    for coding in said.lower().split(","):
        name, _, weight = coding.partition(";")
        taken[name.strip()] = not _NEVER.fullmatch(weight.strip())
    return taken.get("gzip", taken.get("*", False))


class Compressed:
    """Sends one answer, compressed if that is of use."""

    def __init__(self, send: Send, *, is_taken: bool) -> None:
        self._send = send
        self._is_taken = is_taken
        self._start: MutableMapping[str, Any] | None = None

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        """Send a part of the answer; its start waits for the body, if that may be compressed."""
        if message["type"] == "http.response.start" and _may_be(
            MutableHeaders(raw=message["headers"])
        ):
            self._start = message
            return
        if (start := self._start) is not None:
            self._start = None
            headers = MutableHeaders(raw=start["headers"])
            headers.add_vary_header("Accept-Encoding")
            if self._is_taken and not message.get("more_body"):
                message["body"] = await _gzipped(message["body"])
                headers["Content-Encoding"] = "gzip"
                headers["Content-Length"] = str(len(message["body"]))
                if (tag := headers.get("etag", "W/")).startswith('"'):
                    headers["ETag"] = f"W/{tag}"  # it is that of other bytes
            await self._send(start)
        await self._send(message)


def _may_be(headers: MutableHeaders) -> bool:
    """Return whether an answer, whose length is known, is text that is long enough.

    One that depends on what is taken already (`StaticFile`) is as it should be.
    """
    kind = headers.get("content-type", "")
    is_text = kind.startswith(KINDS) and not kind.startswith(_EVENTS)
    is_chosen = "vary" in headers
    return is_text and not is_chosen and int(headers.get("content-length", "0")) > BYTES_MIN


async def _gzipped(body: bytes) -> bytes:
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    parts = list[bytes]()
    for place in range(0, len(body), SLICE_BYTES):
        parts.append(packer.compress(body[place : place + SLICE_BYTES]))
        await checkpoint()
    return b"".join([*parts, packer.flush()])


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file of the service, and the tag by which a client knows that it has it."""

    content: bytes
    packed: bytes
    kind: str
    tag: str

    @classmethod
    def of(cls, content: bytes, kind: str) -> Self:
        """Return a file of some content and media type."""
        tag = f'"{sha256(content).hexdigest()[:32]}"'
        return cls(content, gzip.compress(content, mtime=0), kind, tag)


def file_answer(
    request: Request, file: StaticFile, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a file, or that its client has it: 304."""
    is_packed = len(file.content) > BYTES_MIN and takes_gzip(
        request.headers.getlist("accept-encoding")
    )
    said = {**(headers or {}), "Vary": "Accept-Encoding"}
    said["ETag"] = f"W/{file.tag}" if is_packed else file.tag  # it is that of other bytes
    if file.tag in request.headers.get("if-none-match", ""):  # in its quotes, among others or alone
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=said)
    if is_packed:
        said["Content-Encoding"] = "gzip"
    return Response(file.packed if is_packed else file.content, headers=said, media_type=file.kind)
