"""A file as a lane: its records with positions that are bound to the content before them.

::

    bytes      0 ........ place |  window, at most WINDOW_BYTES  |
    hash       of all of these  |  goes on with each record
    claim      ............... put into the table before any record of the window is handed on

Reading goes on at a position only if the SHA-256 of what lies before it is the one in the
position. That reads it again: 1.7 GB a second on the machine that measured the pipeline, which
takes in some 2 MB a second, so a restart costs a thousandth of the work that it saves.

What is guaranteed: content that differs anywhere before the position is never continued. While the
file is open, its length and the last `TAIL_BYTES` that were read are compared at each reading, so
one that is cut, or written over, stops the lane. What is not: a change of earlier bytes of an open
file that leaves those as they are is found at the next start only.
"""

import gzip
import hashlib
import os
import zlib
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import NamedTuple, Protocol

import anyio.to_thread

from ledger.core.errors import InvalidInput, LedgerError
from ledger.pipeline.core.records import Delivery
from ledger.pipeline.sources.file_contents import (
    LINE_BYTES_MAX,
    WINDOW_BYTES,
    Readable,
    cannot_be_read,
    is_gzip,
    open_content,
)
from ledger.pipeline.sources.file_positions import Hash, new_hash, place_of, position_at
from ledger.pipeline.sources.record_cutter import HEAD_BYTES, Cutter, Format, cutter_of, too_long
from ledger.pipeline.sources.source import LagUnit

STEP_BYTES = 1 << 26
"""Hashed at once, so that a stop need not wait for the whole."""
TAIL_BYTES = 4096
HASHES_MAX = 32
"""Places from which a restart in the same process hashes on."""


class Claim(Protocol):
    """Makes known up to where a lane's records may have been begun."""

    @property
    def begun(self) -> str:
        """Up to where that is known: what lies before it is what it was then. Empty for nothing."""

    async def extend(self, position: str) -> None:
        """Make it known, durable when this returns.

        Raises:
            LedgerError: the lane is another file's.
            StoreError: the table could not be written.
        """


