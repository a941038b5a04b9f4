"""What another server than S3 answers with success stores nothing, and is no empty place."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Self

import pytest
from botocore.exceptions import ClientError

from ledger.core.errors import ArchiveError
from ledger.reads.archive.places.s3 import S3Place

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


class Holding:
    """A client of a bucket whose every object exists, with this content."""

    def __init__(self, code: str, data: bytes) -> None:
        self._code, self._data = code, data

    async def put_object(self, **_request: Any) -> dict[str, Any]:
        """Refuse a put."""
        raise ClientError({"Error": {"Code": self._code}}, "PutObject")

    async def get_object(self, **_request: Any) -> dict[str, Any]:
        """Answer a get."""
        return {"Body": Body(self._data)}


class Body:
    """The body of an object."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def read(self) -> bytes:
        """Return all of it."""
        return self._data


@pytest.mark.parametrize("code", ["PreconditionFailed", "412", "ConditionalRequestConflict", "409"])
async def test_a_refused_put_compares(code: str) -> None:
    """An object that is there is no error if it is equal; another one is."""
    place = S3Place(URL, Holding(code, b"one"))
    await place.put("segment", b"one")
    with pytest.raises(ArchiveError, match="segment"):
        await place.put("segment", b"two")
