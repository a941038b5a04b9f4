"""The head of a request: each name once, and text in one reading.

What stands twice is checked by its first value and used by its last, here or by a proxy on the way,
so it is refused. One rule: a header is there once, unless its value is a list by its definition
(RFC 9110, 5.3); so is a name of a query, unless its parameter is a list. `X-...` are left alone:
proxies add them, and the service reads none of them but the one that names callers, which has a
stricter rule.

Pure: no clock, no randomness, no I/O.
"""

import re
from collections import Counter
from collections.abc import Iterable

from ledger.core.errors import InvalidInput
from ledger.core.keys import ID_BYTES_MAX
from ledger.http.service.query_models import LISTS

_LISTS = re.compile(
    r"x-.*|accept(-.*)?|baggage|cache-control|cdn-loop|connection|cookie|forwarded|keep-alive|pragma"
    r"|prefer|priority|te|trailer|tracestate|upgrade|via|warning",
    re.ASCII,
)
"""Headers whose values are lists: the service reads Prefer and Accept-Encoding, each as a whole."""
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]+)(:[0-9]*)?", re.ASCII)
_ABSOLUTE = re.compile(r"https?://([^/?]*)([/?].*)?", re.ASCII | re.IGNORECASE)
VERSIONS = ("1.0", "1.1")
"""The versions of HTTP that are spoken."""
PATH_BYTES_MAX = 3 * ID_BYTES_MAX + 512
"""How long a path may be, with the Host where that stands before the path: an id has three times as
many bytes where all of it is percent-encoded. A query may be as long as its head: it may have ids.
"""
QUERY_PARTS_MAX = 128
"""Parameters of a query: 100 ids, and what is said of them."""
NOT_ENCODED = re.compile(r"%(?![0-9A-Fa-f]{2})|[^\x00-\x7f]")
"""What percent-encoded text has nowhere."""


def check_headers(headers: Iterable[tuple[bytes, bytes]], version: str) -> None:
    """Check the headers of a request of a version of HTTP.

    Raises:
        InvalidInput: the version is another; one is there twice that may not be; Host is missing or
            no name (RFC 9112, 3.2); or the body is framed in a way that a proxy on the way may read
            otherwise (RFC 9112, 6.1).
    """
    if version not in VERSIONS:
        raise InvalidInput(f"HTTP must be {' or '.join(VERSIONS)}, got {version!r}")
    found = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in headers]
    for name, times in Counter(name for name, _ in found).items():
        if times > 1 and not _LISTS.fullmatch(name):
            raise InvalidInput(f"{name.title()} must be there once, got {times} of them")
    host, coding = dict(found).get("host"), dict(found).get("transfer-encoding")
    if coding is not None and (version == "1.0" or coding.lower() != "chunked"):
        raise InvalidInput(
            "Transfer-Encoding must be chunked, and HTTP/1.0 has none, got"
            f" {coding!r:.100} in HTTP/{version}"
        )
    if host is None and version != "1.0":
        raise InvalidInput(f"Host is missing: a request of HTTP/{version} has it")
    if host is not None and not _HOST.fullmatch(host):
        raise InvalidInput(
            f"Host must be a name or an address, with or without a port, got {host!r:.100}"
        )


def check_target(target: str, host: str | None) -> None:
    """Check the target of a request, which is a path, or else has the Host in it.

    Raises:
        InvalidInput: it has a fragment, or it is of another host or scheme (RFC 9112, 3.2).
    """
    if "#" in target:
        raise InvalidInput(f"a target has no fragment, got {target!r:.100}")
    if target.startswith(("/", "*")):
        return
    found = _ABSOLUTE.fullmatch(target)
    if found is None or found[1].lower() != (host or "").lower():
        raise InvalidInput(
            f"a target must be a path, or http:// or https:// and the Host, got {target!r:.100}"
        )


def head_of(
    method: bytes, target: bytes, version: str, headers: Iterable[tuple[bytes, bytes]]
) -> bytes:
    """Return a head without its header Upgrade, which is not taken (RFC 9110, 7.8).

    With the header llhttp, the parser, takes the body of the request for the next request.
    """
    lines = (b"%b: %b\r\n" % header for header in headers if header[0] != b"upgrade")
    return b"%b %b HTTP/%b\r\n%b\r\n" % (method, target, version.encode(), b"".join(lines))


def check_query(query: bytes) -> None:
    """Check the names and the encoding of a query.

    Raises:
        InvalidInput: it has too many parameters, each of which could be an error of its own; or a
            name is there twice that may not be, or it is not percent-encoded UTF-8.
    """
    if query.count(b"&") >= QUERY_PARTS_MAX:
        raise InvalidInput(f"a query may have up to {QUERY_PARTS_MAX} parameters")
    for name, times in Counter(_names(query)).items():
        if times > 1 and name not in LISTS:
            raise InvalidInput(f"query: {name!r:.100} must be there once, got {times} of them")


def _names(query: bytes) -> list[str]:
    try:
        _decoded(query)
    except UnicodeDecodeError:
        text = query.decode("latin-1")
        raise InvalidInput(
            f"query {text!r:.100} is not percent-encoded UTF-8 (a percent sign is %25)"
        ) from None
    parts = filter(None, query.split(b"&"))
    return [_decoded(part.partition(b"=")[0].replace(b"+", b" ")) for part in parts]


def _decoded(text: bytes) -> str:
    r"""Return percent-encoded UTF-8 in plain.

    Python's `unquote` takes a step for each code; this takes one for all, with `%41` as `\x41`.

    Raises:
        UnicodeDecodeError: it is no percent-encoded UTF-8.
    """
    codes = text.decode("ascii").replace("\\", "%5C").replace("%", "\\x")
    return codes.encode("ascii").decode("unicode_escape").encode("latin-1").decode()
