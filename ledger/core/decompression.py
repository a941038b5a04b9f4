"""Bytes decompressed up to a bound: a few kilobytes can stand for gigabytes.

Pure: no clock, no randomness, no I/O.
"""

import zlib


def inflated_text(packed: bytes, *, bytes_max: int) -> str:
    """Return the text that bytes of zlib unpack to, all of them.

    Raises:
        ValueError: as `inflated`, others follow, or it is no UTF-8.
    """
    data, rest = inflated(packed, bytes_max=bytes_max)
    if rest:
        raise ValueError(f"{len(rest)} bytes follow the text")
    return data.decode()


def inflated(packed: bytes, *, bytes_max: int, window: int = zlib.MAX_WBITS) -> tuple[bytes, bytes]:
    """Return what one whole compressed stream unpacks to, and the bytes that follow it.

    `window` is zlib's, which also says how the stream begins. No more is unpacked than a byte
    beyond the bound.

    Raises:
        ValueError: it is damaged or cut, or has more than `bytes_max` bytes.
    """
    reader = zlib.decompressobj(window)
    try:
        data = reader.decompress(packed, bytes_max + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if len(data) > bytes_max:
        raise ValueError(f"it unpacks to over {bytes_max:,} bytes")
    if not reader.eof:
        raise ValueError("it is truncated")
    return data, reader.unused_data
