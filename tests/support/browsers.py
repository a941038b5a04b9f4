"""A browser without a window, for what a page looks like in the end."""

import shutil
import subprocess
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
SECONDS_MAX = 60.0


def find() -> str | None:
    """Return the browser of this machine, if it has one."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def dom_of(url: str, folder: Path, *, milliseconds: int = 2500) -> str:
    """Return a page's elements as they are after so long."""
    found = find()
    assert found is not None, "the test is marked tools('browser')"
    words = [
        found,
        *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
        *("--disable-background-networking", "--no-first-run", f"--user-data-dir={folder}"),
        *(f"--virtual-time-budget={milliseconds}", "--dump-dom", url),
    ]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS_MAX, check=True)
    return ran.stdout
