"""The compactor as it runs in production: `compactor run --every`, a process with metrics."""

import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.request import urlopen

import anyio
import yaml
from prometheus_client.parser import text_string_to_metric_families

from ledger.core.errors import LedgerError
from ledger.runtime.clock import blocking_sleep
from ledger.settings import Settings

POLL_SECONDS = 0.05
STOP_SECONDS_MAX = 15.0
SCRAPE_SECONDS_MAX = 5.0
_ANNOUNCED = re.compile(r"metrics on (http://\S+)")


class CompactorProcess:
    """A running compactor and its metrics page."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self._process = process
        self._url = url

    def check(self) -> None:
        """Return if it still runs.

        Raises:
            LedgerError: it has ended by itself.
        """
        status = self._process.poll()
        if status is not None:
            raise LedgerError(f"the compactor ended by itself with status {status}")

    async def metrics(self) -> Mapping[str, float]:
        """Return the sum over all labels of each sample, and of each with its `kind` label."""
        return await anyio.to_thread.run_sync(self._scrape)

    def _scrape(self) -> Mapping[str, float]:
        with urlopen(self._url, timeout=SCRAPE_SECONDS_MAX) as page:  # noqa: S310 (our own page)
            text = page.read().decode()
        sums: dict[str, float] = defaultdict(float)
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                sums[sample.name] += sample.value
                if "kind" in sample.labels:
                    sums[f"{sample.name}:{sample.labels['kind']}"] += sample.value
        return sums


@asynccontextmanager
async def run_compactor(
    settings: Settings, folder: Path, *, every: str
) -> AsyncIterator[CompactorProcess]:
    """Run the compactor in a process of its own until the block ends; its log goes to `folder`.

    Raises:
        LedgerError: it did not start.
    """
    process, url = await anyio.to_thread.run_sync(_start, settings, folder, every)
    try:
        yield CompactorProcess(process, url)
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(_stop, process)


def write_config(settings: Settings, folder: Path) -> Path:
    """Write the settings to a file for processes of their own."""
    config = folder / "regions.yaml"
    config.write_text(yaml.safe_dump(settings.model_dump(mode="json")), encoding="utf-8")
    return config


def compactor_words(config: Path, *, every: str) -> list[str]:
    """Return the words that start a compactor as it runs in production."""
    return [sys.executable, "-m", "compactor", "run", "--every", every, "--config", str(config)]


def _start(settings: Settings, folder: Path, every: str) -> tuple[subprocess.Popen[str], str]:
    """Start the process and wait until its log names the metrics page."""
    config = write_config(settings, folder)
    command = [*compactor_words(config, every=every), "--metrics-port", "0"]
    log_file = folder / "compactor.log"
    with log_file.open("w") as log:
        process = subprocess.Popen(command, stderr=log, text=True)  # noqa: S603 (our own module)
    while True:  # it either says so or ends
        text = log_file.read_text()
        if found := _ANNOUNCED.search(text):
            return process, found[1]
        if process.poll() is not None:
            raise LedgerError(f"the compactor did not start: {text.strip()[-300:]}")
        blocking_sleep(POLL_SECONDS)


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
