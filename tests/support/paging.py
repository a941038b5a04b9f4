"""The service as a process, and its page in a browser: Debian's Chromium, driven by playwright."""

import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx
from support import browsers
from support.commands import command_line
from support.trial.processes import started

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page

START_SECONDS_MAX = 90.0
"""How long a process may take to listen; it is given up earlier only if it has ended."""
WAIT_MS = 60_000
"""How long anything may take to appear on the page: a bound for failures, not a measurement."""
DESK, PHONE = (1280, 900), (390, 844)
EXPECTED = re.compile(r"Failed to load resource: the server responded with a status of 4\d\d")
"""What Chromium says of each answer that is a problem; the page shows it, and a test looks."""


@dataclass(frozen=True, slots=True)
class ServedRegions:
    """Where the service of each region listens: home, and another one."""

    home: str
    away: str

    def write(self, counter: str, change: str, *, away: bool = False, **body: Any) -> Any:
        """Write an entry and return it."""
        base = self.away if away else self.home
        path = f"{base}/v1/counters/{quote(counter, safe='')}/entries"
        answer = httpx.post(path, json={"change": change, **body}, timeout=30)
        answer.raise_for_status()
        return answer.json()

    def total(self, counter: str) -> str:
        """Return a counter's total of now, at home."""
        path = f"{self.home}/v1/counters/{quote(counter, safe='')}"
        found: str = httpx.get(path, params={"max_age": 0}, timeout=30).json()["value"]
        return found

    def wait_listed(self, *counters: str) -> None:
        """Wait until the index lists counters: its compactor has seen them."""
        end = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < end:
            found = httpx.get(f"{self.home}/v1/counters", params={"limit": 1000}, timeout=30)
            if {*counters} <= {one["counter"] for one in found.json()["counters"]}:
                return
            time.sleep(0.2)
        raise AssertionError(f"not listed: {counters}")


@contextmanager
def served_regions(folder: Path, *words: str) -> Iterator[ServedRegions]:
    """Run `ledger serve --local` with these options, on free ports."""
    asked = command_line("ledger", "serve", "--local", "--port", "0", *words)
    worker = started(asked, folder, "serve")
    try:
        end, found = time.monotonic() + START_SECONDS_MAX, dict[str, str]()
        while len(found) < 2:
            assert worker.is_alive, worker.said()
            assert time.monotonic() < end, worker.said()
            time.sleep(0.1)
            said = worker.said_since_start()
            found = dict(re.findall(r"^(\S+) is served at (http\S+)$", said, re.MULTILINE))
        yield ServedRegions(found["us-east-1"], found["eu-west-1"])
    finally:
        worker.process.terminate()
        try:
            worker.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            worker.kill()


@contextmanager
def chromium() -> Iterator["Browser"]:
    """Start a browser without a window."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 (a tool)

    found = browsers.find()
    assert found is not None, "the test is marked tools('browser')"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=found, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


@dataclass  # playwright sets attributes of its own
class Watched:
    """A page, and all that went wrong on it by its own account."""

    page: "Page"
    wrong: list[str] = field(default_factory=list)
    expected: Sequence[re.Pattern[str]] = (EXPECTED,)

    def go(self, url: str) -> "Page":
        """Go to an address of the page, even if only the part after # differs."""
        self.page.goto("about:blank")
        self.page.goto(url)
        return self.page

    def note(self, message: "ConsoleMessage") -> None:
        """Note what the console says, policy violations among it."""
        if message.type in {"error", "warning"}:
            self.wrong.append(message.text)

    def unexpected(self) -> list[str]:
        """Return what went wrong beside what the test expects."""
        return [text for text in self.wrong if not any(one.match(text) for one in self.expected)]


@contextmanager
def watched_page(
    browser: "Browser", *, size: tuple[int, int] = DESK, scheme: Any = "light"
) -> Iterator[Watched]:
    """Open a tab; at the end nothing unexpected may have been said on its console."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, timezone_id="UTC"
    )
    context.set_default_timeout(WAIT_MS)
    watched = Watched(context.new_page())
    watched.page.on("console", watched.note)
    watched.page.on("pageerror", lambda error: watched.wrong.append(str(error)))
    watched.page.on("dialog", lambda dialog: watched.wrong.append(f"dialog {dialog.message}"))
    try:
        yield watched
        assert watched.unexpected() == []
    finally:
        # A request that a test changes may be on its way still.
        watched.page.unroute_all(behavior="ignoreErrors")
        context.close()


def expect(what: Any) -> Any:
    """Return playwright's checks of a page or a part of it: each waits until what it says is so."""
    from playwright.sync_api import expect as checks  # noqa: PLC0415 (a tool)

    checks.set_options(timeout=WAIT_MS)
    return checks(what)


def counter_url(base: str, counter: str) -> str:
    """Return the address of a counter's view."""
    return f"{base}/#/counter/{quote(counter, safe='')}"


LOW_CONTRAST = (Path(__file__).parent / "contrast.js").read_text(encoding="utf-8")
"""Gives the number of texts seen, and those with too little contrast (WCAG 1.4.3, AA)."""
