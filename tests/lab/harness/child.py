"""The child's side of a `ManagedProcess`: lines from its parent, values to it."""

import os
import sys
from collections.abc import AsyncIterator
from typing import Any

import anyio
from pydantic_core import to_json

READ_BYTES = 65_536


async def input_lines() -> AsyncIterator[bytes]:
    """Yield each line on standard input until it ends, as it does when the parent is gone."""
    rest = b""
    while True:
        await anyio.wait_readable(sys.stdin)
        read = os.read(sys.stdin.fileno(), READ_BYTES)
        if not read:
            return
        *lines, rest = (rest + read).split(b"\n")
        for line in lines:
            yield line


def send_value(value: Any) -> None:
    """Print a value to the parent as one line of JSON."""
    sys.stdout.buffer.write(to_json(value) + b"\n")
    sys.stdout.buffer.flush()
