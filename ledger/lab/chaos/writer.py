"""A writer's process: makes the calls that come as lines on its input, and prints their results.

It is there to be killed while it works. It ends with its input.
"""

import sys

import anyio
from prometheus_client import CollectorRegistry

from ledger.lab.chaos.calls import CALL, make
from ledger.lab.harness.child import input_lines, send_value
from ledger.lab.harness.config import read_config
from ledger.ledger import Ledger
from ledger.settings import Settings


async def serve(settings: Settings, region: str) -> None:
    """Make calls in a region, any number at once, until the input ends."""
    registry = CollectorRegistry()
    async with (
        Ledger.open(settings, region=region, registry=registry) as ledger,
        anyio.create_task_group() as tasks,
    ):
        async for line in input_lines():
            tasks.start_soon(_answer, ledger, line)
        tasks.cancel_scope.cancel()


async def _answer(ledger: Ledger, line: bytes) -> None:
    send_value(await make(ledger, CALL.validate_json(line)))


if __name__ == "__main__":
    anyio.run(serve, read_config(sys.argv[1]), sys.argv[2])
