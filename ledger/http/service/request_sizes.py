"""Counts what comes of a request: a head's bytes and headers, what is left of a body, its frames.

A head ends at 32 KB and 100 headers. So does a body in chunks, where trailers and the frames of
chunks are 32 KB more than what is in the chunks.

Pure: no clock, no randomness, no I/O.
"""

import re

from ledger.runtime.connections import HEAD_BYTES_MAX, HEADERS_MAX

PIECE_BYTES = 8 * 1024
CHUNKED_PIECE_BYTES_MIN = 64
"""How much is parsed between two looks at what was counted; a piece ends with a request's end."""
_PART_END = re.compile(rb"\r\n\r\n[\r\n]*")
"""The end of a head, and of a body in chunks, with the empty lines that follow."""
_HEADER_BYTES = len(b": \r\n")


class RequestSizes:
    """What has come of the request that comes on a connection."""

    def __init__(self) -> None:
        self.is_in_head = True
        self._head_bytes = self._fields = self._overhead = self._body_left = 0

    @property
    def is_overhead_long(self) -> bool:
        """Whether what came, but for what is in the body, is more than a request may have."""
        return self._overhead > HEAD_BYTES_MAX

    def begin(self) -> None:
        """Begin to count a request, whose head may begin while the one before it is answered."""
        self._head_bytes = self._fields = 0
        self.is_in_head = True

    def next_piece(self, data: bytes, start: int) -> bytes:
        """Return what is parsed next, up to an end as far as that can be told, and count it."""
        length = self._body_left or self._part_length(data, start)
        piece = data[start : start + min(length, PIECE_BYTES)]
        self._overhead += len(piece)
        return piece

    def _part_length(self, data: bytes, start: int) -> int:
        """Return how much is left of a head, or of a body in chunks."""
        least = 0 if self.is_in_head else CHUNKED_PIECE_BYTES_MIN
        end = _PART_END.search(data, start + least, start + PIECE_BYTES)
        return PIECE_BYTES if end is None else end.end() - start

    def take_target(self, size: int) -> bool:
        """Count a part of a target; return whether the head is too long by it."""
        self._head_bytes += size
        return self._head_bytes > HEAD_BYTES_MAX

    def take_header(self, name: bytes, value: bytes) -> bool:
        """Count a header, or a trailer; return whether the head, or the trailers, are too long."""
        self._fields += 1
        size = len(name) + len(value) + _HEADER_BYTES
        return self.take_target(size) or self._fields > HEADERS_MAX

    def end_head(self, length: bytes) -> None:
        """Begin to count a body of the length that its header says."""
        self.is_in_head = False
        self._overhead = 0
        self._body_left = int(length)

    def take_body(self, size: int) -> None:
        """Count a part of a body; its frames may be as long as itself."""
        self._overhead -= 2 * size
        self._body_left = max(0, self._body_left - size)

    def end(self) -> None:
        """Note that the request is whole."""
        self._overhead = self._body_left = 0
        self.is_in_head = True  # of the next one
