"""The page of limits says what the code has: each row names a constant or a setting."""

import re
from importlib import import_module
from pathlib import Path

import pytest

import ledger
from ledger import Region, Settings

PAGE = (Path(ledger.__file__).parent / "docs/reference/limits.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| .*\| ([0-9,]+)(?: (KB|MB))?[a-z ]*\| `([\w.]+)` \|$", flags=re.MULTILINE)
ROWS = ROW.findall(PAGE)
UNITS = {"": 1, "KB": 1024, "MB": 1024 * 1024}


def limit_of(path: str) -> object:
    """Return the value of a constant, of a class's default, or of a setting."""
    if path.startswith("Settings."):
        found: object = Settings(regions={"us-east-1": Region()})
        names = path.split(".")[1:]
    else:
        module, names = _module_of(path.split("."))
        found = import_module(module)
    for name in names:
        fields = getattr(found, "__dataclass_fields__", {})
        found = fields[name].default if name in fields else getattr(found, name)
    return found


def _module_of(parts: list[str]) -> tuple[str, list[str]]:
    first = next(at for at, part in enumerate(parts) if part[0].isupper())
    return ".".join(parts[:first]), parts[first:]


def test_every_row_of_the_page_is_compared() -> None:
    """A row in another form would be compared with nothing."""
    rows = [line for line in PAGE.split("\n") if line.startswith("| ")]
    assert len(ROWS) == len([line for line in rows if not line.startswith("| limit |")])


@pytest.mark.parametrize(("number", "unit", "path"), ROWS, ids=[path for _, _, path in ROWS])
def test_the_page_says_what_the_code_has(number: str, unit: str, path: str) -> None:
    """The value is that of the code."""
    assert limit_of(path) == int(number.replace(",", "")) * UNITS[unit]
