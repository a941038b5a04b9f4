"""The compactor as it runs in production: `compactor run --every`, a process with metrics."""

import re
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.request import urlopen

import anyio
from prometheus_client.parser import text_string_to_metric_families

from lab.harness.command import command_words
from lab.harness.config import write_config
from lab.harness.process_clock import ProcessClock
from lab.harness.processes import ManagedProcess
from ledger.runtime.clock import Clock
from ledger.settings import Settings

STOP_SECONDS_MAX = 15.0
SCRAPE_SECONDS_MAX = 5.0
_ANNOUNCED = re.compile(r"metrics on (http://\S+)")


class CompactorProcess(ManagedProcess):
    """A compactor and its metrics page."""

    async def metrics(self) -> Mapping[str, float]:
        """Return the sum over all labels of each sample.

        Raises:
            ProcessEnded: the compactor has ended by itself.
        """
        url = await self.announced(_ANNOUNCED)
        self.check_running()
        return await anyio.to_thread.run_sync(_scrape, str(url))


@asynccontextmanager
async def run_compactor(
    settings: Settings, folder: Path, *, every: str
) -> AsyncIterator[CompactorProcess]:
    """Run the compactor until the block ends; its log goes to `folder`.

    Raises:
        ProcessEnded: it did not start.
    """
    words = [*compactor_words(write_config(settings, folder), every=every), "--metrics-port", "0"]
    process = CompactorProcess(
        "compactor", words, log=folder / "compactor.log", stop_seconds=STOP_SECONDS_MAX
    )
    async with process.started():
        await process.metrics()
        yield process


def clocked_compactor(
    name: str, settings: Settings, folder: Path, *, every: str, clock: Clock
) -> ManagedProcess:
    """Return a compactor with a settings file and clocks of its own."""
    return ManagedProcess(
        name,
        compactor_words(write_config(settings, folder / name), every=every),
        log=folder / f"{name}.log",
        clock=ProcessClock(folder / f"{name}.clock", clock=clock),
    )


def compactor_words(config: Path, *, every: str) -> list[str]:
    """Return the words that start a compactor as it runs in production."""
    return command_words("compactor", "run", "--every", every, "--config", str(config))


def _scrape(url: str) -> Mapping[str, float]:
    with urlopen(url, timeout=SCRAPE_SECONDS_MAX) as page:  # noqa: S310 (our own page)
        text = page.read().decode()
    sums: dict[str, float] = defaultdict(float)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            sums[sample.name] += sample.value
    return sums
