"""A program that records keyed changes one after the other and notes what was acknowledged.

Run again with the same arguments it makes the very same calls.
"""

import sys
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import TextIO

import anyio

from ledger import Change, Ledger, Settings

COUNTERS = ("writer-1", "writer-2", "writer-3")


def calls(number: int, start: datetime, *, keyed: bool) -> Iterator[Change]:
    """Give the changes of a run that began at this time: amounts 1, 2, 3 and so on."""
    for place in range(number):
        counter = COUNTERS[place % len(COUNTERS)]
        if keyed:
            at = start + timedelta(milliseconds=place)
            yield Change(counter, place + 1, key=f"order-{place}", at=at)
        else:
            yield Change(counter, place + 1)


async def write(settings: Settings, region: str, asked: Iterable[Change], notes: TextIO) -> None:
    """Record them all."""
    async with Ledger.open(settings, region=region) as ledger:
        for change in asked:
            entry = await ledger.record(change.counter, change.change, key=change.key, at=change.at)
            notes.write(f"{entry.counter} {entry.id}\n")


if __name__ == "__main__":
    config, region, start, number, kind, noted = sys.argv[1:]
    asked = calls(int(number), datetime.fromisoformat(start), keyed=kind == "keyed")
    with Path(noted).open("a", encoding="utf-8", buffering=1) as file:
        anyio.run(write, Settings.load(config), region, asked, file)
