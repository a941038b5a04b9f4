"""A place that is a local folder.

An object is written to a temporary file, synced, and linked to its name, which fails if the name
exists: so an object is complete or absent, however the process or the machine ends. Temporary files
of processes that ended are removed by a later put, after a day.
"""

import errno
import os
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

from ledger.core.errors import ArchiveError
from ledger.core.urls import FILES
from ledger.reads.archive.places.memory import check_size, checked_length, missing, other_there
from ledger.reads.archive.places.port import checked_name
from ledger.runtime.clock import Clock
from ledger.runtime.files import keep_access

TEMPORARY = ".part"
KEPT = timedelta(days=1)
THREADS_MAX = 8
"""Calls of a place that are under way at once, each in a thread; the others wait."""
Result = TypeVar("Result")


class FilePlace:
    """A folder, created at the first put; on a volume that all processes share.

    Once it has existed it is not created again: it was removed, or its volume is not mounted.
    """

    def __init__(self, url: str, *, clock: Clock) -> None:
        self.url = url
        self._folder = Path(url.removeprefix(FILES))
        self._was_there = False
        with suppress(OSError):  # the first call reports the error
            self._was_there = self._folder.is_dir()
        self._clock = clock
        self._is_swept = False
        self._threads = CapacityLimiter(THREADS_MAX)

    async def put(self, name: str, data: bytes) -> None:
        """Put an object; see `Place.put`."""
        checked_name(name)
        if not await self._run(partial(self._put, name, data)) and await self.get(name) != data:
            raise other_there(self.url, name)

    async def get(self, name: str, *, start: int = 0, length: int | None = None) -> bytes:
        """Return an object or a part of it; see `Place.get`."""
        data = await self._run(partial(self._get, checked_name(name), start, length))
        return checked_length(data, length, self.url, name)

    async def names(self, after: str = "") -> AsyncIterator[str]:
        """Yield the names of all objects; see `Place.names`."""
        for name in await self._run(self._names):
            if name > after:
                yield name

    async def replace(self, name: str, data: bytes) -> None:
        """Put an object in place of another; see `Place.replace`."""
        await self._run(partial(self._replace, checked_name(name), data))

    async def delete(self, name: str) -> None:
        """Delete an object."""
        await self._run(partial((self._folder / checked_name(name)).unlink, missing_ok=True))

    async def region(self) -> str | None:
        """Return None: a folder is not in a region of AWS."""
        return None

    async def _run(self, call: Callable[[], Result]) -> Result:
        try:
            return await to_thread.run_sync(partial(self._done, call), limiter=self._threads)
        except FileNotFoundError as error:
            raise missing(self.url, Path(str(error.filename)).name) from None
        except OSError as error:
            raise self._failed(f"{error.strerror or error}: {error.filename}", error) from None

    def _done(self, call: Callable[[], Result]) -> Result:
        """Do something with the folder, if it still exists.

        Raises:
            ArchiveError: it does not.
        """
        self._check_there()
        try:
            return call()
        except FileNotFoundError:
            self._check_there()  # it may have been removed meanwhile
            raise

    def _check_there(self) -> None:
        is_there = self._folder.is_dir()
        if self._was_there and not is_there:
            raise ArchiveError(
                f"{self.url}: the folder is gone: it was removed, or its volume is not mounted any"
                " more; it is not created again",
                reason="ENOENT",
            )
        self._was_there = is_there

    def _failed(self, text: str, error: OSError) -> ArchiveError:
        reason = errno.errorcode.get(error.errno or 0, "")
        return ArchiveError(f"{self.url}: {text}", reason=reason)

    def _put(self, name: str, data: bytes) -> bool:
        """Write an object; return False if the name exists."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            text = f"the folder cannot be made: {error.strerror or error}: {error.filename}"
            raise self._failed(text, error) from None
        self._was_there = True
        self._sweep()
        temporary = self._written(name, data)
        try:
            os.link(temporary, self._folder / name)
        except FileExistsError:
            return False
        finally:
            temporary.unlink()
        self._sync()
        return True

    def _replace(self, name: str, data: bytes) -> None:
        written, path = self._written(name, data), self._folder / name
        if path.exists():
            keep_access(path, written)
        written.replace(path)
        self._sync()

    def _written(self, name: str, data: bytes) -> Path:
        temporary = self._folder / f".{name}.{os.getpid()}{TEMPORARY}"
        try:
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError:  # a full disk gets no fuller
            temporary.unlink(missing_ok=True)
            raise
        return temporary

    def _sync(self) -> None:
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _sweep(self) -> None:
        """Remove, once per process, temporary files that others left unfinished."""
        if self._is_swept:
            return
        self._is_swept = True
        before = (self._clock.now() - KEPT).timestamp()
        for left in self._folder.glob(f".*{TEMPORARY}"):
            if left.stat().st_mtime < before:
                left.unlink(missing_ok=True)

    def _get(self, name: str, start: int, length: int | None) -> bytes:
        with (self._folder / name).open("rb") as file:
            left = max(0, file.seek(0, os.SEEK_END) - start)
            check_size(left if length is None else min(left, length), self.url, name)
            file.seek(start)
            return file.read(-1 if length is None else length)

    def _names(self) -> list[str]:
        if not self._folder.exists():
            return []
        return sorted(path.name for path in self._folder.iterdir() if not path.name.startswith("."))
