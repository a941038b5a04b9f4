"""Serves the page's files: read once, named by their content, under a policy that lets in no other.

The files are public: nothing of the table is in them. What the page shows it asks for with the
token that its user entered.
"""

from collections.abc import Mapping
from importlib.resources import files

from fastapi import APIRouter, Request
from starlette.responses import Response

from ledger.http.service.answers import CallRefused
from ledger.http.service.compression import StaticFile, file_answer
from ledger.http.wire.problems import NOT_FOUND

ROOT = "/"
INDEX = "index.html"
PREFIX = "/page/"
"""What the paths of all other files begin with."""
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
"""Nothing from elsewhere, nothing inline, and no text that becomes markup or code."""
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "X-Frame-Options": "DENY",
    # Asked for each time, and answered 304 while it is the same: an upgrade shows at once.
    "Cache-Control": "no-cache",
}


def is_page(path: str) -> bool:
    """Return whether a path is one of the page's, answered without a token."""
    return path == ROOT or path.startswith(PREFIX)


def _page_files() -> Mapping[str, StaticFile]:
    folder = files(__package__) / "static"
    found = {}
    for file in sorted(folder.iterdir(), key=lambda one: one.name):
        kind = TYPES.get(f".{file.name.rpartition('.')[2]}")
        if kind is not None:
            found[file.name] = StaticFile.of(file.read_bytes(), kind)
    return found


FILES = _page_files()
"""The page's files by name."""
router = APIRouter(include_in_schema=False)


@router.get(ROOT)
async def index(request: Request) -> Response:
    """Return the page."""
    return file_answer(request, FILES[INDEX], HEADERS)


@router.get(PREFIX + "{name}")
async def part(request: Request, name: str) -> Response:
    """Return a script, a style sheet or the icon of the page."""
    if name not in FILES or name == INDEX:
        raise CallRefused(NOT_FOUND, f"the page has no file {name!r:.100}")
    return file_answer(request, FILES[name], HEADERS)
