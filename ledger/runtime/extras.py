"""Packages of extras: one message, whichever is not installed and whatever needs it.

The distribution is not on a package index, and another could take its name there: the message names
a package that exists, or this repository.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from types import MappingProxyType

from ledger.core.errors import PackageMissing

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
