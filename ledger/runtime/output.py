"""Output of commands: lines and JSON, in which text from users cannot control the terminal.

A note or the name of another tool's counter may contain terminal escapes that overwrite an amount,
or marks that reverse the display order. Tables are those of `ledger.runtime.console_tables`.

Packages of extras: one message, whichever is not installed and whatever needs it.

The distribution is not on a package index, and another could take its name there: the message names
a package that exists, or this repository.
"""

import codecs
import io
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from decimal import Decimal
from importlib.util import find_spec
from types import MappingProxyType
from typing import TextIO

from ledger.core import amounts
from ledger.core.errors import PackageMissing
from ledger.core.visible import is_invisible, is_visible


def printable(text: str) -> str:
    r"""Return text with each character escaped that is not visible, such as `\x1b`.

    Those are what `ledger.core.visible` calls invisible.
    Letters, signs and spaces of every script stay.
    """
    return text if is_visible(text) else "".join(map(_escaped, text))


def _escaped(sign: str) -> str:
    return sign.encode("unicode_escape").decode("ascii") if is_invisible(sign) else sign


def utc_text(at: datetime) -> str:
    """Return an aware time in UTC to the second, such as 2026-11-24T17:30:00Z."""
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")


def say(text: str, *, err: bool = False) -> None:
    """Print one line, optionally to standard error; flushed, so that it is in order with others.

    Raises:
        OSError: it cannot be written, as on a full disk.
    """
    stream = sys.stderr if err else sys.stdout
    stream.write(printable(text) + "\n")
    stream.flush()


def print_json(objects: Iterable[object]) -> None:
    """Print one object a line: mappings or dataclasses, with amounts as text and times as ISO.

    Raises:
        OSError: it cannot be written, as on a full disk.
    """
    for record in objects:
        text = json.dumps(record, default=plain, ensure_ascii=not _takes_all())
        sys.stdout.write(json_line(text))
    sys.stdout.flush()


def plain(value: object) -> object:
    """Return the JSON form of a value that JSON has no form for: amounts as text, times as ISO."""
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Decimal):
        return amounts.to_text(value)
    if isinstance(value, AbstractSet):
        return sorted(value)
    return value.isoformat() if isinstance(value, date) else str(value)


def json_line(text: str) -> str:
    """Return JSON as a line, with each character escaped in JSON's way that `printable` escapes."""
    return (text if is_visible(text) else "".join(map(_escaped_in_json, text))) + "\n"


def _escaped_in_json(sign: str) -> str:
    return sign if _escaped(sign) == sign else json.dumps(sign)[1:-1]


def _takes_all() -> bool:
    """Return whether standard output takes every character."""
    return codecs.lookup(sys.stdout.encoding or "ascii").name == "utf-8"


def utf8_output() -> TextIO:
    """Return standard output as a file of UTF-8, whatever the terminal's encoding is.

    For data that another program reads, whose format requires it.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
    return sys.stdout


def tolerate_encodings() -> None:
    r"""Let both streams write characters their encoding lacks as `\xe9`, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="backslashreplace")


EXTRAS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "aiodynamo": ("bench", "aiodynamo"),
        "aiokafka": ("kafka", "aiokafka"),
        "fastapi": ("service", "fastapi"),
        "httpx": ("client", "httpx"),
        "mangum": ("service", "mangum"),
        "matplotlib": ("bench", "matplotlib"),
        "opentelemetry": ("otel", "opentelemetry-api"),
        "pyarrow": ("parquet", "pyarrow"),
        "starlette": ("service", "fastapi"),
        "uvicorn": ("service", "uvicorn"),
    }
)
"""By the name that is imported, the extra that has it, and the name that is installed."""


@contextmanager
def needing(what: str) -> Iterator[None]:
    """Import what needs an extra in the body.

    Raises:
        PackageMissing: a package of an extra is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name not in EXTRAS:
            raise
        raise missing(name, what) from None


def check_installed(name: str, what: str) -> None:
    """Check that a package of an extra is installed, without importing it.

    Raises:
        PackageMissing: it is not.
    """
    if find_spec(name) is None:
        raise missing(name, what)


def missing(name: str, what: str) -> PackageMissing:
    """Return the error of something that needs a package which is not installed."""
    extra, package = EXTRAS[name]
    return PackageMissing(
        f"{what} needs {package}: pip install {package}, or from this repository"
        f" pip install '.[{extra}]'"
    )
