"""The demo's page of live totals, served on this machine: HTML, a script, and the totals as JSON.

It loads nothing from elsewhere and changes nothing. The demo publishes snapshots; the page polls
for the latest, and for the curves of the categories that it shows.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from threading import Lock, Thread
from typing import Any
from urllib.parse import parse_qs

from lab.pipeline_demo.page_curves import Curves
from ledger.core.errors import LedgerError
from ledger.runtime.clock import Clock, SystemClock

HOST = "127.0.0.1"
STATE = "/totals.json"
CURVES = "/curves.json"
"""The path of curves, with a `category` for each."""
_FILES = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/charts.js": ("charts.js", "text/javascript; charset=utf-8"),
}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self';"
    " connect-src 'self'; img-src data:; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


class Page:
    """The page while it is served at `url`."""

    def __init__(self, url: str, clock: Clock) -> None:
        self.url = url
        self._clock = clock
        self._state = b"{}"
        self._curves = Curves()
        self._lock = Lock()

    def publish(self, snapshot: Mapping[str, Any]) -> None:
        """Replace the snapshot that the page shows; its totals go on their curves."""
        self._state = json.dumps(snapshot).encode()
        with self._lock:
            self._curves.add(self._clock.now().timestamp(), snapshot["totals"])

    def answer(self, path: str) -> tuple[bytes, str] | None:
        """Return content and its type; None if there is nothing at this path."""
        path, _, query = path.partition("?")
        if path == STATE:
            return self._state, "application/json"
        if path == CURVES:
            with self._lock:
                curves = self._curves.of(parse_qs(query).get("category", []))
            return json.dumps(curves).encode(), "application/json"
        if path not in _FILES:
            return None
        name, kind = _FILES[path]
        return (files("lab.pipeline_demo") / "web" / name).read_bytes(), kind


@contextmanager
def serve_page(port: int, clock: Clock | None = None) -> Iterator[Page]:
    """Serve the page on this machine until the block ends; port 0 takes any free one.

    Raises:
        LedgerError: the port is taken or not allowed.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = page.answer(self.path)
            if found is None:
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            content, kind = found
            self.send_response(HTTPStatus.OK)
            headers = {"Content-Type": kind, "Content-Length": str(len(content)), **_HEADERS}
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Log nothing: the terminal belongs to the display."""

    try:
        server = ThreadingHTTPServer((HOST, port), Handler)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise LedgerError(f"the page cannot be served on port {port}: {reason.lower()}") from error
    page = Page(f"http://{HOST}:{server.server_port}/", clock or SystemClock())
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield page
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