class FileSource:
    """A file of records; a position is where one ends, and a hash of all before.

    It may grow, by whole records; what was read of it must stay as it is. Blank lines are left
    out. A line over `bytes_max` is handed on by its beginning, with its length and hash, as one
    that cannot be taken. Reading ends at the end of the file, or, where `grows` is given, goes on
    there: it waits for more, and returns False once no more will come. `unfinished_bytes` are those
    of a last record without an end, which is not taken. gzip is known by its content; positions are
    of what it holds.
    """

    def __init__(
        self,
        path: Path,
        *,
        grows: Callable[[], Awaitable[bool]] | None = None,
        form: Format = "jsonl",
        bytes_max: int = LINE_BYTES_MAX,
        claim: Claim | None = None,
        file: Readable | None = None,
    ) -> None:
        self.unfinished_bytes = 0
        self.size_bytes = 0
        self._path = path
        self._grows = grows
        self._form = form
        self._bytes_max = bytes_max
        self._claim = claim
        self._file = file
        self._known: OrderedDict[int, _Known] = OrderedDict()

    @property
    def is_live(self) -> bool:
        """Whether it waits for more at the end of the file."""
        return self._grows is not None

    @property
    def lag_unit(self) -> LagUnit | None:
        """What is counted; None for a compressed file, whose length is not that of its content."""
        if self._file is None:
            return None if is_gzip(self._path) else "bytes"
        return None if isinstance(self._file, gzip.GzipFile) else "bytes"

    def lag_after(self, position: str) -> float:
        """Return how many bytes lie after a position by now; 0 once the file is not there."""
        try:
            of = self._path.stat() if self._file is None else os.fstat(self._file.fileno())
        except (OSError, ValueError):  # moved away, or closed
            return 0.0
        return float(max(0, of.st_size - place_of(position)))

    async def batches(self, after: str, *, most: int) -> AsyncGenerator[Sequence[Delivery], None]:
        """Yield the records after a position.

        Raises:
            LedgerError: the file cannot be read, is another than was read before, or was changed.
        """
        try:
            file: Readable | None = self._file
            if file is None:
                file = await anyio.to_thread.run_sync(open_content, self._path)
            try:
                async with aclosing(self._windows(file, after)) as windows:
                    async for found in windows:
                        for start in range(0, len(found), most):
                            yield found[start : start + most]
            finally:
                if file is not self._file:
                    file.close()
        except (OSError, EOFError, zlib.error) as error:
            raise cannot_be_read(self._path, error) from error
        except InvalidInput as error:
            raise InvalidInput(f"{self._path}: {error}") from None

    async def _windows(
        self, file: Readable, after: str
    ) -> AsyncGenerator[Sequence[Delivery], None]:
        reader = self._reader(file)
        await self._go_to(reader, after)
        await self._check_begun(reader, file)
        may_grow = self._grows is not None
        while True:
            self._remember(reader)
            found = await anyio.to_thread.run_sync(reader.window, may_grow)
            if reader.is_changed:
                raise self._changed(reader)
            if found:
                if self._claim is not None:
                    await self._claim.extend(found[-1].position)
                yield found
            elif reader.is_at_end:
                self.unfinished_bytes = reader.left_bytes
                self.size_bytes = reader.place + reader.left_bytes
                if self._grows is None or not may_grow:
                    return
                may_grow = await self._grows()

    def _reader(self, file: Readable) -> "_Reader":
        cutter = cutter_of(self._form, bytes_max=self._bytes_max)
        return _Reader(file, cutter, self._bytes_max)

    async def _check_begun(self, reader: "_Reader", file: Readable) -> None:
        """Check that what was begun after the position is what follows: it goes on with that.

        A lane that has committed nothing yet has only this to distinguish one file from another.
        """
        begun, known = "" if self._claim is None else self._claim.begun, reader.known()
        if place_of(begun) > reader.place and known is not None:
            self._remember(reader)
            await self._go_to(self._reader(file), begun)
            reader.begin(reader.place, known)

    async def _go_to(self, reader: "_Reader", position: str) -> None:
        """Move a reader to a position, over everything before it."""
        place = place_of(position)
        for known in sorted((offset for offset in self._known if offset <= place), reverse=True):
            if reader.begin(known, self._known[known]):
                break
        while reader.place < place:
            before = reader.place
            await anyio.to_thread.run_sync(reader.pass_over, min(STEP_BYTES, place - before))
            if reader.place == before:
                break
        if not reader.is_at(position):
            raise LedgerError(
                f"{self._path}: the {place:,} bytes that were read of this lane's file are not"
                " those: it is another file, or was changed. Run it as a lane of its own (without"
                " --lane, or with another name), or put the former content back"
            )
        if place:
            await anyio.to_thread.run_sync(reader.learn)

    def _remember(self, reader: "_Reader") -> None:
        if (known := reader.known()) is not None:
            self._known[reader.place] = known
            if len(self._known) > HASHES_MAX:
                self._known.popitem(last=False)

    def _changed(self, reader: "_Reader") -> LedgerError:
        return LedgerError(
            f"{self._path}: it was cut or written over while it was read, after {reader.place:,}"
            " bytes. What follows these in the former content is only in its copy, if there is"
            " one: run `ledger pipeline run COPY`, which continues there, and then this file again"
        )


class _Known(NamedTuple):
    """The content before a place: its hash, and its last bytes."""

    hash: Hash
    tail: bytes


