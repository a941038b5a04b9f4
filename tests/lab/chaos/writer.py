"""A writer's process: makes the calls that come as lines on its input, and prints their results.

It is there to be killed while it works. It ends with its input. A table that cannot be reached when
it starts is opened again until it can be, as by whatever starts a service again.
"""

import sys
from contextlib import AsyncExitStack

import anyio
from prometheus_client import CollectorRegistry

from lab.faults.calls import CALL, make
from lab.harness.child import input_lines, send_value
from lab.harness.config import read_config
from ledger.core.errors import StoreError
from ledger.session.ledger import Ledger
from ledger.settings import Settings

OPEN_PAUSE_SECONDS = 0.5


async def serve(settings: Settings, region: str) -> None:
    """Make calls in a region, any number at once, until the input ends."""
    async with AsyncExitStack() as stack:
        ledger = await _open(stack, settings, region)
        tasks = await stack.enter_async_context(anyio.create_task_group())
        async for line in input_lines():
            tasks.start_soon(_answer, ledger, line)
        tasks.cancel_scope.cancel()


async def _open(stack: AsyncExitStack, settings: Settings, region: str) -> Ledger:
    while True:  # until killed
        opening = Ledger.open(settings, region=region, registry=CollectorRegistry())
        try:
            return await stack.enter_async_context(opening)
        except StoreError:
            await anyio.sleep(OPEN_PAUSE_SECONDS)


async def _answer(ledger: Ledger, line: bytes) -> None:
    send_value(await make(ledger, CALL.validate_json(line)))


if __name__ == "__main__":
    anyio.run(serve, read_config(sys.argv[1]), sys.argv[2])
