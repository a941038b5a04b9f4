"""Writers' processes: calls are answered, unless the process dies of them."""

import sys
from pathlib import Path

import anyio
import pytest
from lab.chaos.writer_process import WriterProcess
from lab.faults.calls import Call, CallResult
from lab.harness.processes import ProcessEnded

from ledger.runtime.clock import SystemClock
from ledger.settings import Settings

WAIT_SECONDS_MAX = 30.0
ECHO = """
import json, sys
for line in sys.stdin:
    call = json.loads(line)
    if call["changes"][0][0] == "deadly":
        sys.exit(1)
    print(json.dumps({"number": call["number"], "outcome": "acknowledged"}), flush=True)
"""


async def test_a_call_of_a_writer_that_dies_has_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls are answered, also several at once; one that its process dies of is not."""
    settings = Settings(home="us-east-1", regions={"us-east-1": {}})
    writer = WriterProcess("us-east-1", settings, tmp_path, clock=SystemClock())
    monkeypatch.setattr(writer, "_words", [sys.executable, "-c", ECHO])
    results: dict[int, CallResult | None] = {}

    async def keep_running() -> None:
        with pytest.raises(ProcessEnded, match="writer-us-east-1 ended by itself"):
            await writer.run()

    async def call(number: int, counter: str) -> None:
        results[number] = await writer.call(Call("record", ((counter, 0),)))

    with anyio.fail_after(WAIT_SECONDS_MAX):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keep_running)
            async with anyio.create_task_group() as calls:
                for number in range(5):
                    calls.start_soon(call, number, "a")
            await call(5, "deadly")
    assert results == {**{n: CallResult(n, "acknowledged") for n in range(5)}, 5: None}
