"""Opening the places of an archive by their URLs."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from ledger.archive.places.copies import Copies
from ledger.archive.places.files import FilePlace
from ledger.archive.places.port import Place
from ledger.core.errors import InvalidInput
from ledger.core.urls import S3, wrong_place
from ledger.runtime.clock import Clock


@asynccontextmanager
async def open_places(urls: Sequence[str], *, clock: Clock) -> AsyncIterator[Copies]:
    """Open places, S3's as the AWS SDK finds endpoint and credentials (AWS_ENDPOINT_URL_S3).

    Raises:
        InvalidInput: a URL is not one of a place.
        ArchiveError: the SDK has no credentials.
    """
    async with AsyncExitStack() as stack:
        places: list[Place] = []
        for url in urls:
            if wrong := wrong_place(url):
                raise InvalidInput(wrong)
            if url.startswith(S3):
                # Imported only here, since it brings botocore.
                from ledger.archive.places.s3 import open_s3  # noqa: PLC0415

                places.append(await stack.enter_async_context(open_s3(url)))
            else:
                places.append(FilePlace(url, clock=clock))
        yield Copies(places)
