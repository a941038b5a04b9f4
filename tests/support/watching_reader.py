"""A program that reads a watched total once, and notes each crossing that it is called for."""

import sys
from pathlib import Path

import anyio

from ledger import Crossing, Ledger, Settings
from ledger.watches import crossings

COUNTER = "stock-7"
NAME = "low"


async def read(settings: Settings, region: str, noted: Path) -> None:
    """Read the total; what follows from it is done before the ledger is closed."""

    def note(crossing: Crossing) -> None:
        with noted.open("a", encoding="utf-8") as file:
            file.write(f"{crossing.id} {crossing.value} {crossing.repeated}\n")

    async with Ledger.open(settings, region=region) as ledger:
        ledger.watch("stock-*", below=10, rearm=20, call=note, name=NAME)
        await ledger.total(COUNTER, max_age=0)


if __name__ == "__main__":
    config, region, noted, repeat = sys.argv[1:]
    crossings.REPEAT_SECONDS = float(repeat)
    anyio.run(read, Settings.load(config), region, Path(noted))
