"""A process of another release: one step on a table, and what it saw, as JSON.

`python older_process.py CONFIG REGION STEP [ARGUMENT ...]`. It imports what every release has, and
nothing of the tests.
"""

import json
import sys
from decimal import Decimal
from pathlib import Path

import anyio
import yaml

from compactor import Compactor
from ledger import Ledger
from ledger.settings import Settings


async def main(settings: Settings, *words: str) -> None:
    """Do one step."""
    region, step, *arguments = words
    if step == "merge":
        report = await Compactor(settings).run_once()
        print(json.dumps({"is_success": report.is_success, "folds": report.folds}))
        return
    async with Ledger.open(settings, region=region) as ledger:
        match step, *arguments:
            case "record", counter, *changes:
                async with anyio.create_task_group() as tasks:
                    for change in changes:
                        tasks.start_soon(ledger.record, counter, Decimal(change))
                seen: object = len(changes)
            case "total", counter:
                seen = str((await ledger.total(counter, max_age=0)).value)
            case "history", counter:
                entries = [entry async for entry in ledger.history(counter)]
                seen = [[entry.id, str(entry.change), entry.count] for entry in entries]
            case _:
                raise SystemExit(f"unknown step {step}")
    print(json.dumps(seen))


if __name__ == "__main__":
    config = Path(sys.argv[1]).read_text(encoding="utf-8")
    anyio.run(main, Settings(**yaml.safe_load(config)), *sys.argv[2:])