class _Reader:
    """Reads one file from a place on, in windows. For one thread at a time."""

    def __init__(self, file: Readable, cutter: Cutter, bytes_max: int) -> None:
        self.place = 0
        self.hash = new_hash()
        self.is_at_end = False
        self.is_changed = False
        self._file = file
        self._cutter = cutter
        self._bytes_max = bytes_max
        self._window_bytes = max(WINDOW_BYTES, 4 * bytes_max)
        self._rest = b""
        self._long: _LongLine | None = None
        self._went_on: Delivery | None = None
        self._tail = b""
        self._is_plain = not isinstance(file, gzip.GzipFile)
        self._file.seek(0)

    @property
    def position(self) -> str:
        """The position that was reached."""
        return position_at(self.place, self.hash)

    @property
    def left_bytes(self) -> int:
        """Bytes after the place that were read, and are not a whole record."""
        return self._long.length if self._long else len(self._rest)

    def known(self) -> _Known | None:
        """Return the point where a later reader can begin, unless this one is amid a long line."""
        return None if self._long else _Known(self.hash.copy(), self._before_rest())

    def begin(self, place: int, known: _Known) -> bool:
        """Begin at a place that is known; return False if the file is not the same there."""
        self._file.seek(place - len(known.tail))
        if self._file.read(len(known.tail)) != known.tail:
            self._file.seek(0)
            return False
        self.place, self.hash, self._tail = place, known.hash.copy(), known.tail
        return True

    def is_at(self, position: str) -> bool:
        """Return whether this is the place of a position, and the file the one that it was of."""
        return self.position == position if position else self.place == 0

    def pass_over(self, most: int) -> None:
        """Read `count` bytes without looking for records."""
        left = most
        while left and (data := self._file.read(min(left, WINDOW_BYTES))):
            self.hash.update(data)
            self._note(data)
            self.place += len(data)
            left -= len(data)

    def learn(self) -> None:
        """Show the beginning of the file to the cutter."""
        self._file.seek(0)
        self._cutter.learn(self._file.read(self._bytes_max))
        self._file.seek(self.place)

    def window(self, may_grow: bool) -> list[Delivery]:  # noqa: FBT001 (a thread's)
        """Return the records of the next window; none may be there before the end, too."""
        data = self._read(self._window_bytes - len(self._rest))
        self.is_changed = self._is_plain and not self._is_as_before(data)
        if self.is_changed:
            return []
        self._note(data)
        self.is_at_end = not data
        if self._long is not None:
            data = self._go_on(self._long, data)
        return self._records(self._rest + data, is_last=self.is_at_end and not may_grow)

    def _records(self, data: bytes, *, is_last: bool) -> list[Delivery]:
        found = [self._went_on] if self._went_on else []
        self._went_on = None
        if self._long is not None:
            return found
        view, start, began = memoryview(data), 0, self.place
        update = self.hash.update
        for size, raw, problem in self._cutter.cut(data, is_last=is_last):
            update(view[start : start + size])
            start += size
            if raw:
                found.append(Delivery(position_at(began + start, self.hash), raw, None, problem))
        self.place = began + start
        self._rest = data[start:]
        if len(self._rest) > self._bytes_max:
            self._long = _LongLine(self._rest)
            self.hash.update(self._rest)
            self._rest = b""
        return found

    def _go_on(self, long: "_LongLine", data: bytes) -> bytes:
        """Take in more of a long line; return what follows it."""
        end = data.find(b"\n")
        line = data if end < 0 else data[:end]
        long.add(line)
        self.hash.update(line if end < 0 else data[: end + 1])
        if end < 0:
            return b""
        self.place += long.length + 1
        problem = too_long(long.length, long.digest.hexdigest(), self._bytes_max)
        self._went_on = Delivery(self.position, long.head, problem=problem)
        self._long = None
        return data[end + 1 :]

    def _read(self, most: int) -> bytes:
        if isinstance(self._file, gzip.GzipFile):
            return self._file.read1(most)  # one that is cut short gives what there is
        return self._file.read(most)

    def _before_rest(self) -> bytes:
        return self._tail[: max(0, len(self._tail) - len(self._rest))]

    def _note(self, data: bytes) -> None:
        if data:
            self._tail = (self._tail + data[-TAIL_BYTES:])[-TAIL_BYTES:]

    def _is_as_before(self, data: bytes) -> bool:
        """Return whether the file ends where it did or later, after the bytes that it had."""
        upto = self._file.tell()
        descriptor = self._file.fileno()
        if os.fstat(descriptor).st_size < upto:
            return False
        if not data or not self._tail:
            return True
        start = upto - len(data) - len(self._tail)
        return os.pread(descriptor, len(self._tail), start) == self._tail


class _LongLine:
    """A line that is too long, as far as it was read: never held in full."""

    def __init__(self, beginning: bytes) -> None:
        self.head = beginning[:HEAD_BYTES]
        self.length = 0
        self.digest = hashlib.sha256()
        self.add(beginning)

    def add(self, data: bytes) -> None:
        """Take in what follows."""
        self.length += len(data)
        self.digest.update(data)
