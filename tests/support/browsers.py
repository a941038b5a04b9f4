"""A browser without a window, if this machine has one, for what a page looks like in the end."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
REQUIRED = "LEDGER_REQUIRE_BROWSER"
SECONDS_MAX = 60.0


def browser() -> str:
    """Return the browser; skip the test, or fail it where one is required, if there is none."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        missing = f"none of {', '.join(NAMES)} is installed"
        if os.environ.get(REQUIRED):
            pytest.fail(f"{REQUIRED} is set: {missing}", pytrace=False)
        pytest.skip(missing)
    return found


def dom_of(url: str, folder: Path, *, milliseconds: int = 2500) -> str:
    """Return a page's elements as they are after so long."""
    words = [
        browser(),
        *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
        *("--disable-background-networking", "--no-first-run", f"--user-data-dir={folder}"),
        *(f"--virtual-time-budget={milliseconds}", "--dump-dom", url),
    ]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS_MAX, check=True)
    return ran.stdout
