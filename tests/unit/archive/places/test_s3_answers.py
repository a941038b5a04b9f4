"""What another server than S3 answers with success stores nothing, and is no empty place."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from ledger.archive.places.s3 import S3Place
from ledger.core.errors import ArchiveError

URL = "s3://bucket/ledger/"
GATEWAY: dict[str, Any] = {"ResponseMetadata": {"HTTPStatusCode": 200, "HTTPHeaders": {}}}


class Gateway:
    """A client that is answered with success by something else than S3."""

    async def put_object(self, **_request: Any) -> dict[str, Any]:
        """Answer a put."""
        return GATEWAY

    async def delete_object(self, **_request: Any) -> dict[str, Any]:
        """Answer a delete."""
        return GATEWAY

    def get_paginator(self, _operation: str) -> "Gateway":
        """Return what lists."""
        return self

    async def paginate(self, **_request: Any) -> AsyncIterator[dict[str, Any]]:
        """Answer a list."""
        yield GATEWAY


async def listed(place: S3Place) -> list[str]:
    """List a place."""
    return [name async for name in place.names()]


@pytest.mark.parametrize(
    "call",
    [
        lambda place: place.put("segment", b"data"),
        lambda place: place.replace("segment", b"data"),
        lambda place: place.delete("segment"),
        listed,
    ],
    ids=["put", "replace", "delete", "names"],
)
async def test_it_is_an_error(call: Callable[[S3Place], Awaitable[object]]) -> None:
    """No call takes such an answer: neither as done, nor as a list without objects."""
    with pytest.raises(ArchiveError, match="not S3's"):
        await call(S3Place(URL, Gateway()))
