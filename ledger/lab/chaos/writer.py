"""A writer's process: makes the calls that come as lines on its input, and answers in lines.

Its work is to be killed in the midst of it. It ends with its input.
"""

import json
import os
import sys
from collections.abc import AsyncIterator

import anyio
from prometheus_client import CollectorRegistry

from ledger.lab.chaos.calls import ANSWER, CALL, make
from ledger.ledger import Ledger
from ledger.settings import Settings

READ_BYTES = 65_536


async def serve(settings: Settings, region: str) -> None:
    """Make calls in a region, any number at once, until the input ends."""
    registry = CollectorRegistry()
    async with (
        Ledger.open(settings, region=region, registry=registry) as ledger,
        anyio.create_task_group() as tasks,
    ):
        async for line in _lines():
            tasks.start_soon(_answer, ledger, line)
        tasks.cancel_scope.cancel()


async def _answer(ledger: Ledger, line: bytes) -> None:
    answer = await make(ledger, CALL.validate_json(line))
    sys.stdout.buffer.write(ANSWER.dump_json(answer) + b"\n")
    sys.stdout.buffer.flush()


async def _lines() -> AsyncIterator[bytes]:
    rest = b""
    while True:
        await anyio.wait_readable(sys.stdin)
        read = os.read(sys.stdin.fileno(), READ_BYTES)
        if not read:
            return
        *lines, rest = (rest + read).split(b"\n")
        for line in lines:
            yield line


if __name__ == "__main__":
    anyio.run(serve, Settings(**json.loads(sys.argv[1])), sys.argv[2])
