"""A place in a bucket of Amazon S3.

What AWS documents and this relies on: a read after a put shows it, in the bucket's region (Amazon
S3 User Guide, "Amazon S3 data consistency model": strong read-after-write consistency for PUT and
DELETE); a put with `If-None-Match: *` fails with 412 if an object of this key exists, with 409 if
another such put is under way ("Conditional writes"); S3 refuses a body whose SHA-256 differs from
`x-amz-checksum-sha256` ("Checking object integrity").
"""

import base64
import hashlib
from collections.abc import AsyncIterator, Awaitable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from http import HTTPStatus
from typing import Any, TypeVar

from aiobotocore.config import AioConfig
from aiohttp import ClientError as HttpError

from ledger.core.errors import ArchiveDamaged, ArchiveError
from ledger.core.urls import bucket_of
from ledger.reads.archive.places.memory import check_size, checked_length, missing, other_there
from ledger.reads.archive.places.port import checked_name
from ledger.runtime.aws_session import open_session
from ledger.runtime.foreign import FOREIGN, error_code

CONNECT_SECONDS = 5.0
READ_SECONDS = 30.0
ATTEMPTS_MAX = 4
_THERE = {"412", "PreconditionFailed"}
_UNDER_WAY = {"409", "ConditionalRequestConflict"}
_MISSING = {"404", "NoSuchKey"}
_NO_RANGE = {"416", "InvalidRange"}
Result = TypeVar("Result")


def s3_client() -> AbstractAsyncContextManager[Any]:
    """Return a client, to be entered; the SDK's own retries repeat requests, all of them harmless.

    Errors are botocore's.
    """
    config = AioConfig(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS_MAX},
    )
    opening: AbstractAsyncContextManager[Any] = open_session().create_client("s3", config=config)
    return opening


@asynccontextmanager
async def open_s3(url: str) -> AsyncIterator["S3Place"]:
    """Open a place in a bucket."""
    async with AsyncExitStack() as stack:
        try:
            client = await stack.enter_async_context(s3_client())
        except FOREIGN as error:
            raise ArchiveError(f"{url}: {error}") from None
        yield S3Place(url, client)


class S3Place:
    """A prefix of a bucket."""

    def __init__(self, url: str, client: Any) -> None:
        self.url = url
        self._bucket, self._prefix = bucket_of(url)
        self._client = client

    async def put(self, name: str, data: bytes) -> None:
        """Put an object; see `Place.put`."""
        checked_name(name)
        if not await self._put(name, data, IfNoneMatch="*") and await self.get(name) != data:
            raise other_there(self.url, name)

    async def get(self, name: str, *, start: int = 0, length: int | None = None) -> bytes:
        """Return an object or a part of it; see `Place.get`."""
        options: dict[str, Any] = {}
        if start or length is not None:
            end = "" if length is None else start + length - 1
            options["Range"] = f"bytes={start}-{end}"
        answer = await self._answer(
            name, self._client.get_object(**self._key(checked_name(name)), **options)
        )
        async with answer["Body"] as body:
            check_size(answer.get("ContentLength", 0), self.url, name)
            data: bytes = await self._answer(name, body.read())
        return checked_length(data, length, self.url, name)

    async def names(self, after: str = "") -> AsyncIterator[str]:
        """Yield the names of all objects; see `Place.names`."""
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=self._prefix, StartAfter=f"{self._prefix}{after}"
        )
        stream = aiter(pages)
        while (page := await self._answer("", anext(stream, None))) is not None:
            self._check("KeyCount" in page)
            for listed in page.get("Contents", ()):
                if name := listed["Key"].removeprefix(self._prefix):
                    yield name

    async def replace(self, name: str, data: bytes) -> None:
        """Put an object in place of another; see `Place.replace`."""
        await self._put(checked_name(name), data)

    async def delete(self, name: str) -> None:
        """Delete an object."""
        answer = await self._answer(
            name, self._client.delete_object(**self._key(checked_name(name)))
        )
        self._check(answer["ResponseMetadata"]["HTTPStatusCode"] == HTTPStatus.NO_CONTENT)

    async def region(self) -> str | None:
        """Return the bucket's region, as reported by S3 (HeadBucket, `x-amz-bucket-region`)."""
        answer = await self._answer("", self._client.head_bucket(Bucket=self._bucket))
        headers = answer["ResponseMetadata"]["HTTPHeaders"]
        found = answer.get("BucketRegion") or headers.get("x-amz-bucket-region")
        return None if found is None else str(found)

    def _key(self, name: str) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": f"{self._prefix}{name}"}

    async def _put(self, name: str, data: bytes, **options: Any) -> bool:
        """Put an object; return False if `if_absent` and one exists, or is being put."""
        checksum = base64.b64encode(hashlib.sha256(data).digest()).decode()
        request = self._client.put_object(
            **self._key(name), Body=data, ChecksumSHA256=checksum, **options
        )
        if (answer := await self._answer(name, _unless_there(request))) is None:
            return False
        self._check("ETag" in answer)
        return True

    def _check(self, is_true: bool) -> None:  # noqa: FBT001 (of one kind alone)
        """Refuse an answer that is not S3's, so that it does not count as done, or as empty.

        S3 returns an ETag for each put, the count of keys in each list, and 204 for a delete.
        Source: Amazon S3 API Reference, PutObject, ListObjectsV2, DeleteObject.
        """
        if not is_true:
            raise ArchiveError(f"{self.url}: the answer is not S3's: check the endpoint")

    async def _answer(self, name: str, request: Awaitable[Result]) -> Result:
        """Return the answer of a request; S3's errors as ours."""
        try:
            return await request
        except (*FOREIGN, HttpError) as error:
            code = error_code(error)
            if code in _MISSING and name:
                raise missing(self.url, name) from None
            if code in _NO_RANGE:
                raise ArchiveDamaged(
                    f"object {name} in {self.url} is truncated: it ends before the requested part"
                ) from None
            kind = code or type(error).__name__
            raise ArchiveError(f"{self.url}: {error or kind}", reason=kind) from None


async def _unless_there(request: Awaitable[Result]) -> Result | None:
    """Return the answer of a put; None if an object exists, or is being put."""
    try:
        return await request
    except FOREIGN as error:
        if error_code(error) in _THERE | _UNDER_WAY:
            return None
        raise
