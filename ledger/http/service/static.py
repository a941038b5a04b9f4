"""Bytes that anybody may ask for: made once, plain and compressed, and named by their content.

So an answer without a token costs no more than others do, however long it is. Nothing of the table
is in them, so their length tells nothing (`compression`).
"""

import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from typing import Self

from starlette.requests import Request
from starlette.responses import Response

from ledger.http.service.compression import BYTES_MIN, takes_gzip


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
    known = request.headers.get("if-none-match", "")
    if file.tag in {tag.strip().removeprefix("W/") for tag in known.split(",")}:
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=said)
    if is_packed:
        said["Content-Encoding"] = "gzip"
    return Response(file.packed if is_packed else file.content, headers=said, media_type=file.kind)
