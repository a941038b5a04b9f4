"""Every page of the reference that is made from the code, by its name."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from support.reference import commands, endpoints, errors, metrics, settings

FOLDER = Path(__file__).resolve().parents[3] / "ledger/docs/reference"
_MADE = "\n`python -m support.reference` makes this page from the code.\n"
PAGES: Mapping[str, Callable[[], str]] = MappingProxyType(
    {
        "commands": commands.page,
        "errors": errors.page,
        "http": endpoints.page,
        "metrics": metrics.page,
        "settings": settings.page,
    }
)


def path_of(name: str) -> Path:
    """Return the file of a page."""
    return FOLDER / f"{name}.md"


def text_of(name: str) -> str:
    """Return a page as the code makes it now, with a line under its title that says so."""
    title, _, rest = PAGES[name]().partition("\n")
    return f"{title}\n{_MADE}{rest}"
