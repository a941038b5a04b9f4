"""The Python examples of every page for users, to be run as they are written."""

import logging
import re
import runpy
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
APART = ("deploy", "node_modules")
"""`deploy` explains files for tools, not code; hidden folders are no part of the project either."""

_BLOCK = re.compile(r"^```python\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
_SHOWN = re.compile(r"^ *# -> (.*)$", flags=re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Example:
    """One block of a page, with its place among the blocks of the page."""

    page: str
    number: int
    code: str

    @property
    def promised(self) -> list[str]:
        """The lines that it says it prints: those after `# ->`."""
        return _SHOWN.findall(self.code)

    def run(self, folder: Path) -> list[str]:
        """Run it as a script of a folder, which is the current one; return the lines it printed."""
        script = folder / "example.py"
        script.write_text(self.code, encoding="utf-8")
        printed = StringIO()
        with redirect_stdout(printed), root_logger_kept():
            runpy.run_path(str(script), run_name="__main__")
        return printed.getvalue().splitlines()

    def __str__(self) -> str:
        return f"{self.page}:{self.number}"


@contextmanager
def root_logger_kept() -> Iterator[None]:
    """Give the root logger its level and handlers back: a framework takes it over."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    try:
        yield
    finally:
        root.setLevel(level)
        root.handlers[:] = handlers


def pages() -> list[Path]:
    """Return every README and the documentation in `ledger/docs`."""
    found = {*ROOT.rglob("README.md"), *ROOT.glob("ledger/docs/**/*.md")}
    return [path for path in sorted(found) if _is_ours(path)]


def _is_ours(path: Path) -> bool:
    parts = path.relative_to(ROOT).parts
    return not any(part in APART or part.startswith(".") for part in parts)


def examples() -> list[Example]:
    """Return the Python blocks of every page."""
    return [
        Example(str(page.relative_to(ROOT)), number, code)
        for page in pages()
        for number, code in enumerate(_BLOCK.findall(page.read_text(encoding="utf-8")), 1)
    ]
